import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { JavaArray, JavaIterator, JavaList, JavaMap, JavaSet, sortItems } from '../values/collections.ts';
import { compareNatural } from '../values/operators.ts';
import { javaText } from '../values/text.ts';
import { javaEquals, type Value } from '../values/value.ts';
import { copied, itemsOf } from './collections.ts';
import { JavaComparator } from './comparator.ts';
import { LibraryClass } from './javaClass.ts';

export const arraysClass = new LibraryClass('Arrays');
arraysClass.statics
  .addVariadic('asList', [], (e, _self, items) => {
    e.reserveElements(items.length, items.length);
    return new JavaList([...items], 'fixed');
  })
  .add('toString', ['elements'], (e, _self, elements) => javaText(new JavaArray(itemsOf(elements, e)), e));

export const collectionsClass = new LibraryClass('Collections');
function extreme(elements: readonly Value[], sign: 1 | -1, e: Evaluation): Value {
  let best = elements[0];
  if (best === undefined) throw new EvaluationError('the collection is empty');
  for (let index = 1; index < elements.length; index += 1) {
    const item = elements[index] ?? null;
    e.step();
    if (compareNatural(item, best, e) * sign > 0) best = item;
  }
  return best;
}
collectionsClass.statics
  .add('list', ['any'], (e, _self, value) => {
    if (!(value instanceof JavaIterator) || value.kind !== 'enumeration') {
      throw new EvaluationError('Collections.list takes an Enumeration');
    }
    return new JavaList(copied(value.rest(), e));
  })
  .add('min', ['elements'], (e, _self, elements) => extreme(itemsOf(elements, e), -1, e))
  .add('max', ['elements'], (e, _self, elements) => extreme(itemsOf(elements, e), 1, e))
  .add('frequency', ['elements', 'any'], (e, _self, elements, value) => {
    let count = 0;
    for (const item of itemsOf(elements, e)) {
      e.step();
      if (javaEquals(item, value, e)) count += 1;
    }
    return count;
  })
  .add('disjoint', ['elements', 'elements'], (e, _self, a, b) => {
    const others = new JavaSet();
    for (const item of itemsOf(b, e)) others.fill(item, e);
    for (const item of itemsOf(a, e)) {
      e.step();
      if (others.has(item, e)) return false;
    }
    return true;
  })
  .add('sort', ['elements'], (e, _self, elements) =>
    reorder(elements, e, (items) => sortItems(items, compareNatural, e)),
  )
  .add('reverse', ['elements'], (e, _self, elements) => reorder(elements, e, (items) => items.reverse()))
  .addFresh('reverseOrder', [], () => new JavaComparator((a, b, e) => compareNatural(b, a, e)))
  .add('nCopies', ['int', 'any'], (e, _self, count, value) => {
    if (count < 0) throw new EvaluationError('nCopies needs a count of 0 or more');
    e.reserveElements(count, count);
    return new JavaList(new Array<Value>(count).fill(value), 'immutable');
  })
  .add('emptyList', [], () => new JavaList([], 'immutable'))
  .add('emptySet', [], () => new JavaSet('hash', true))
  .add('emptyMap', [], () => new JavaMap('hash', true))
  .add('singletonList', ['any'], (_e, _self, value) => new JavaList([value], 'immutable'))
  .add('singleton', ['any'], (e, _self, value) => {
    const set = new JavaSet('hash', true);
    set.fill(value, e);
    return set;
  })
  .add(
    'unmodifiableList',
    ['elements'],
    (e, _self, elements) => new JavaList(copied(itemsOf(elements, e), e), 'immutable'),
  );

function reorder(elements: Parameters<typeof itemsOf>[0], e: Evaluation, change: (items: Value[]) => unknown): null {
  if (!(elements instanceof JavaList) || elements.access === 'immutable') {
    throw new EvaluationError('only a list that can be changed can be reordered');
  }
  e.step(elements.items.length);
  e.willChange(elements);
  change(elements.items);
  return null;
}
