import { EvaluationError } from '../evaluation.ts';
import { JavaArray } from '../values/collections.ts';
import { JavaObject, JavaSmallInt } from '../values/value.ts';
import { itemsOf } from './collections.ts';
import { LibraryClass } from './javaClass.ts';
import { MethodTable } from './methodTable.ts';

/** `Base64.Encoder` and `Base64.Decoder`. */
export class JavaCodec extends JavaObject {
  readonly kind: 'encoder' | 'decoder';
  readonly alphabet: 'base64' | 'base64url';

  constructor(kind: 'encoder' | 'decoder', alphabet: 'base64' | 'base64url') {
    super();
    this.kind = kind;
    this.alphabet = alphabet;
  }
}

/** `java.util.Base64`. */
export const base64Class = new LibraryClass('Base64');
base64Class.statics
  .add('getEncoder', [], () => new JavaCodec('encoder', 'base64'))
  .add('getUrlEncoder', [], () => new JavaCodec('encoder', 'base64url'))
  .add('getDecoder', [], () => new JavaCodec('decoder', 'base64'))
  .add('getUrlDecoder', [], () => new JavaCodec('decoder', 'base64url'));

/** Methods of Base64's encoder. */
export const encoderMethods = new MethodTable('Base64.Encoder').add(
  'encodeToString',
  ['elements'],
  (e, self: JavaCodec, elements) => {
    const items = itemsOf(elements, e);
    e.step(items.length >> 3);
    const bytes = items.map((item) => (item instanceof JavaSmallInt ? item.value : Number.NaN));
    if (bytes.some((byte) => Number.isNaN(byte)))
      throw new EvaluationError('encodeToString takes bytes, as getBytes() gives them');
    e.reserveText(bytes.length * 2);
    const text = Buffer.from(bytes).toString(self.alphabet);
    return self.alphabet === 'base64url' ? text.padEnd(Math.ceil(text.length / 4) * 4, '=') : text;
  },
);

/** Methods of Base64's decoder. */
export const decoderMethods = new MethodTable('Base64.Decoder').add(
  'decode',
  ['string'],
  (e, self: JavaCodec, text) => {
    e.reserveElements(text.length, text.length);
    return new JavaArray(
      [...Buffer.from(text, self.alphabet)].map((byte) => new JavaSmallInt('byte', (byte << 24) >> 24)),
    );
  },
);
