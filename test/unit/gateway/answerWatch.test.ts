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
    clock: { now: () => Date.UTC(2026, 10, 21, 1, 58, 0), monotonic: () => 0 },
    logger: pino({ level: 'silent' }),
  });
  running.noteActivity(id, 'a');
  const ends: string[] = [];
  const outcomes = {
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
