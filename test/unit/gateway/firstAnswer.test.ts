import { brotliCompressSync, gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { decodeStart } from '../../../src/gateway/exchanges/answerId.ts';
import { FirstAnswer } from '../../../src/gateway/exchanges/firstAnswer.ts';

const id = '20261121_015745_00007_kvhrm';
const next = { nextUri: 'http://g/v1/statement/x' };
const page = (more: object, rows: number) =>
  JSON.stringify({
    ...{ id, infoUri: 'http://g/ui', ...more },
    columns: [{ name: 'nextUri' }],
    data: Array.from({ length: rows }, (_, row) => [row, '"nextUri":"some text']),
    stats: { state: 'FINISHED' },
  });
const pretty = JSON.stringify({ id, ...next, stats: {} }, null, 2).replaceAll('":', '" :');
const all = (text: string | Buffer) => [Buffer.from(text as string)];
const parts = (text: string | Buffer, ...sizes: readonly number[]) => {
  const bytes = Buffer.from(text as string);
  const ends = [...sizes, bytes.length];
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
};

/** Answers with what is known of them before their end, after it, and where they break off instead. */
test.each<
  [
    string,
    { encoding?: string; chunks: readonly Buffer[] },
    { before: boolean | null; end: boolean; brokenOff: boolean },
  ]
>([
  ['a next URI', { chunks: all(page(next, 0)) }, { before: true, end: true, brokenOff: true }],
  ['a next URI as people read it', { chunks: all(pretty) }, { before: true, end: true, brokenOff: true }],
  ['a next URI in the second part', { chunks: parts(page(next, 0), 60) }, { before: null, end: true, brokenOff: true }],
  ['a next URI before many rows', { chunks: parts(page(next, 999), 60) }, { before: true, end: true, brokenOff: true }],
  ['no next URI', { chunks: all(page({}, 0)) }, { before: null, end: false, brokenOff: true }],
  ['many rows', { chunks: all(page({}, 9_999)) }, { before: null, end: false, brokenOff: false }],
  ['many rows in parts', { chunks: parts(page({}, 9_999), 60, 9_000) }, { before: null, end: false, brokenOff: false }],
  [
    'a compressed next URI in the second part',
    { encoding: 'gzip', chunks: parts(gzipSync(page(next, 0)), 40) },
    { before: null, end: true, brokenOff: true },
  ],
  [
    'many compressed rows',
    { encoding: 'gzip', chunks: parts(gzipSync(page({}, 99_999)), 60, 50_000) },
    { before: null, end: false, brokenOff: false },
  ],
  [
    'few compressed rows',
    { encoding: 'br', chunks: parts(brotliCompressSync(page({}, 9)), 40) },
    { before: null, end: false, brokenOff: true },
  ],
])('%s', (_, { encoding = '', chunks }, expected) => {
  const begun = () => {
    const [start = Buffer.alloc(0), ...rest] = chunks;
    const text = encoding === '' ? start : decodeStart(start, encoding);
    const answer = new FirstAnswer(encoding, text?.toString('latin1') ?? '', { chunks: [start], isWhole: false });
    for (const chunk of rest) answer.data(chunk);
    const known: boolean[] = [];
    answer.whenKnown((goesOn) => known.push(goesOn));
    return { answer, known };
  };
  const ended = begun();
  const before = ended.known[0] ?? null;
  ended.answer.end();
  ended.answer.breakOff();
  const broken = begun();
  broken.answer.breakOff();
  expect({ before, end: ended.known, brokenOff: broken.known }).toEqual({
    before: expected.before,
    end: [expected.end],
    brokenOff: [expected.brokenOff],
  });
});

test('the start of a compressed answer that is a hundred times larger than its bytes', () => {
  const text = page({}, 200_000).replaceAll(/\d+,/g, '1,');
  const start = gzipSync(text).subarray(0, 65_536);
  expect(decodeStart(start, 'gzip')?.subarray(0, 4_096).toString() === text.slice(0, 4_096)).toBe(true);
});
