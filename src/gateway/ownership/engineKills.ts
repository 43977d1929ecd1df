import type { ProductNames } from '../../model/names.ts';
import { withTimeLimit } from '../../model/timeLimit.ts';
import { userAgent } from '../../model/version.ts';
import type { Upstreams } from '../upstreams/upstreams.ts';
import type { RunningQueries } from './runningQueries.ts';
import type { Stickiness } from './stickiness.ts';

/** Milliseconds for the response of a cluster. */
const TIME_LIMIT = 5_000;

/**
 * Result of a kill. `gone`: the cluster does not have the query any more. `refused`: it rejects this user, or requires
 * credentials. `unknown`: no cluster is known to have it.
 */
export type KillResult =
  | { readonly kind: 'killed' | 'gone'; readonly cluster: string }
  | { readonly kind: 'refused'; readonly cluster: string; readonly status: number }
  | { readonly kind: 'unreachable'; readonly cluster: string; readonly reason: string }
  | { readonly kind: 'unknown' };

export interface EngineKillsDependencies {
  readonly names: ProductNames;
  readonly stickiness: Pick<Stickiness, 'find'>;
  readonly upstreams: Pick<Upstreams, 'get'>;
  /** Its client may never ask again: whatever counts the query hears of its end here. */
  readonly runningQueries: Pick<RunningQueries, 'noteEnd'>;
}

/**
 * Ends running queries by the engine's own call, `DELETE /v1/query/{id}`, in the name of a user: the engine checks whether that
 * user may. Nothing else of the caller's is sent, no credentials.
 */
export class EngineKills {
  readonly #dependencies: EngineKillsDependencies;

  constructor(dependencies: EngineKillsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Ends a query at the cluster that owns it. Never rejects for what the cluster does. */
  async kill(queryId: string, user: string): Promise<KillResult> {
    const { names, stickiness, upstreams, runningQueries } = this.#dependencies;
    const lookup = await stickiness.find(queryId);
    if (typeof lookup === 'string') return { kind: 'unknown' };
    const { cluster, proxyTo } = lookup.owner;
    const upstream = upstreams.get(proxyTo);
    if (upstream === null) return { kind: 'unknown' };
    const late = () => new Error(`no answer within ${TIME_LIMIT} ms`);
    upstream.requestStarted();
    try {
      const status = await withTimeLimit(TIME_LIMIT, late, async (signal) => {
        const { statusCode, body } = await upstream.pool.request({
          path: `${upstream.basePath}/v1/query/${encodeURIComponent(queryId)}`,
          method: 'DELETE',
          headers: { 'user-agent': userAgent, ...names.clusterHeaders('User', user) },
          headersTimeout: TIME_LIMIT,
          bodyTimeout: TIME_LIMIT,
          signal,
        });
        await body.dump();
        return statusCode;
      });
      const isGone = status === 404 || status === 410;
      if (status >= 300 && !isGone) return { kind: 'refused', cluster, status };
      runningQueries.noteEnd(queryId, cluster);
      return { kind: isGone ? 'gone' : 'killed', cluster };
    } catch (error) {
      return { kind: 'unreachable', cluster, reason: error instanceof Error ? error.message : String(error) };
    } finally {
      upstream.requestEnded();
    }
  }
}
