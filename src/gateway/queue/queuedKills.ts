import type { Refusal } from '../../routing/refusal.ts';
import type { QueuedQueryRepository } from '../../store/queuedQueryRepository.ts';
import type { BodyStart } from '../bodies/requestBodies.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { DurableQueue } from './durableQueue.ts';
import type { QueuedOwners } from './queuedOwners.ts';

export type KillResponse =
  /** A cluster has the query: the statement is rewritten to its id. */
  | { readonly kind: 'cluster'; readonly engineId: string; readonly body: BodyStart }
  | { readonly kind: 'killed' }
  | { readonly kind: 'rejected'; readonly refusal: Refusal };

export interface QueuedKillsDependencies {
  readonly repository: QueuedQueryRepository;
  readonly owners: Pick<QueuedOwners, 'haveSameCredentials'>;
  readonly queue: Pick<DurableQueue, 'dropAnywhere'>;
}

/** Calls of kill_query for queries that are or were queued: engines do not know their ids. */
export class QueuedKills {
  readonly #dependencies: QueuedKillsDependencies;

  constructor(dependencies: QueuedKillsDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Kills a queued query if the caller submitted it. Never rejects.
   * @param user of the call; null if unknown
   * @param id in the statement
   */
  async kill(proxied: ProxiedRequest, body: BodyStart, user: string | null, id: string): Promise<KillResponse> {
    const { repository, queue, owners } = this.#dependencies;
    try {
      const row = await repository.get(id);
      if (row === null) return rejection('unknown_query', id, 'no query of this id waits, or waited in the last days.');
      if (row.engineId !== null) return named(body, id, row.engineId);
      if (row.state !== 'waiting') return rejection('undecided_query', id, 'it is on its way to a cluster.');
      const isUser = user !== null && user === row.user;
      if (!isUser || !(await owners.haveSameCredentials(proxied.request.rawHeaders, row))) {
        const why = `it waits, and was sent by another user or with other credentials; an administrator can take it out (DELETE /api/queue/${id}).`;
        return rejection('denied', id, why);
      }
      await queue.dropAnywhere(row);
      return { kind: 'killed' };
    } catch {
      return rejection('undecided_query', id, 'the database cannot be read; try again in a second.');
    }
  }
}

/** The statement with the cluster's id and unchanged length: its length is announced. */
function named(body: BodyStart, id: string, engineId: string): KillResponse {
  const spaces = ' '.repeat(Math.max(0, id.length - engineId.length));
  const text = body.text.replaceAll(`'${id}'`, `'${engineId}'${spaces}`);
  if (!body.complete || text === body.text || engineId.length > id.length) {
    return rejection('unknown_query', id, `its cluster knows it as ${engineId}: kill that.`);
  }
  return { kind: 'cluster', engineId, body: { bytes: Buffer.from(text), complete: true, text } };
}

function rejection(reason: Refusal['reason'], id: string, why: string): KillResponse {
  return { kind: 'rejected', refusal: { reason, message: `Query ${id} cannot be killed: ${why}`, queryId: null } };
}
