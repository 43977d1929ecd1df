import { zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MAX_PREPARED_STATEMENTS, preparedStatements } from '../../../src/sql/preparedStatements.ts';

const MAX_BYTES = 4_000_000;
const compressed = (text: string | Buffer) => `$zstd:${zstdCompressSync(text).toString('base64url')}`;

function lookedUp(lines: readonly string[], name: string, maxBytes = MAX_BYTES) {
  const { statements, errorMessage } = preparedStatements(lines, maxBytes);
  return statements === null ? { errorMessage } : statements.get(name);
}

test('any name and text survives its encoding, plain and compressed', () => {
  const plain = fc.string({ unit: 'binary', minLength: 1 });
  const encode = (text: string) => encodeURIComponent(text).replaceAll('%20', '+').replaceAll('!', '%21');
  fc.assert(
    fc.property(plain, plain, (name, text) => {
      expect(lookedUp([`a=SELECT+1,${encode(`n${name}`)}=${encode(text)}`], `n${name}`)).toBe(text);
      expect(lookedUp([`${encode(`n${name}`)}=${encode(compressed(text))}`], `n${name}`)).toBe(text);
    }),
    { numRuns: 30 },
  );
});

test('only the statement that is looked up is decompressed', () => {
  const broken = '$zstd:AAAA';
  expect(lookedUp([`a=${broken},b=SELECT+1`, `c=${broken}`], 'b')).toBe('SELECT 1');
  expect(lookedUp([`a=${broken},b=SELECT+1`], 'a')).toEqual({
    errorMessage: 'preparedStatement cannot be decompressed as zstd',
  });
});

test('330 statements of 4 MB each in 60 kB take the processor for as long as one', () => {
  const bomb = compressed(Buffer.alloc(MAX_BYTES - 10_000, 0x20));
  const line = Array.from({ length: 330 }, (_, index) => `s${index}=${bomb}`).join(',');
  const before = process.cpuUsage();
  expect(lookedUp([line], 's329')).toHaveLength(MAX_BYTES - 10_000);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(500);
});

test('the bytes of all names and values have one limit', () => {
  const text = 'x'.repeat(600);
  expect(lookedUp([`a=${text},b=${text}`], 'a', 1_000)).toBe(text);
  const { statements } = preparedStatements([`a=${text},b=${compressed(text)}`], 1_000);
  expect(statements?.get('a')).toBe(text);
  expect(statements?.get('b')).toEqual({
    errorMessage: 'preparedStatement is longer than 1000 bytes when decompressed',
  });
  expect(lookedUp([`${'n'.repeat(1_001)}=1`], 'a', 1_000)).toEqual({
    errorMessage: 'preparedStatement is longer than 1000 bytes when decompressed',
  });
});

test('a frame that asks for a window of 128 MB is refused', () => {
  // A frame header without a content size, window log 27 (RFC 8878 §3.1.1.1.2), then a last, empty raw block.
  const frame = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, (27 - 10) << 3, 0x01, 0x00, 0x00]);
  expect(lookedUp([`a=$zstd:${frame.toString('base64url')}`], 'a')).toEqual({
    errorMessage: 'preparedStatement cannot be decompressed as zstd',
  });
});

test('the number of statements is bounded', () => {
  const line = (count: number) => Array.from({ length: count }, (_, index) => `s${index}=1`).join(',');
  expect(lookedUp([line(MAX_PREPARED_STATEMENTS)], 's999')).toBe('1');
  expect(lookedUp([line(MAX_PREPARED_STATEMENTS), 'one=more'], 's999')).toEqual({
    errorMessage: 'preparedStatement has more than 1000 statements',
  });
});

test.each([
  ['%', 'preparedStatement must be formatted as name=value, but is %'],
  ['a=%zz', 'preparedStatement has a wrong URL escape: %zz'],
  ['%4=x', 'preparedStatement has a wrong URL escape: %4='],
  ['a=$zstd:!!', 'preparedStatement is not base64url after $zstd:'],
  ['a=b=c', 'preparedStatement must be formatted as name=value, but is a=b=c'],
  ['a=', 'preparedStatement must be formatted as name=value, but is a='],
  ['a=1==', 'preparedStatement must be formatted as name=value, but is a=1=='],
  ['a=1,%61=2', 'preparedStatement has several statements named a'],
])('%s: %s', (line, errorMessage) => {
  expect(lookedUp([line], 'a')).toEqual({ errorMessage });
});

test('an error repeats only the beginning of a long pair', () => {
  const errorMessage = `preparedStatement must be formatted as name=value, but is ${'x'.repeat(100)}…`;
  expect(lookedUp(['x'.repeat(5_000)], 'a')).toEqual({ errorMessage });
});

test.each([
  ['a=1,,', '1'],
  ['=x,a=1', '1'],
  [',, a\t=\u00a01\u0085 ,,b=2', '1'],
  [',', undefined],
  ['', undefined],
  ['a=%C3%28', '\ufffd('],
  ['%20a=1', undefined],
  ['A=1', undefined],
  [`a=${compressed('SELECT a+b %41')}`, 'SELECT a+b %41'],
])('%s is read as the engine reads it', (line, text) => {
  expect(lookedUp([line], 'a')).toBe(text);
});

test('the last statement of a repeated name counts, and the repetition is an error', () => {
  const { statements, errorMessage } = preparedStatements(['a=1, a=2', ' a =3'], MAX_BYTES);
  expect(statements?.get('a')).toBe('3');
  expect(errorMessage).toBe('preparedStatement has several statements named a');
});
