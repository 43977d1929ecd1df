import { EvaluationError } from '../evaluation.ts';
import { JavaList } from '../values/collections.ts';
import { javaText } from '../values/text.ts';
import { emptyOptional, hashOf, JavaOptional, javaEquals, type Value } from '../values/value.ts';
import { copied } from './collections.ts';
import { LibraryClass } from './javaClass.ts';

/** Rejects null, as the Java method does. */
export function notNull(value: Value, what: string): Value {
  if (value === null) throw new EvaluationError(`${what} does not take null`);
  return value;
}

export const optionalClass = new LibraryClass('Optional', ['optional']);
optionalClass.statics
  .add('of', ['any'], (_e, _self, value) => new JavaOptional(notNull(value, 'Optional.of')))
  .add('ofNullable', ['any'], (_e, _self, value) => (value === null ? emptyOptional : new JavaOptional(value)))
  .add('empty', [], () => emptyOptional);

export const objectsClass = new LibraryClass('Objects');
objectsClass.statics
  .add('equals', ['any', 'any'], (e, _self, a, b) => javaEquals(a, b, e))
  .add('isNull', ['any'], (_e, _self, value) => value === null)
  .add('nonNull', ['any'], (_e, _self, value) => value !== null)
  .add('hashCode', ['any'], (e, _self, value) => hashOf(value, e))
  .addVariadic('hash', [], (e, _self, items) => hashOf(new JavaList(copied(items, e)), e))
  .add('toString', ['any'], (e, _self, value) => javaText(value, e))
  .add('toString', ['any', 'string?'], (e, _self, value, otherwise) =>
    value === null ? otherwise : javaText(value, e),
  )
  .add('requireNonNull', ['any'], (_e, _self, value) => notNull(value, 'requireNonNull'))
  .add(
    'requireNonNullElse',
    ['any', 'any'],
    (_e, _self, value, otherwise) => value ?? notNull(otherwise, 'requireNonNullElse'),
  );
