import { userAgent } from '../../model/version.ts';
import type { DataPlaneParts } from '../dataPlane.ts';

type KillParts = Pick<DataPlaneParts, 'names' | 'stickiness' | 'upstreams' | 'runningQueries'>;

/** Milliseconds for the response of a cluster. */
const TIME_LIMIT = 5_000;

/**
 * Result of a kill. `gone`: the cluster does not have the query any more. `rejected`: it rejects this user, or requires
 * credentials. `unknown`: no cluster is known to have it.
 */
export type KillResult =
  | { readonly kind: 'killed' | 'gone'; readonly cluster: string }
  | { readonly kind: 'rejected'; readonly cluster: string; readonly status: number }
  | { readonly kind: 'unreachable'; readonly cluster: string; readonly reason: string }
  | { readonly kind: 'unknown' };

/**
 * Ends a running query by the engine's own call, `DELETE /v1/query/{id}`, in the name of a user: the engine checks whether that
 * user may. Nothing else of the caller's is sent, no credentials. Never rejects for what the cluster does.
 */
export async function killAtCluster(
  { names, stickiness, upstreams, runningQueries }: KillParts,
  queryId: string,
  user: string,
): Promise<KillResult> {
  const lookup = await stickiness.find(queryId);
  if (typeof lookup === 'string') return { kind: 'unknown' };
  const { cluster, proxyTo } = lookup.owner;
  const upstream = upstreams.get(proxyTo);
  if (upstream === null) return { kind: 'unknown' };
  try {
    const headers = { 'user-agent': userAgent, ...names.clusterHeaders('User', user) };
    const { status } = await upstream.ask('DELETE', `/v1/query/${encodeURIComponent(queryId)}`, headers, TIME_LIMIT);
    const isGone = status === 404 || status === 410;
    if (status >= 300 && !isGone) return { kind: 'rejected', cluster, status };
    // Its client may never ask again: whatever counts the query hears of its end here.
    runningQueries.noteEnd(queryId, cluster);
    return { kind: isGone ? 'gone' : 'killed', cluster };
  } catch (error) {
    return { kind: 'unreachable', cluster, reason: error instanceof Error ? error.message : String(error) };
  }
}
