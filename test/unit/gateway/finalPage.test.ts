import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { ResponseWatch } from '../../../src/gateway/exchanges/responseWatch.ts';
import { type FinalPage, FinalPageReader } from '../../../src/gateway/outcomes/finalPage.ts';

const stage = (depth: number): object => ({
  ...{ stageId: `${depth}`, state: 'FINISHED', cpuTimeMillis: 77, processedRows: 77, 'error"': { message: 'no' } },
  subStages: depth === 0 ? [] : [stage(depth - 1), stage(depth - 1)],
});
const stats = {
  ...{ state: 'FINISHED', queued: false, progressPercentage: 100.0, nodes: 3, cpuTimeMillis: 1234, wallTimeMillis: 5 },
  ...{ queuedTimeMillis: 7, elapsedTimeMillis: 4321, processedRows: 60175, processedBytes: 9_000_000_000 },
  ...{ physicalInputBytes: 1, peakMemoryBytes: 1048576, spilledBytes: 0, rootStage: stage(3) },
  ...{ planningTimeMillis: 40, analysisTimeMillis: 30 },
};
const error = {
  ...{
    message: 'line 1:8: Column "naïve 🚀\u2028\\" cannot be resolved\n',
    errorCode: 47,
    errorName: 'COLUMN_NOT_FOUND',
  },
  ...{ errorType: 'USER_ERROR', errorLocation: { lineNumber: 1, columnNumber: 8 } },
  failureInfo: {
    type: 'io.trino.TrinoException',
    message: 'other',
    stack: ['a', 'b'],
    suppressed: [{ errorName: 'X' }],
  },
};
const figures = {
  ...{ elapsedMillis: 4321, queuedMillis: 7, cpuMillis: 1234, processedRows: 60175, processedBytes: 9_000_000_000 },
  ...{ peakMemoryBytes: 1048576, physicalInputBytes: 1, planningMillis: 40, analysisMillis: 30, spilledBytes: 0 },
};
const read = { message: error.message, code: 47, name: 'COLUMN_NOT_FOUND', type: 'USER_ERROR' };
const nothing = {
  ...{ elapsedMillis: null, queuedMillis: null, cpuMillis: null, processedRows: null, processedBytes: null },
  ...{
    peakMemoryBytes: null,
    physicalInputBytes: null,
    planningMillis: null,
    analysisMillis: null,
    spilledBytes: null,
  },
};
const head = { id: 'q', infoUri: 'http://e/ui' };
/** Rows with maps whose names are those that are looked for. */
const data = [
  [
    { stats: { elapsedTimeMillis: 1 }, error: { message: 'forged', errorName: 'F' } },
    '"stats":{"cpuTimeMillis":1}',
    'é\\"',
  ],
];
const spooled = {
  encoding: 'json+zstd',
  metadata: {},
  segments: [{ type: 'inline', data: 'AAAA', metadata: { stats: { cpuTimeMillis: 9 } } }],
};

/** Pages with what they say; null: nothing. */
const pages: readonly (readonly [string, string, FinalPage | null])[] = [
  ['a query that succeeded', JSON.stringify({ ...head, stats, warnings: [] }), { ...figures, error: null }],
  [
    'one that failed',
    JSON.stringify({ ...head, stats, error, warnings: [{ message: 'w' }] }),
    { ...figures, error: read },
  ],
  [
    'rows in it',
    JSON.stringify({ ...head, columns: [{ name: 'stats' }], data, stats, warnings: [] }),
    { ...figures, error: null },
  ],
  ['spooled segments', JSON.stringify({ ...head, data: spooled, stats, error }), { ...figures, error: read }],
  ['an error that is null', JSON.stringify({ ...head, error: null, stats }), { ...figures, error: null }],
  [
    'values of other types',
    '{"stats":{"cpuTimeMillis":"5","processedRows":true,"elapsedTimeMillis":[5],"queuedTimeMillis":null},"error":{"message":5,"errorCode":"x"}}',
    { ...nothing, error: { name: null, type: null, code: null, message: null } },
  ],
  [
    'numbers of any form',
    '{"stats":{"cpuTimeMillis":1.5e3,"processedRows":-1,"elapsedTimeMillis":1e999}}',
    { ...nothing, cpuMillis: 1500, processedRows: -1, error: null },
  ],
  ['an object cut in two', JSON.stringify({ ...head, stats }).slice(0, -1), null],
  ['text that is not JSON', 'Internal Server Error', null],
  ['nothing', '', null],
];

test.each(pages)('reads %s, however it is cut', (_name, page, expected) => {
  const bytes = Buffer.from(page);
  const cuts = [bytes.length, 1, 2, 3, 7, 100, 4096];
  for (const size of cuts) {
    const reader = new FinalPageReader();
    for (let at = 0; at < bytes.length; at += size) {
      // As a buffer that is used again for the next piece.
      const piece = Buffer.from(bytes.subarray(at, at + size));
      reader.push(piece);
      piece.fill(0x7b);
    }
    expect(reader.end()).toEqual(expected);
  }
});

test('cuts a message at a whole character', () => {
  for (let shift = 0; shift < 12; shift++) {
    const message = 'x'.repeat(shift) + '\u0001🚀é"'.repeat(4000);
    const reader = new FinalPageReader();
    reader.push(Buffer.from(JSON.stringify({ error: { message, errorName: 'LONG' } })));
    const kept = reader.end()?.error;
    expect(kept?.name).toBe('LONG');
    expect(kept?.message?.length).toBeGreaterThan(2000);
    expect(message.startsWith(kept?.message as string)).toBe(true);
  }
});

test('reads the end of a page with very many rows, and keeps little of it', () => {
  const rows = `[${'"\\"stats\\":{",'.repeat(20)}{"stats":{"cpuTimeMillis":1}}],`.repeat(20_000);
  const page = Buffer.from(
    `{"id":"q","data":[${rows}[]],"stats":${JSON.stringify(stats)},"error":${JSON.stringify(error)}}`,
  );
  expect(page.length).toBeGreaterThan(4_000_000);
  for (const size of [1000, 16_384, 200_000, page.length]) {
    const reader = new FinalPageReader();
    for (let at = 0; at < page.length; at += size) reader.push(page.subarray(at, at + size));
    expect(reader.end()).toEqual({ ...figures, error: read });
  }
});

test.each([
  ['deep nesting', '{"stats":'.padEnd(2_000_000, '[')],
  ['a string without end', '{"stats":{"cpuTimeMillis":"'.padEnd(2_000_000, 'x')],
  ['a number without end', '{"stats":{"cpuTimeMillis":'.padEnd(2_000_000, '1')],
  ['brackets that close nothing', ']}'.repeat(500_000)],
  ['names without end', '{"a":1,'.repeat(200_000)],
])('takes %s without harm', (_name, page) => {
  const reader = new FinalPageReader();
  for (let at = 0; at < page.length; at += 65_536) reader.push(Buffer.from(page.slice(at, at + 65_536)));
  expect(reader.end()?.cpuMillis ?? null).toBeNull();
});

const encodings = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync, zstd: zstdCompressSync };
const noise = Array.from({ length: 9000 }, (_, index) => Math.imul(index, 2_654_435_761).toString(36)).join(' ');
const frames = Array.from({ length: 5000 }, (_, index) => `io.trino.sql.SqlParser.visit(SqlParser.java:${index % 97})`);

/** Answers, compressed: whether they are the last ones, and are read. */
test.each(
  Object.entries(encodings).flatMap(([encoding, compress]) => [
    [encoding, compress, 'the last one', JSON.stringify({ ...head, stats, error }), 'read'] as const,
    [
      encoding,
      compress,
      'one longer than its head',
      JSON.stringify({ ...head, noise: noise.slice(0, 14_000), stats, error }),
      'read',
    ] as const,
    [
      encoding,
      compress,
      'one that failed with a stack trace of 300 kB',
      JSON.stringify({ ...head, stats, error: { ...error, failureInfo: { stack: frames } } }),
      encoding === 'br' ? 'goes on' : 'read',
    ] as const,
    [
      encoding,
      compress,
      'one with 300 kB of rows that compress well',
      JSON.stringify({ ...head, nextUri: 'http://e/next', data: [frames] }),
      'goes on',
    ] as const,
    [
      encoding,
      compress,
      'one after which the client asks again',
      JSON.stringify({ ...head, nextUri: 'http://e/next', stats }),
      'goes on',
    ] as const,
    [
      encoding,
      compress,
      'one with rows',
      JSON.stringify({ ...head, nextUri: 'http://e/next', data: [[noise.slice(0, 14_000)]] }),
      'goes on',
    ] as const,
    [
      encoding,
      compress,
      'one that is small and decodes to very much',
      JSON.stringify({ ...head, x: ' '.repeat(4_000_000), stats }),
      encoding === 'br' ? 'goes on' : 'unread',
    ] as const,
  ]),
)('an answer in %s: %3$s', (encoding, compress, _name, page, expected) => {
  const bytes = compress(Buffer.from(page));
  const seen: unknown[] = [];
  const watch = new ResponseWatch(
    {
      runningQueries: { noteActivity: () => undefined, noteEnd: () => undefined },
      outcomes: {
        awaitsRows: () => true,
        page: (_id, _cluster, size) => seen.push(['goes on', size]),
        end: (_id, _cluster, size, final) => seen.push([final, size]),
        cancel: () => undefined,
      },
    },
    'q',
    'a',
    'GET',
    { status: 200, headers: { 'content-encoding': encoding } },
  );
  for (let at = 0; at < bytes.length; at += 1500) watch.data(bytes.subarray(at, at + 1500));
  watch.end();
  const result = { read: { ...figures, error: read }, unread: null, 'goes on': 'goes on' }[expected];
  expect(seen).toEqual([[result, bytes.length]]);
});
