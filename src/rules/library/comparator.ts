import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { compareIgnoringCase } from '../values/caseFolding.ts';
import { JavaObject, type Value } from '../values/value.ts';
import { MethodTable } from './methodTable.ts';

/** `java.util.Comparator` from the library. */
export class JavaComparator extends JavaObject {
  readonly kind = 'comparator';
  readonly compare: (a: Value, b: Value, e: Evaluation) => number;

  constructor(compare: JavaComparator['compare']) {
    super();
    this.compare = compare;
  }
}

export const comparatorMethods = new MethodTable('Comparator', 'operands').add(
  'compare',
  ['any', 'any'],
  (e, self: JavaComparator, a, b) => self.compare(a, b, e),
);

export const caseInsensitiveOrder = new JavaComparator((a, b, e) => {
  if (typeof a !== 'string' || typeof b !== 'string')
    throw new EvaluationError('CASE_INSENSITIVE_ORDER compares Strings');
  return compareIgnoringCase(a, b, e);
});
