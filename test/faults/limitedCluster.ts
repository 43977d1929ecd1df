import { setTimeout as pause } from 'node:timers/promises';
import { startServer } from '../support/gateway.ts';

/** Most that ran at a time, by what was counted. */
export type Peaks = ReadonlyMap<string, number>;

/** Counts what runs at several clusters together: by cluster, by user, and all. */
export class RunningCounts {
  readonly #now = new Map<string, number>();
  readonly #most = new Map<string, number>();

  get most(): Peaks {
    return this.#most;
  }

  add(keys: readonly string[], by: 1 | -1): void {
    for (const key of keys) {
      const count = (this.#now.get(key) ?? 0) + by;
      this.#now.set(key, count);
      if (count > (this.#most.get(key) ?? 0)) this.#most.set(key, count);
    }
  }
}

/** A stand-in of an engine, in this process. */
export interface LimitedCluster {
  readonly url: string;
  /** How often each statement was taken, and how often one was begun. */
  readonly taken: ReadonlyMap<string, number>;
  readonly begun: ReadonlyMap<string, number>;
  /** From now on all queries end at once. */
  hurry(): void;
}

interface Query {
  readonly statement: string;
  readonly user: string;
  /** Monotonic milliseconds at which its work is done; null: it has not begun. */
  doneAt: number | null;
  isOver: boolean;
}

const MAX_POLL_MS = 1_000;

/**
 * Starts one. As engines do, it registers a query with its submission, begins it with the first request for it, runs it
 * for the milliseconds that its statement states (`SELECT name, 250`), if anybody asks meanwhile or not, and is done with it when its
 * last page was fetched, which it gives again to whom asks again.
 */
export async function startLimitedCluster(name: string, counts: RunningCounts): Promise<LimitedCluster> {
  const queries = new Map<string, Query>();
  const taken = new Map<string, number>();
  const begun = new Map<string, number>();
  const countIn = (of: Map<string, number>, key: string) => of.set(key, (of.get(key) ?? 0) + 1);
  const suffix = `${name}${'x'.repeat(5)}`.slice(0, 5);
  let isHurried = false;
  const server = await startServer((request, response) => {
    const answer = (value: object) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(value));
    };
    const base = `http://${request.headers['x-forwarded-host']}:${request.headers['x-forwarded-port']}`;
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => {
      body += chunk;
    });
    request.on('end', async () => {
      if (request.url === '/v1/info') {
        answer({ starting: false });
        return;
      }
      const uri = (id: string) => `${base}/v1/statement/executing/${id}/slug/1`;
      if (request.method === 'POST') {
        const id = `20261123_000000_${String(queries.size).padStart(5, '0')}_${suffix}`;
        queries.set(id, {
          statement: body,
          user: String(request.headers['x-engine-user']),
          doneAt: null,
          isOver: false,
        });
        countIn(taken, body);
        answer({ id, infoUri: base, nextUri: uri(id), stats: { state: 'QUEUED' } });
        return;
      }
      const id = request.url?.split('/')[4] ?? '';
      const query = queries.get(id);
      if (query === undefined) {
        response.writeHead(404).end();
        return;
      }
      const keys = [name, query.user, 'all'];
      if (query.doneAt === null) {
        query.doneAt = performance.now() + Number(query.statement.split(', ')[1]);
        countIn(begun, query.statement);
        counts.add(keys, 1);
      }
      const left = isHurried ? 0 : query.doneAt - performance.now();
      if (left > 0) await pause(Math.min(left, MAX_POLL_MS));
      if (response.destroyed) return;
      if (!isHurried && performance.now() < query.doneAt) {
        answer({ id, infoUri: base, nextUri: uri(id), stats: { state: 'RUNNING' } });
        return;
      }
      if (!query.isOver) {
        query.isOver = true;
        counts.add(keys, -1);
      }
      answer({ id, infoUri: base, data: [[query.statement]], stats: { state: 'FINISHED' } });
    });
  });
  const hurry = () => {
    isHurried = true;
  };
  return { url: server.url, taken, begun, hurry };
}
