import { setTimeout as pause } from 'node:timers/promises';
import { cancel, follow, runQuery, submit } from '../support/statementClient.ts';

/** What clients do beside plain queries, each given the address of a replica and a count. @throws when it is not as it should be */
const habits: Readonly<Record<string, (base: string, count: number) => Promise<void>>> = {
  async cancels(base) {
    const page = await submit(base, 'SELECT * FROM TABLE(slow(seconds => 30))');
    const next = await follow(page.nextUri ?? '');
    if ((await cancel(next.nextUri ?? '')) !== 204) throw new Error('not cancelled');
  },
  async 'goes away in the middle'(base) {
    const page = await submit(base, 'SELECT * FROM TABLE(slow(seconds => 5))');
    const executing = await follow((await follow(page.nextUri ?? '')).nextUri ?? '');
    const away = AbortSignal.timeout(50);
    await fetch(executing.nextUri ?? '', { headers: { 'X-Engine-User': 'away' }, signal: away }).then(
      async (response) => void (await response.arrayBuffer()),
      () => undefined,
    );
  },
  async 'asks for a query that nobody knows'(base, count) {
    const id = `20200101_000000_${String(count % 100_000).padStart(5, '0')}_zzzzz`;
    const page = await follow(`${base}/v1/statement/executing/${id}/x/0`);
    if (page.error === undefined) throw new Error('a query that nobody knows was found');
  },
  async 'asks for a group without clusters'(base, count) {
    const page = await submit(base, 'SELECT 1', { headers: { 'X-Engine-Routing-Group': `none-${count % 50}` } });
    // The default group takes it.
    if (page.error !== undefined) throw new Error(page.error.message);
    await cancel(page.nextUri ?? '');
  },
  async 'sends a statement with an error'(base) {
    const { error } = await runQuery(base, 'SELECT no_such_column FROM tpch.tiny.nation');
    if (error === undefined) throw new Error('an error is missing');
  },
  async 'sends statements of many forms'(base, count) {
    const where = `WHERE n_name = 'name ${count % 500}' AND n_nationkey > ${count % 17}`;
    await cancel(
      (await submit(base, `SELECT n_name, count(*) FROM tpch.tiny.nation ${where} GROUP BY 1`)).nextUri ?? '',
    );
  },
  async 'sends a long statement'(base, count) {
    const page = await submit(base, `SELECT 1 -- ${'x'.repeat(200_000)}${count}`);
    await cancel(page.nextUri ?? '');
  },
  async 'takes a long result'(base) {
    const { rows } = await runQuery(base, 'SELECT * FROM TABLE(sequence(start => 1, stop => 20000))');
    if (rows.length !== 20_000) throw new Error(`${rows.length} rows instead of 20000`);
  },
  async 'reads the API'(base) {
    for (const path of ['/gateway/backend/all', '/readyz?verbose', '/metrics', '/openapi.json', '/v1/node']) {
      const response = await fetch(base + path, { signal: AbortSignal.timeout(30_000) });
      await response.arrayBuffer();
      if (response.status !== 200) throw new Error(`${path}: HTTP ${response.status}`);
    }
  },
  async 'asks why a query went where it went'(base) {
    const { id } = await runQuery(base, 'SELECT 1');
    const response = await fetch(`${base}/api/queries/${id}`, { signal: AbortSignal.timeout(30_000) });
    await response.arrayBuffer();
    // Not there for a flush interval.
    if (response.status !== 200 && response.status !== 404) throw new Error(`HTTP ${response.status}`);
  },
};

/** Clients with odd habits, until they are stopped. */
export interface Variety {
  /** How often each habit was followed. */
  readonly counts: ReadonlyMap<string, number>;
  /** What was not as it should be. */
  readonly surprises: readonly string[];
  stop(): Promise<void>;
}

/** Starts clients with odd habits, each at another replica and another habit every time. */
export function startVariety(bases: readonly string[], clients: number): Variety {
  const counts = new Map<string, number>();
  const surprises: string[] = [];
  const names = Object.keys(habits);
  let turn = 0;
  let stopping = false;
  const work = Array.from({ length: clients }, async () => {
    while (!stopping) {
      const count = turn++;
      const name = names[count % names.length] as string;
      const base = bases[Math.floor(count / names.length) % bases.length] as string;
      try {
        await habits[name]?.(base, count);
        counts.set(name, (counts.get(name) ?? 0) + 1);
      } catch (error) {
        surprises.push(`who ${name}: ${error}`);
      }
      await pause(50);
    }
  });
  return {
    counts,
    surprises,
    async stop() {
      stopping = true;
      await Promise.all(work);
    },
  };
}
