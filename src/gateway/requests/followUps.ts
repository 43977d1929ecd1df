import { isAskable, isPlausible, recognizeQueryId } from '../../routing/queryId.ts';
import { AskExchange, type Asked, undecidedQuery, unknownQuery } from '../askExchange.ts';
import { hasBody } from '../body.ts';
import type { DataPlaneContext, ProxiedRequest } from '../dataPlaneContext.ts';
import { ForwardExchange } from '../forwardExchange.ts';
import type { QueryOwner } from '../stickiness.ts';
import type { RequestSteps } from './requestSteps.ts';

/** Most questions to all clusters at once (design.md, fixed point 7). */
const MAX_ASKINGS = 16;

/** Requests about a query: they go to the cluster that owns it. */
export class FollowUps {
  readonly #context: DataPlaneContext;
  readonly #steps: RequestSteps;
  readonly #askings = new Map<string, Promise<Asked>>();

  constructor(context: DataPlaneContext, steps: RequestSteps) {
    this.#context = context;
    this.#steps = steps;
  }

  /** Finds the owner of the query that a request names, and sends the request there. */
  followUp(proxied: ProxiedRequest, id: string): void {
    const { stickiness, metrics } = this.#context;
    const owner = stickiness.ownerNow(id);
    if (owner !== null) {
      metrics.lookup('memory');
      this.toOwner(proxied, id, owner);
    } else if (!isPlausible(id) || stickiness.isMiss(id)) {
      metrics.lookup('missed');
      this.#context.refuse(proxied, unknownQuery(id));
    } else {
      proxied.trace?.step('lookup');
      this.#steps.settle(proxied, stickiness.find(id), (found) => {
        if (typeof found === 'string') this.#ask(proxied, id, found);
        else {
          metrics.lookup(found.source);
          this.toOwner(proxied, id, found.owner);
        }
      });
    }
  }

  /** Sends a request to the owner of its query. */
  toOwner(proxied: ProxiedRequest, queryId: string, owner: QueryOwner): void {
    const upstream = this.#context.upstreams.get(owner.baseUrl);
    if (upstream === null) this.#context.refuse(proxied, unknownQuery(queryId));
    else new ForwardExchange(this.#context, proxied, { queryId, owner }).start(upstream);
  }

  /**
   * Asks all clusters for a query that nobody has told this gateway of.
   * @param stored what the database said
   */
  #ask(proxied: ProxiedRequest, id: string, stored: 'unknown' | 'undecided'): void {
    const { metrics, table } = this.#context;
    const { method, pathKind, target } = proxied;
    const proof = recognizeQueryId(this.#context.paths, pathKind, target.path, null) === id;
    const asking = proof ? id : `?${id}`;
    const running = this.#askings.get(asking);
    if (running !== undefined) {
      // One question an id: whoever comes meanwhile waits for its answer.
      this.#steps.settle(proxied, running, (asked) => {
        if (typeof asked === 'string') this.#refuse(proxied, id, asked);
        else this.toOwner(proxied, id, asked);
      });
      return;
    }
    if (!isAskable(id) || (method !== 'GET' && method !== 'HEAD' && method !== 'DELETE') || hasBody(proxied.request)) {
      metrics.lookup(stored);
      this.#refuse(proxied, id, stored);
      return;
    }
    if (this.#askings.size >= MAX_ASKINGS) {
      const message = `Too many unknown queries are being looked for; ask for ${id} again in a second.`;
      this.#context.refuse(proxied, { reason: 'too_many_lookups', message, queryId: id });
      return;
    }
    const { promise, resolve } = Promise.withResolvers<Asked>();
    this.#askings.set(asking, promise);
    const exchange = new AskExchange(this.#context, proxied, id, stored === 'unknown', proof, (asked) => {
      this.#askings.delete(asking);
      metrics.lookup(typeof asked === 'string' ? asked : 'asked');
      resolve(asked);
    });
    exchange.ask(table.current.clusters.values());
  }

  #refuse(proxied: ProxiedRequest, id: string, why: 'unknown' | 'undecided'): void {
    this.#context.refuse(proxied, why === 'unknown' ? unknownQuery(id) : undecidedQuery(id));
  }
}
