import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cutToBytes, cutToWidth, storable } from '../../../src/store/historyText.ts';

const anyText = fc.string({ unit: 'binary', maxLength: 60 });

describe('texts of the history', () => {
  it('are cut by characters, as databases count', () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 0, max: 40 }), (text, width) => {
        expect(cutToWidth(text, width)).toBe([...storable(text)].slice(0, width).join(''));
      }),
    );
  });

  it('are cut by bytes without halving a character', () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 0, max: 100 }), (text, bytes) => {
        const cut = cutToBytes(text, bytes);
        expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(bytes);
        expect(text.startsWith(cut)).toBe(true);
        const next = [...text.slice(cut.length)][0];
        if (next !== undefined) expect(Buffer.byteLength(cut) + Buffer.byteLength(next)).toBeGreaterThan(bytes);
      }),
    );
  });

  it('lose NUL and lone surrogates', () => {
    expect(storable('a\u0000b\ud800c🚀')).toBe('ab\ufffdc🚀');
  });
});
