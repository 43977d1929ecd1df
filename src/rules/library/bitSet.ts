import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { textBy } from '../values/text.ts';
import { compareByText, Mutable, type Value } from '../values/value.ts';
import { LibraryClass } from './javaClass.ts';
import { equalityMethods, MethodTable } from './methodTable.ts';

/** Maximum number of bits of a set; every change creates a new number of this size. */
const MAX_BITS = 16_384;
/** Size of Java's words, in which it counts its size. */
const WORD = 64;

export class JavaBitSet extends Mutable {
  readonly kind = 'bitSet';
  /** Numbers are immutable: saving needs no copy. */
  readonly size = 0;
  bits = 0n;

  override snapshot(): () => void {
    const { bits } = this;
    return () => {
      this.bits = bits;
    };
  }

  get length(): number {
    return this.bits === 0n ? 0 : this.bits.toString(2).length;
  }

  /** Indexes of the set bits, in order. */
  indexes(): number[] {
    const text = this.bits.toString(2);
    const indices: number[] = [];
    for (let at = text.length - 1; at >= 0; at -= 1) if (text.charAt(at) === '1') indices.push(text.length - 1 - at);
    return indices;
  }
}

function whole(e: Evaluation): void {
  e.text(MAX_BITS);
}

function index(value: number): bigint {
  if (value < 0 || value >= MAX_BITS)
    throw new EvaluationError(`a BitSet has bits 0 to ${MAX_BITS - 1} here, not ${value}`);
  return BigInt(value);
}

function range(from: number, to: number): bigint {
  if (from > to) throw new EvaluationError(`${from} to ${to} is no range of bits`);
  if (from === to) return 0n;
  const last = index(to - 1);
  return ((1n << (last - index(from) + 1n)) - 1n) << index(from);
}

function change(self: JavaBitSet, bits: bigint, e: Evaluation): null {
  whole(e);
  e.reserveText(MAX_BITS / WORD);
  e.willChange(self);
  self.bits = bits;
  return null;
}

function other(value: Value): bigint {
  if (value instanceof JavaBitSet) return value.bits;
  throw new EvaluationError('the argument must be a BitSet');
}

export const bitSetClass = new LibraryClass('BitSet', ['bitSet']);
bitSetClass.constructors
  .add('new', [], () => new JavaBitSet())
  .add('new', ['int'], (_e, _self, size) => {
    if (size < 0) throw new EvaluationError('the size of a BitSet cannot be negative');
    return new JavaBitSet();
  });

const put = (self: JavaBitSet, mask: bigint, isSet: boolean, e: Evaluation) =>
  change(self, isSet ? self.bits | mask : self.bits & ~mask, e);

/** The nearest set bit from `from` on, or -1. */
function nextSet(bits: bigint, from: number): number {
  if (from < 0) throw new EvaluationError(`a BitSet has no bit ${from}`);
  if (from >= MAX_BITS) return -1;
  const rest = bits >> BigInt(from);
  return rest === 0n ? -1 : from + (rest & -rest).toString(2).length - 1;
}

export const bitSetMethods = new MethodTable('BitSet', 'operands')
  .include(equalityMethods)
  .add('set', ['int'], (e, self: JavaBitSet, at) => put(self, 1n << index(at), true, e))
  .add('set', ['int', 'boolean'], (e, self: JavaBitSet, at, isSet) => put(self, 1n << index(at), isSet, e))
  .add('set', ['int', 'int'], (e, self: JavaBitSet, from, to) => put(self, range(from, to), true, e))
  .add('clear', [], (e, self: JavaBitSet) => change(self, 0n, e))
  .add('clear', ['int'], (e, self: JavaBitSet, at) => put(self, 1n << index(at), false, e))
  .add('clear', ['int', 'int'], (e, self: JavaBitSet, from, to) => put(self, range(from, to), false, e))
  .add('flip', ['int'], (e, self: JavaBitSet, at) => change(self, self.bits ^ (1n << index(at)), e))
  .add('flip', ['int', 'int'], (e, self: JavaBitSet, from, to) => change(self, self.bits ^ range(from, to), e))
  .add('get', ['int'], (e, self: JavaBitSet, at) => {
    whole(e);
    return at < MAX_BITS && ((self.bits >> index(at)) & 1n) === 1n;
  })
  .add('and', ['any'], (e, self: JavaBitSet, set) => change(self, self.bits & other(set), e))
  .add('or', ['any'], (e, self: JavaBitSet, set) => change(self, self.bits | other(set), e))
  .add('xor', ['any'], (e, self: JavaBitSet, set) => change(self, self.bits ^ other(set), e))
  .add('andNot', ['any'], (e, self: JavaBitSet, set) => change(self, self.bits & ~other(set), e))
  .add('intersects', ['any'], (e, self: JavaBitSet, set) => {
    whole(e);
    return (self.bits & other(set)) !== 0n;
  })
  .add('cardinality', [], (e, self: JavaBitSet) => {
    e.step(MAX_BITS / WORD);
    return self.indexes().length;
  })
  .add('isEmpty', [], (_e, self: JavaBitSet) => self.bits === 0n)
  .add('length', [], (e, self: JavaBitSet) => {
    whole(e);
    return self.length;
  })
  .add('size', [], (e, self: JavaBitSet) => {
    whole(e);
    return Math.max(1, Math.ceil(self.length / WORD)) * WORD;
  })
  .add('nextSetBit', ['int'], (e, self: JavaBitSet, from) => {
    whole(e);
    return nextSet(self.bits, from);
  })
  .add('nextClearBit', ['int'], (e, self: JavaBitSet, from) => {
    whole(e);
    return nextSet(~self.bits, from);
  })
  .add('toString', [], (e, self: JavaBitSet) => {
    e.step(MAX_BITS / WORD);
    return `{${self.indexes().join(', ')}}`;
  });
textBy('bitSet', (value) => `{${(value as JavaBitSet).indexes().join(', ')}}`);
compareByText('bitSet', (value) => (value as JavaBitSet).bits.toString(16));
