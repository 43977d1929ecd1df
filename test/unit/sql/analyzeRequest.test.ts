import { zstdCompressSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { productNames } from '../../../src/model/names.ts';
import { type AnalysisSettings, type AnalyzableRequest, requestAnalysis } from '../../../src/sql/analyzeRequest.ts';
import { isStatementPath } from '../../../src/sql/statementPath.ts';

const settings: AnalysisSettings = {
  names: productNames('Engine'),
  maxBodySize: 1_000_000,
  clientsUseV2Format: false,
  cacheBytes: 1_000_000,
};

const post = (body: string | Uint8Array, headers: readonly string[] = []): AnalyzableRequest => ({
  method: 'POST',
  isSubmission: true,
  headers: ['X-Engine-Catalog', 'lake', 'X-Engine-Schema', 'ops', ...headers],
  body,
});
const joined = (tables: readonly (readonly string[])[]): readonly string[] => tables.map((table) => table.join('.'));

test('the same text with other defaults, or other prepared statements, has another analysis', () => {
  const analyze = requestAnalysis(settings);
  const tables = (request: AnalyzableRequest): readonly string[] => joined(analyze(request).tables);
  for (let round = 0; round < 2; round += 1) {
    expect(tables(post('TABLE t'))).toEqual(['lake.ops.t']);
    expect(
      tables({ ...post('TABLE t'), headers: ['X-Engine-Catalog', 'lake/s3:ops', 'X-Engine-Schema', 'x'] }),
    ).toEqual(['lake/s3:ops.x.t']);
    expect(analyze({ ...post('TABLE t'), headers: ['X-Engine-Catalog', 'lake'] }).errorMessage).toBe(
      'Name not fully qualified',
    );
    expect(tables(post('EXECUTE p', ['X-Engine-Prepared-Statement', 'p=TABLE+a']))).toEqual(['lake.ops.a']);
    expect(tables(post('EXECUTE p', ['X-Engine-Prepared-Statement', 'p=TABLE+b']))).toEqual(['lake.ops.b']);
  }
});

test('a text that comes again is kept, and answered from memory then: the very same lists', () => {
  const analyze = requestAnalysis(settings);
  const once = analyze(post('TABLE t')).tables;
  const again = analyze(post('TABLE t')).tables;
  expect(again).toEqual(once);
  expect(again).not.toBe(once);
  expect(analyze(post('TABLE t')).tables).toBe(again);
  // Others in between that come once each do not displace it.
  for (let i = 0; i < 2_000; i += 1) analyze(post(`TABLE other${i}`));
  expect(analyze(post('TABLE t')).tables).toBe(again);
  const forgetful = requestAnalysis({ ...settings, cacheBytes: 0 });
  expect(forgetful(post('TABLE t')).tables).not.toBe(forgetful(post('TABLE t')).tables);
});

test('memory is bounded by bytes', () => {
  const analyze = requestAnalysis({ ...settings, cacheBytes: 20_000 });
  const kept = (text: string) => {
    analyze(post(text));
    return analyze(post(text)).tables;
  };
  const first = kept('TABLE t0');
  expect(analyze(post('TABLE t0')).tables).toBe(first);
  for (let i = 1; i < 100; i += 1) kept(`TABLE t${i}`);
  expect(analyze(post('TABLE t0')).tables).not.toBe(first);
});

test.each([
  ['EXPLAIN EXECUTE p', 'Explain', ['lake.ops.a']],
  ['EXPLAIN ANALYZE EXECUTE p USING (TABLE u)', 'ExplainAnalyze', ['lake.ops.a', 'lake.ops.u']],
  ["EXPLAIN (TYPE IO) EXECUTE IMMEDIATE 'TABLE i'", 'Explain', ['lake.ops.i']],
  ['DESCRIBE INPUT p', 'DescribeInput', ['lake.ops.a']],
  ['DESCRIBE OUTPUT p', 'DescribeOutput', ['lake.ops.a']],
  ['EXECUTE explains', 'Explain', ['lake.ops.a']],
  ['EXPLAIN EXPLAIN EXECUTE explains', 'Explain', ['lake.ops.a']],
  ['EXPLAIN DESCRIBE OUTPUT explains', 'Explain', ['lake.ops.a']],
  // The engine executes neither.
  ['EXECUTE executes', 'Execute', []],
  ['EXPLAIN EXECUTE executes', 'Explain', []],
])('%s: the tables of what it names count', (text, queryType, tables) => {
  const prepared = 'p=TABLE+a, explains=EXPLAIN+EXECUTE+p, executes=EXECUTE+p';
  const properties = requestAnalysis(settings)(post(text, ['X-Engine-Prepared-Statement', prepared]));
  expect({ ...properties, tables: joined(properties.tables) }).toMatchObject({ queryType, tables, errorMessage: null });
  expect(properties.unreadable).toBeUndefined();
});

test.each([
  ['EXECUTE nope', [], 'the request does not have the prepared statement that it names'],
  [
    'EXPLAIN EXECUTE nope USING (TABLE u)',
    ['lake.ops.u'],
    'the request does not have the prepared statement that it names',
  ],
  ['DESCRIBE INPUT nope', [], 'the request does not have the prepared statement that it names'],
  ['EXECUTE self', [], 'prepared statements that explain or describe each other are nested too deep'],
  ['EXECUTE broken', [], 'preparedStatement cannot be decompressed as zstd'],
])('%s: it is not certain what the engine runs', (text, tables, unreadable) => {
  const prepared = 'p=TABLE+a,self=EXPLAIN+EXECUTE+self,broken=$zstd:AAAA';
  const properties = requestAnalysis(settings)(post(text, ['X-Engine-Prepared-Statement', prepared]));
  expect(joined(properties.tables)).toEqual(tables);
  expect(properties.unreadable).toBe(unreadable);
});

test('of repeated names the last one counts, and it is not certain what the engine runs', () => {
  const headers = ['X-Engine-Prepared-Statement', 'p=SELECT+1', 'X-Engine-Prepared-Statement', ' p=TABLE+a'];
  const properties = requestAnalysis(settings)(post('EXECUTE p', headers));
  expect(joined(properties.tables)).toEqual(['lake.ops.a']);
  expect(properties.errorMessage).toBe('preparedStatement has several statements named p');
  expect(properties.unreadable).toBe(properties.errorMessage);
});

test('the first line of Catalog and Schema counts', () => {
  const headers = ['X-Engine-Catalog', 'a', 'X-Engine-Catalog', 'b', 'x-engine-schema', 's', 'X-Engine-Schema', 't'];
  const properties = requestAnalysis(settings)({ ...post('TABLE x'), headers });
  expect(joined(properties.tables)).toEqual(['a.s.x']);
});

test('a table function of the engine needs no defaults, so tables beside it count', () => {
  const text = 'SELECT * FROM TABLE(sequence(1, 2)), a.b.c';
  const properties = requestAnalysis(settings)({ ...post(text), headers: [] });
  expect(joined(properties.tables)).toEqual(['a.b.c']);
  expect(properties.errorMessage).toBe('Name not fully qualified');
});

test.each([
  ['no charset', 'text/plain', Buffer.from('TABLE "ü"'), ['lake.ops.ü']],
  ['utf8', 'text/plain; charset=utf8', Buffer.from('TABLE "ü"'), ['lake.ops.ü']],
  ['quoted', 'text/plain; charset="UTF-8"; x=y', Buffer.from('TABLE "ü"'), ['lake.ops.ü']],
  ['latin1', 'text/plain;charset=ISO-8859-1', Buffer.from('TABLE "ü"', 'latin1'), ['lake.ops.ü']],
  ['ascii', 'text/plain; charset=us-ascii', Buffer.from('TABLE t'), ['lake.ops.t']],
  ['unknown', 'text/plain; charset=utf-16', Buffer.from('TABLE t', 'utf16le'), []],
  ['several', 'text/plain; charset=us-ascii; charset=utf-16', Buffer.from('TABLE t', 'utf16le'), []],
  ['in quotes', 'text/plain; x="; charset=utf-8"; charset=utf-16', Buffer.from('TABLE t', 'utf16le'), []],
  [
    'wrong UTF-8',
    'text/plain',
    Buffer.from([0x54, 0x41, 0x42, 0x4c, 0x45, 0x20, 0x22, 0xff, 0x22]),
    ['lake.ops.\ufffd'],
  ],
])('charset: %s', (_name, contentType, body, tables) => {
  expect(joined(requestAnalysis(settings)(post(body, ['Content-Type', contentType])).tables)).toEqual(tables);
});

test.each([
  [10, 'TABLE abcd', ''],
  [11, 'TABLE abcd', 'Query'],
  [10, 'TABLE "ü"', 'Query'],
  [9, 'TABLE "ü"', ''],
])('maxBodySize %i counts characters: %s', (maxBodySize, body, queryType) => {
  const analyze = requestAnalysis({ ...settings, maxBodySize });
  expect(analyze(post(body)).queryType).toBe(queryType);
  expect(analyze(post(Buffer.from(body))).queryType).toBe(queryType);
});

test('a prepared statement that grows beyond every body when decompressed is refused', () => {
  const bomb = zstdCompressSync(Buffer.alloc(10_000_000, 0x20)).toString('base64url');
  const { errorMessage } = requestAnalysis(settings)(
    post('EXECUTE p', ['X-Engine-Prepared-Statement', `p=$zstd:${bomb}`]),
  );
  expect(errorMessage).toBe('preparedStatement is longer than 4000000 bytes when decompressed');
});

test('prepared statements that are not executed are not decompressed', () => {
  const analyze = requestAnalysis(settings);
  const headers = ['X-Engine-Prepared-Statement', 'p=$zstd:AAAA'];
  const bodies = [
    "CALL system.runtime.kill_query('20260101_000000_00000_abcde')",
    "SELECT 'kill_query', execute",
    'EXECUTE q',
  ];
  expect(bodies.map((body) => analyze(post(body, headers)).errorMessage)).toEqual([null, null, null]);
  expect(analyze(post('EXECUTE p', headers)).errorMessage).toBe('preparedStatement cannot be decompressed as zstd');
});

test('a prepared statement that as a body would be too long to be analysed is refused', () => {
  const text = zstdCompressSync(Buffer.alloc(1_000_000, 0x20)).toString('base64url');
  const { errorMessage } = requestAnalysis(settings)(
    post('EXECUTE p', ['X-Engine-Prepared-Statement', `p=$zstd:${text}`]),
  );
  expect(errorMessage).toBe('preparedStatement has 1000000 characters or more (requestAnalyzerConfig.maxBodySize)');
});

test.each([
  ['/v1/statement', true],
  ['/v1/statement/', true],
  ['/v1/statement;x=1', true],
  ['/v1;a=b/statement;c=d/', true],
  ['/v1/statementX', false],
  ['/v1/statement/x', false],
  ['/V1/statement', false],
  ['/', false],
])('statement path %s: %s', (path, expected) => {
  expect(isStatementPath(path, ['/v1/statement'])).toBe(expected);
});
