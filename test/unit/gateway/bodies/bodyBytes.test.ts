import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BodyBytes } from '../../../../src/gateway/bodies/bodyBytes.ts';

test('bytes come out as they went in, whatever the sizes of the chunks', () => {
  const chunks = fc.array(fc.uint8Array({ minLength: 1, maxLength: 20_000, size: 'max' }), { maxLength: 12 });
  fc.assert(
    fc.property(chunks, (parts) => {
      const bytes = new BodyBytes();
      for (const part of parts) bytes.add(Buffer.from(part));
      expect(bytes.joined().equals(Buffer.concat(parts))).toBe(true);
    }),
    { numRuns: 50 },
  );
});

test('a small part of a large piece of memory does not keep the whole', () => {
  const bytes = new BodyBytes();
  bytes.add(Buffer.alloc(65_536, 'x').subarray(0, 10));
  const joined = bytes.joined();
  expect(joined.toString()).toBe('x'.repeat(10));
  expect(joined.buffer.byteLength).toBe(10);
});

test('a piece that fills its memory is not copied', () => {
  const bytes = new BodyBytes();
  const piece = Buffer.alloc(50_000, 'x');
  bytes.add(piece);
  expect(bytes.joined()).toBe(piece);
});
