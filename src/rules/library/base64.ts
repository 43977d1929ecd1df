import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { JavaArray } from '../values/collections.ts';
import { JavaObject, JavaSmallInt, type Value } from '../values/value.ts';
import { itemsOf } from './collections.ts';
import { LibraryClass } from './javaClass.ts';
import { MethodTable } from './methodTable.ts';

/** `Base64.Encoder` and `Base64.Decoder`. */
export class JavaCodec extends JavaObject {
  readonly kind: 'encoder' | 'decoder';
  readonly alphabet: 'base64' | 'base64url';
  /** True if an encoder pads with `=`. */
  readonly isPadded: boolean;

  constructor(kind: 'encoder' | 'decoder', alphabet: 'base64' | 'base64url', isPadded = true) {
    super();
    this.isPadded = isPadded;
    this.kind = kind;
    this.alphabet = alphabet;
  }
}

export const base64Class = new LibraryClass('Base64');
base64Class.statics
  .addFresh('getEncoder', [], () => new JavaCodec('encoder', 'base64'))
  .addFresh('getUrlEncoder', [], () => new JavaCodec('encoder', 'base64url'))
  .addFresh('getDecoder', [], () => new JavaCodec('decoder', 'base64'))
  .addFresh('getUrlDecoder', [], () => new JavaCodec('decoder', 'base64url'));

export const UNITS_A_BYTE = 128;

/**
 * Converts elements to bytes, counted.
 * @param what name of the method for messages
 * @throws EvaluationError for elements that are not bytes
 */
export function bytesOf(items: readonly Value[], what: string, e: Evaluation): Buffer {
  e.text(UNITS_A_BYTE * items.length);
  const bytes = Buffer.alloc(items.length);
  for (const [index, item] of items.entries()) {
    if (!(item instanceof JavaSmallInt)) throw new EvaluationError(`${what} takes bytes, as getBytes() gives them`);
    bytes[index] = item.value;
  }
  return bytes;
}

function byteArray(bytes: Uint8Array, e: Evaluation): JavaArray {
  e.reserveElements(bytes.length, bytes.length);
  return new JavaArray(Array.from(bytes, (byte) => new JavaSmallInt('byte', (byte << 24) >> 24)));
}

function encoded(self: JavaCodec, items: readonly Value[], what: string, e: Evaluation): string {
  const bytes = bytesOf(items, what, e);
  e.reserveText(bytes.length * 2);
  const text = bytes.toString(self.alphabet).replace(/=+$/, '');
  return self.isPadded ? text.padEnd(Math.ceil(text.length / 4) * 4, '=') : text;
}

function decoded(self: JavaCodec, text: string, e: Evaluation): JavaArray {
  e.reserveElements(text.length, text.length);
  return byteArray(Buffer.from(text, self.alphabet), e);
}

export const encoderMethods = new MethodTable('Base64.Encoder', 'operands')
  .add('encodeToString', ['elements'], (e, self: JavaCodec, elements) =>
    encoded(self, itemsOf(elements, e), 'encodeToString', e),
  )
  .addFresh('encode', ['elements'], (e, self: JavaCodec, elements) =>
    byteArray(Buffer.from(encoded(self, itemsOf(elements, e), 'encode', e), 'latin1'), e),
  )
  .addFresh('withoutPadding', [], (_e, self: JavaCodec) => new JavaCodec('encoder', self.alphabet, false));

export const decoderMethods = new MethodTable('Base64.Decoder', 'operands')
  .addFresh('decode', ['string'], (e, self: JavaCodec, text) => decoded(self, text, e))
  .addFresh('decode', ['elements'], (e, self: JavaCodec, elements) =>
    decoded(self, bytesOf(itemsOf(elements, e), 'decode', e).toString('latin1'), e),
  );
