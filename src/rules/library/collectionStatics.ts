import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { JavaArray, JavaIterator, JavaList, JavaMap, JavaSet } from '../values/collections.ts';
import { javaEquals } from '../values/equality.ts';
import { compareNatural } from '../values/operators.ts';
import { javaText } from '../values/text.ts';
import type { Value } from '../values/value.ts';
import { itemsOf } from './collections.ts';
import { JavaComparator } from './comparator.ts';
import { LibraryClass } from './javaClass.ts';

/** `java.util.Arrays`. */
export const arraysClass = new LibraryClass('Arrays');
arraysClass.statics
  .addVariadic('asList', [], (e, _self, items) => {
    e.reserveElements(items.length, items.length);
    return new JavaList([...items], 'fixed');
  })
  .add('toString', ['elements'], (e, _self, elements) => javaText(new JavaArray(itemsOf(elements, e)), e));

/** `java.util.Collections`. */
export const collectionsClass = new LibraryClass('Collections');
function extreme(elements: readonly Value[], sign: 1 | -1): Value {
  const [first, ...others] = elements;
  if (first === undefined) throw new EvaluationError('the collection is empty');
  return others.reduce<Value>((best, item) => (compareNatural(item, best) * sign > 0 ? item : best), first);
}
collectionsClass.statics
  .add('list', ['any'], (_e, _self, value) => {
    if (!(value instanceof JavaIterator) || value.kind !== 'enumeration') {
      throw new EvaluationError('Collections.list takes an Enumeration');
    }
    return new JavaList([...value.rest()]);
  })
  .add('min', ['elements'], (e, _self, elements) => extreme(itemsOf(elements, e), -1))
  .add('max', ['elements'], (e, _self, elements) => extreme(itemsOf(elements, e), 1))
  .add('frequency', ['elements', 'any'], (e, _self, elements, value) => {
    const items = itemsOf(elements, e);
    e.step(items.length);
    return items.filter((item) => javaEquals(item, value, e)).length;
  })
  .add('disjoint', ['elements', 'elements'], (e, _self, a, b) => {
    const others = new JavaSet();
    for (const item of itemsOf(b, e)) others.fill(item, e);
    return !itemsOf(a, e).some((item) => others.has(item, e));
  })
  .add('sort', ['elements'], (e, _self, elements) => reorder(elements, e, (items) => items.sort(compareNatural)))
  .add('reverse', ['elements'], (e, _self, elements) => reorder(elements, e, (items) => items.reverse()))
  .add('reverseOrder', [], () => new JavaComparator((a, b) => compareNatural(b, a)))
  .add('emptyList', [], () => new JavaList([], 'immutable'))
  .add('emptySet', [], () => new JavaSet('hash', true))
  .add('emptyMap', [], () => new JavaMap('hash', true))
  .add('singletonList', ['any'], (_e, _self, value) => new JavaList([value], 'immutable'))
  .add('singleton', ['any'], (e, _self, value) => {
    const made = new JavaSet('hash', true);
    made.fill(value, e);
    return made;
  })
  .add('unmodifiableList', ['elements'], (e, _self, elements) => new JavaList([...itemsOf(elements, e)], 'immutable'));

function reorder(elements: Parameters<typeof itemsOf>[0], e: Evaluation, change: (items: Value[]) => unknown): null {
  if (!(elements instanceof JavaList) || elements.access === 'immutable') {
    throw new EvaluationError('only a list that can be changed can be reordered');
  }
  e.step(elements.items.length);
  e.willChange(elements);
  change(elements.items);
  return null;
}
