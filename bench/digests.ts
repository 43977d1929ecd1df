import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Pool } from 'undici';
import { emptyBody } from '../src/gateway/bodies/requestBodies.ts';
import { RecordedStatements } from '../src/gateway/outcomes/recordedStatement.ts';
import { productNames } from '../src/model/names.ts';
import { type SizeEstimate, SizeEstimates } from '../src/model/sizeEstimates.ts';
import { textReader } from '../src/rules/decide/conditionIndex.ts';
import type { RuleRequest } from '../src/rules/decision.ts';
import { statementDigests, statementLabels } from '../src/sql/statementDigests.ts';
import { tokenizeSql } from '../src/sql/syntax/lexer.ts';
import { hasPostgresql, startPostgresql } from '../test/support/postgresql.ts';
import { pathOf, type QueryResults } from '../test/support/statementClient.ts';
import { cpuMicroseconds } from './proxy/processTimes.ts';
import { startServe } from './proxy/serveProcess.ts';
import { startPagedCluster } from './replicas/pagedCluster.ts';
import { median } from './statistics.ts';

const ROUNDS = 7;
const ROUND_MS = 400;

/** A statement of a dashboard with about so many characters. @param number differs between statements */
function statement(characters: number, number: number): string {
  let columns = '';
  const rest = `SELECT date_trunc('day', e.created_at) AS day FROM hive.web.events e JOIN hive.web.dim_users u ON u.id = e.user_id WHERE e.region = '${number}' AND e.kind IN (1, 2, ${number}) GROUP BY 1 ORDER BY 1 LIMIT 100`;
  for (let i = 0; columns.length + rest.length < characters; i += 1) {
    columns += `, sum(e.amount_${i}) AS "Amount ${i}"`;
  }
  return rest.replace(' FROM', `${columns} FROM`);
}

/** Mean microseconds of processor time of a call over all texts, of the fastest round. */
function time(texts: readonly string[], call: (text: string) => unknown): number {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round += 1) {
    const start = performance.now();
    const before = process.threadCpuUsage();
    let calls = 0;
    do {
      for (const text of texts) call(text);
      calls += texts.length;
    } while (performance.now() - start < ROUND_MS);
    const { user, system } = process.threadCpuUsage(before);
    best = Math.min(best, (user + system) / calls);
  }
  return best;
}

const ESTIMATES = 10_000;

/** Estimates of as many exact statements and shapes as a replica holds. */
function estimates(): SizeEstimates {
  const all = (source: 'exact' | 'shape', from: number) =>
    new Map(
      Array.from({ length: ESTIMATES }, (_, i): [string, SizeEstimate] => {
        const seconds = (i + 1.5) / 1_000;
        const figures = { seconds, cpuSeconds: seconds / 2, peakMemoryBytes: 2 ** 31 + i, confidence: 0.87 };
        return [(from + i).toString(16).padStart(16, '0'), { sizeClass: 'M', ...figures, source, runs: i }];
      }),
    );
  return new SizeEstimates({ until: 1, exact: all('exact', 0), shapes: all('shape', ESTIMATES) });
}

/** Cost of estimates of statements with digests, and of the key by which rules remember a decision. */
function measureEstimates(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  const before = process.memoryUsage().heapUsed;
  const all = estimates();
  collect();
  const bytes = process.memoryUsage().heapUsed - before;
  const numbers = Array.from({ length: 200 }, (_, i) => (i * 97).toString(16).padStart(16, '0'));
  const read = time(numbers, (number) => all.read({ exact: number, shape: number }));
  const keyOf = textReader('estimate');
  const key = time(numbers, (number) => {
    const estimates = { read: () => all.read({ exact: number, shape: number }) };
    return keyOf({ queryProperties: { body: '', estimates } } as unknown as RuleRequest);
  });
  console.log(
    `estimates: ${read.toFixed(2)} read, ${key.toFixed(2)} with the key of a decision; ${2 * ESTIMATES} take ${(bytes / 1e6).toFixed(1)} MB`,
  );
}

/** Queries of a measurement; each has another text, and no cache has any of them. */
const QUERIES = 5_000;
const CLIENTS = 16;
const texts = (characters: number, round: number) =>
  Array.from({ length: QUERIES }, (_, i) =>
    characters < 100
      ? `SELECT a, b, c, d, e, f FROM hive.web.t WHERE id = ${round}${i}`
      : statement(characters, round * 1e6 + i),
  );

/** Prints the processor time of the digests, labels and stored columns of a query as a share of all that the gateway takes for it. */
async function measureShares(): Promise<void> {
  const directory = mkdtempSync(path.join(tmpdir(), 'eg-bench-'));
  const stops: (() => unknown)[] = [() => rmSync(directory, { recursive: true, force: true })];
  try {
    const postgresql = await startPostgresql();
    stops.push(() => postgresql.dispose());
    const cluster = await startPagedCluster();
    stops.push(cluster.stop);
    const gateway = await startServe(directory, cluster.url, await postgresql.createDatabase(), {});
    stops.push(gateway.stop);
    const client = new Pool(gateway.url, { connections: CLIENTS });
    stops.push(() => client.close());
    const ask = async (target: string, body: string | null): Promise<QueryResults> => {
      const headers = { 'X-Engine-User': 'bench', 'X-Engine-Source': 'dashboards' };
      const response = await client.request({ path: target, method: body === null ? 'GET' : 'POST', body, headers });
      return (await response.body.json()) as QueryResults;
    };
    const names = productNames('Engine');
    const statements = new RecordedStatements(names, (text) => text);
    const fields = new Map([[names.headerKey('Source'), ['dashboards']]]);
    for (const characters of [60, 540]) {
      const [whole, recorded]: [number[], number[]] = [[], []];
      for (let round = 0; round < ROUNDS; round += 1) {
        const before = cpuMicroseconds(gateway.workerPid);
        const left = texts(characters, round);
        const work = async () => {
          for (let text = left.pop(); text !== undefined; text = left.pop()) {
            let page = await ask('/v1/statement', text);
            while (page.nextUri !== undefined) page = await ask(pathOf(page.nextUri), null);
          }
        };
        await Promise.all(Array.from({ length: CLIENTS }, work));
        await gateway.settle();
        whole.push((cpuMicroseconds(gateway.workerPid) - before) / QUERIES);
        const bodies = texts(characters, round + ROUNDS).map((text) => ({ ...emptyBody, text }));
        const { user, system } = process.threadCpuUsage();
        for (const body of bodies) statements.of(body, fields).columns;
        const after = process.threadCpuUsage();
        recorded.push((after.user + after.system - user - system) / QUERIES);
      }
      const [share, all] = [median(recorded), median(whole)];
      console.log(
        `a query of ${characters} characters: ${share.toFixed(1)} of ${all.toFixed(0)}, ${((100 * share) / all).toFixed(1)} %`,
      );
    }
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

/** `npm run bench -- digests`: digests and labels of statements, with the lexer and after it (docs/performance.md#digests). */
export async function run(): Promise<void> {
  console.log('microseconds of processor time a statement, best of 7 rounds');
  console.log('characters    digests    of these the lexer    after an analysis    labels');
  for (const characters of [60, 540, 5_000]) {
    const texts = Array.from({ length: 200 }, (_, i) => statement(characters, i));
    const whole = time(texts, (text) => statementDigests(text, null));
    const lexer = time(texts, tokenizeSql);
    const labels = time(texts, (text) => statementLabels(text, 'dashboards'));
    const mean = texts.reduce((sum, text) => sum + text.length, 0) / texts.length;
    const columns = [mean.toFixed(0).padStart(10), whole.toFixed(2).padStart(11), lexer.toFixed(2).padStart(22)];
    console.log(`${columns.join('')}${(whole - lexer).toFixed(2).padStart(21)}${labels.toFixed(2).padStart(10)}`);
  }
  measureEstimates();
  if (hasPostgresql()) await measureShares();
}
