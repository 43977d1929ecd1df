import { EvaluationError } from '../evaluation.ts';
import { byText } from '../values/text.ts';
import { javaEquals, TextHolder } from '../values/value.ts';
import { LibraryClass } from './javaClass.ts';
import { MethodTable } from './methodTable.ts';

export class JavaUuid extends TextHolder {
  readonly kind = 'uuid';
}

export const uuidClass = new LibraryClass('UUID', ['uuid']);
uuidClass.statics.add(
  'randomUUID',
  [],
  (e) => {
    // RFC 9562 §5.4: version 4. Not cryptographically secure.
    const hex = (digits: number): string =>
      Array.from({ length: digits }, () => Math.floor(e.sources.random() * 16).toString(16)).join('');
    const variant = (8 + Math.floor(e.sources.random() * 4)).toString(16);
    return new JavaUuid(`${hex(8)}-${hex(4)}-4${hex(3)}-${variant}${hex(3)}-${hex(12)}`);
  },
  'chance',
);
uuidClass.statics.add('fromString', ['string'], (_e, _self, text) => {
  if (!/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text))
    throw new EvaluationError('not a UUID');
  return new JavaUuid(text.toLowerCase());
});

export const uuidMethods = new MethodTable('UUID', 'operands')
  .add('version', [], (_e, self: JavaUuid) => Number.parseInt(self.text.charAt(14), 16))
  .add('toString', [], (_e, self: JavaUuid) => self.text)
  .add('equals', ['any'], (e, self: JavaUuid, other) => javaEquals(self, other, e));
byText('uuid', (value) => (value as JavaUuid).text);
