import { EvaluationError } from '../evaluation.ts';
import { compareText } from '../values/operators.ts';
import { JavaObject, type Value } from '../values/value.ts';
import { MethodTable } from './methodTable.ts';

/** `java.util.Comparator`, as the library hands it out. */
export class JavaComparator extends JavaObject {
  readonly kind = 'comparator';
  readonly compare: (a: Value, b: Value) => number;

  constructor(compare: (a: Value, b: Value) => number) {
    super();
    this.compare = compare;
  }
}

/** Methods of a Comparator. */
export const comparatorMethods = new MethodTable('Comparator').add(
  'compare',
  ['any', 'any'],
  (_e, self: JavaComparator, a, b) => self.compare(a, b),
);

/** String.CASE_INSENSITIVE_ORDER. */
export const caseInsensitiveOrder = new JavaComparator((a, b) => {
  if (typeof a !== 'string' || typeof b !== 'string')
    throw new EvaluationError('CASE_INSENSITIVE_ORDER compares Strings');
  return compareText(a.toUpperCase().toLowerCase(), b.toUpperCase().toLowerCase());
});
