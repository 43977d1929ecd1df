import { gzipSync } from 'node:zlib';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { AnswerWatch } from '../../../src/gateway/exchanges/answerWatch.ts';
import { RunningQueries } from '../../../src/gateway/ownership/runningQueries.ts';

const id = '20261121_015745_00007_kvhrm';
const next = `{"id":"${id}","infoUri":"http://g/ui","nextUri":"http://g/v1/statement/x","stats":{}}`;
const rows = `,"data":[${Array.from({ length: 500 }, (_, row) => `[${row},"some text"]`).join(',')}]}`;
const more = `${next.slice(0, -1)}${rows}`;
const last = `{"id":"${id}","infoUri":"http://g/ui","stats":{"state":"FINISHED"},"data":[["\\"nextUri\\":\\"x"]]}`;

const halves = (text: string | Buffer) => {
  const bytes = Buffer.from(text as string);
  return [bytes.subarray(0, 50), bytes.subarray(50)];
};

/** Answers of follow-ups with whether the query goes on after them. */
test.each<[string, { method?: string; status?: number; encoding?: string; chunks: Buffer[] }, boolean]>([
  ['a next URI', { chunks: [Buffer.from(next)] }, true],
  ['a next URI in the second chunk', { chunks: halves(next) }, true],
  ['rows after the next URI', { chunks: [Buffer.from(more)] }, true],
  ['no next URI, though a value looks like one', { chunks: [Buffer.from(last)] }, false],
  ['no next URI, in chunks', { chunks: halves(last) }, false],
  ['a compressed next URI', { encoding: 'gzip', chunks: [gzipSync(next)] }, true],
  ['a compressed end', { encoding: 'gzip', chunks: halves(gzipSync(last)) }, false],
  ['an encoding that is not known', { encoding: 'x', chunks: [Buffer.from('abc')] }, true],
  ['the cancellation', { method: 'DELETE', status: 204, chunks: [] }, false],
  ['a cancellation that failed', { method: 'DELETE', status: 500, chunks: [] }, true],
  ['404', { status: 404, chunks: [Buffer.from('gone')] }, false],
  ['410', { status: 410, chunks: [] }, false],
  ['503', { status: 503, chunks: [Buffer.from('later')] }, true],
])('after %s', async (_name, { method = 'GET', status = 200, encoding, chunks }, goesOn) => {
  const running = new RunningQueries({
    repository: {
      put: async () => {},
      remove: async () => {},
      ofCluster: async () => [],
      lastSeen: async () => new Map(),
      deleteBefore: async () => 0,
    },
    outcomes: { ends: async () => new Map() },
    clock: { now: () => Date.UTC(2026, 10, 21, 1, 58, 0), monotonic: () => 0 },
    logger: pino({ level: 'silent' }),
  });
  running.noteActivity(id, 'a');
  const ends: string[] = [];
  const outcomes = {
    awaitsRows: () => true,
    page: () => ends.push('goes on'),
    end: () => ends.push('ends'),
    cancel: () => ends.push('ends'),
  };
  const watch = new AnswerWatch({ runningQueries: running, outcomes }, id, 'a', method);
  watch.begin(status, encoding === undefined ? {} : { 'content-encoding': encoding });
  for (const chunk of chunks) watch.data(chunk);
  watch.end();
  if (method === 'DELETE' ? status < 300 : status === 200) expect(ends).toEqual([goesOn ? 'goes on' : 'ends']);
  else expect(ends).toEqual([]);
  const { queries, complete } = await running.ofCluster('a');
  expect(complete).toBe(true);
  expect(queries.map((query) => query.started)).toEqual(goesOn ? [Date.UTC(2026, 10, 21, 1, 57, 45)] : []);
});

const columns = (count: number, name: string) =>
  `,"columns":[${Array.from({ length: count }, () => `{"name":"${name}","type":"bigint"}`).join(',')}]`;
const head = next.slice(0, -1);
const noRows = `${head}${columns(5, 'data')}}`;
const spooled = `${head}${columns(2, 'x')},"data":{"encoding":"json","segments":[{}]}}`;

/** Answers with whether rows are seen in them. */
test.each<[string, { encoding?: string; isAwaited?: boolean; chunks: Buffer[] }, boolean]>([
  ['rows', { chunks: [Buffer.from(more)] }, true],
  ['rows after many columns', { chunks: [Buffer.from(`${head}${columns(150, 'x')}${rows}`)] }, true],
  ['rows in a later chunk', { chunks: [Buffer.from(`${head}${columns(1, 'x')}`), Buffer.from(rows)] }, true],
  ['rows of an answer with spaces', { chunks: [Buffer.from(`${head}, "data" : [ [ 1 ] ] }`)] }, true],
  ['segments of spooled rows', { chunks: [Buffer.from(spooled)] }, true],
  ['rows of the last answer', { chunks: halves(last) }, true],
  ['no rows', { chunks: [Buffer.from(next)] }, false],
  ['columns that are called data', { chunks: [Buffer.from(noRows)] }, false],
  ['an empty list of rows', { chunks: [Buffer.from(`${head},"data":[]}`)] }, false],
  ['a text that looks like rows', { chunks: [Buffer.from(`${head},"x":"\\"data\\":[[1]]"}`)] }, false],
  ['compressed rows', { encoding: 'gzip', chunks: [gzipSync(more)] }, true],
  ['a compressed answer without rows', { encoding: 'gzip', chunks: [gzipSync(noRows)] }, false],
  ['a long compressed answer', { encoding: 'gzip', chunks: [Buffer.alloc(20_000)] }, true],
  ['rows that are not the first', { isAwaited: false, chunks: [Buffer.from(more)] }, false],
])('%s', (_name, { encoding, isAwaited = true, chunks }, expected) => {
  const seen: (boolean | undefined)[] = [];
  const outcomes = {
    awaitsRows: () => isAwaited,
    page: (_id: string, _cluster: string, _bytes: number, hasRows?: boolean) => void seen.push(hasRows),
    end: (...[, , , , hasRows]: readonly unknown[]) => void seen.push(hasRows as boolean),
    cancel: () => undefined,
  };
  const runningQueries = { noteActivity: () => undefined, noteEnd: () => undefined };
  const watch = new AnswerWatch({ runningQueries, outcomes }, id, 'a', 'GET');
  watch.begin(200, encoding === undefined ? {} : { 'content-encoding': encoding });
  for (const chunk of chunks) watch.data(chunk);
  watch.end();
  expect(seen).toEqual([expected]);
});
