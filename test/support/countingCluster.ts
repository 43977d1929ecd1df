import { setTimeout as sleep } from 'node:timers/promises';
import { startServer } from './gateway.ts';

/** A cluster whose queries run for a given time, and that counts how many do. */
export interface CountingCluster {
  readonly url: string;
  /** Most that ran at a time. */
  readonly most: number;
  readonly running: number;
  /** Queries that ended. */
  readonly ended: number;
  /** Time from the end of a query to the begin of the next one, milliseconds. */
  readonly gaps: readonly { readonly ms: number; readonly isOtherReplica: boolean }[];
}

/** @param runMs how long a query runs; Infinity: for ever */
export async function startCountingCluster(runMs: () => number): Promise<CountingCluster> {
  let count = 0;
  let last: { readonly at: number; readonly by: string } | null = null;
  const state = { url: '', most: 0, running: 0, ended: 0, gaps: [] as { ms: number; isOtherReplica: boolean }[] };
  const { url } = await startServer(async (request, response) => {
    const path = request.url ?? '';
    request.resume();
    if (path.startsWith('/v1/info')) {
      response.setHeader('content-type', 'application/json');
      response.end('{"starting":false}');
      return;
    }
    const { host, 'x-forwarded-host': name, 'x-forwarded-port': port } = request.headers;
    const base = name === undefined ? `http://${host}` : `http://${String(name).split(':')[0]}:${port}`;
    const answer = (id: string, goesOn: boolean) => {
      response.setHeader('content-type', 'application/json');
      const next = goesOn ? { nextUri: `${base}/v1/statement/executing/${id}/x/1` } : {};
      response.end(
        JSON.stringify({ id, infoUri: `${base}/ui/${id}`, ...next, stats: { state: goesOn ? 'RUNNING' : 'FINISHED' } }),
      );
    };
    if (request.method === 'POST') {
      state.running += 1;
      state.most = Math.max(state.most, state.running);
      if (last !== null) state.gaps.push({ ms: performance.now() - last.at, isOtherReplica: last.by !== base });
      last = null;
      answer(`20261123_000000_${String(count++).padStart(5, '0')}_count`, true);
      return;
    }
    const id = path.split('/')[4] ?? '';
    await sleep(Math.min(runMs(), 3_600_000), undefined, { ref: false });
    state.running -= 1;
    state.ended += 1;
    last = { at: performance.now(), by: base };
    answer(id, false);
  });
  state.url = url;
  return state;
}
