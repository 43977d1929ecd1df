import { readCases } from '../scripts/cases/sql.ts';
import { productNames } from '../src/model/names.ts';
import { type AnalyzableRequest, DEFAULT_CACHE_BYTES, requestAnalysis } from '../src/sql/analyzeRequest.ts';
import { analyzeSql } from '../src/sql/analyzeSql.ts';
import { timeParserPeer } from './sql/parserPeer.ts';
import { inputTimes } from './workload/inputTimes.ts';
import { inputModel } from './workload/submissions.ts';

/** Groups of requests: the whole analysis is timed on them, the engine's parser on their texts. */
interface Group {
  readonly requests: readonly AnalyzableRequest[];
  readonly texts: readonly string[];
}

const timing = { warmSeconds: 3, roundSeconds: 1, rounds: 5 };

async function groups(): Promise<ReadonlyMap<string, Group>> {
  const found = new Map<string, { requests: AnalyzableRequest[]; texts: string[] }>();
  for (const file of ['cases', 'large'] as const) {
    for (const request of await readCases(file)) {
      const name =
        file === 'large'
          ? 'large'
          : /^hand\//.test(request.id)
            ? 'hand-written'
            : /^gen\/structured/.test(request.id)
              ? 'generated'
              : null;
      // Only what is parsed: POSTs of plain statements, not cut off by a size.
      if (name === null || request.id === 'large/too-large' || typeof request.body !== 'string' || request.body === '')
        continue;
      const group = found.get(name) ?? { requests: [], texts: [] };
      found.set(name, group);
      const headers = Object.entries(request.headers ?? {}).flatMap(([key, value]) =>
        [value].flat().flatMap((line) => [key, line]),
      );
      group.requests.push({ method: 'POST', isSubmission: true, headers, body: Buffer.from(request.body) });
      group.texts.push(request.body);
    }
  }
  return found;
}

/** Mean microseconds of a call over all items, of the fastest round. */
function time<T>(items: readonly T[], call: (item: T) => unknown): number {
  const round = (seconds: number): number => {
    const start = performance.now();
    let done = 0;
    do {
      for (const item of items) call(item);
      done += items.length;
    } while (performance.now() - start < seconds * 1000);
    return ((performance.now() - start) * 1000) / done;
  };
  round(timing.warmSeconds);
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < timing.rounds; i += 1) best = Math.min(best, round(timing.roundSeconds));
  return best;
}

/** Texts that grow by ten: the time a character must not grow with them. */
function growing(): readonly (readonly [name: string, make: (size: number) => string, sizes: readonly number[]])[] {
  const deep = (size: number): string => `SELECT ${'('.repeat(size)}1${')'.repeat(size)}`;
  return [
    ['nested parentheses', deep, [100, 1_000, 10_000, 100_000]],
    [
      'list of literals',
      (size) => `SELECT * FROM t WHERE a IN (${Array.from({ length: size }, (_, i) => i).join(', ')})`,
      [1_000, 10_000, 100_000],
    ],
    ['unclosed comments', (size) => `SELECT 1 ${'/*'.repeat(size)}`, [1_000, 10_000, 100_000]],
    ['unclosed quotes', (size) => `SELECT ${"'a'".repeat(size)} '`, [1_000, 10_000, 100_000]],
    [
      'chain of OR',
      (size) => `SELECT * FROM t WHERE ${Array.from({ length: size }, (_, i) => `a = ${i}`).join(' OR ')}`,
      [1_000, 10_000, 100_000],
    ],
    [
      'names of WITH',
      (size) => `WITH ${Array.from({ length: size }, (_, i) => `c${i} AS (SELECT 1)`).join(', ')} SELECT * FROM c1`,
      [1_000, 10_000],
    ],
    ['nested calls', (size) => `SELECT ${'f('.repeat(size)}1${')'.repeat(size)}`, [100, 1_000, 10_000]],
  ];
}

/** What the memory of analyses does for submissions that are unique, and for such as repeat. */
function printInputs(): void {
  const settings = { names: productNames('Engine'), maxBodySize: 2_000_000, clientsUseV2Format: false };
  const [kept, each] = [DEFAULT_CACHE_BYTES, 0].map((cacheBytes) => requestAnalysis({ ...settings, cacheBytes }));
  if (kept === undefined || each === undefined) return;
  const times = inputTimes([({ analyzable }) => kept(analyzable), ({ analyzable }) => each(analyzable)]);
  console.log(`${inputModel}\n`);
  console.log(`${'submissions'.padEnd(16)}${'analysis µs'.padStart(13)}${'without memory µs'.padStart(20)}`);
  for (const [kind, [withMemory = 0, without = 0]] of times) {
    console.log(`${kind.padEnd(16)}${withMemory.toFixed(2).padStart(13)}${without.toFixed(2).padStart(20)}`);
  }
  console.log();
}

/**
 * `npm run bench -- sql`: the analysis of submissions, then of groups of statements, cache off, beside the engine's own parser
 * in the same run.
 */
export async function run(): Promise<void> {
  printInputs();
  const measured = await groups();
  const analyze = requestAnalysis({
    names: productNames('Engine'),
    maxBodySize: 2_000_000,
    clientsUseV2Format: false,
    cacheBytes: 0,
  });
  console.log('timing the engine parser (io.trino:trino-parser) …');
  const peer = await timeParserPeer(new Map([...measured].map(([name, group]) => [name, group.texts])), timing);
  if ('missing' in peer) console.log(`engine parser not timed: ${peer.missing}`);
  console.log(
    `${'statements'.padEnd(16)}${'count'.padStart(7)}${'mean chars'.padStart(12)}${'analysis µs'.padStart(13)}${'parser µs'.padStart(11)}${'ratio'.padStart(8)}${'MB/s'.padStart(8)}`,
  );
  for (const [name, group] of measured) {
    const characters = group.texts.reduce((sum, text) => sum + text.length, 0) / group.texts.length;
    const ours = time(group.requests, analyze);
    const theirs = 'missing' in peer ? undefined : peer.get(name);
    const ratio = theirs === undefined ? '' : (ours / theirs).toFixed(2);
    console.log(
      `${name.padEnd(16)}${String(group.texts.length).padStart(7)}${characters.toFixed(0).padStart(12)}${ours.toFixed(2).padStart(13)}${(theirs?.toFixed(2) ?? '').padStart(11)}${ratio.padStart(8)}${(characters / ours).toFixed(1).padStart(8)}`,
    );
  }
  console.log('\ntime of growing statements (nanoseconds a character; flat means linear)');
  const context = { catalog: 'c', schema: 's', prepared: new Map<string, string>() };
  for (const [name, make, sizes] of growing()) {
    const row = sizes.map((size) => {
      const text = make(size);
      const start = performance.now();
      let done = 0;
      do {
        analyzeSql(text, context);
        done += 1;
      } while (performance.now() - start < 200);
      const nanoseconds = ((performance.now() - start) * 1e6) / done / text.length;
      const { errorMessage } = analyzeSql(text, context);
      return `${size}: ${nanoseconds.toFixed(1)}${errorMessage === null ? '' : ' (refused)'}`;
    });
    console.log(`${name.padEnd(20)} ${row.join('   ')}`);
  }
}
