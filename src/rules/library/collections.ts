import { type Evaluation, EvaluationError } from '../evaluation.ts';
import {
  elementsOf,
  JavaArray,
  JavaCollection,
  type JavaEntry,
  JavaIterator,
  JavaList,
  type JavaMap,
  JavaSet,
  JavaStream,
  sortItems,
} from '../values/collections.ts';
import { compareNatural, includesValue, indexOfValue, lastIndexOfValue } from '../values/operators.ts';
import { emptyOptional, JavaOptional, javaEquals, type Value } from '../values/value.ts';
import { long, MethodTable, objectMethods } from './methodTable.ts';

type AnyElements = JavaList | JavaSet | JavaCollection | JavaArray;

/** The elements of a collection in its order. */
export function itemsOf(collection: AnyElements, e: Evaluation): readonly Value[] {
  return elementsOf(collection, e, compareNatural) ?? [];
}

export function copied(items: readonly Value[], e: Evaluation): Value[] {
  e.reserveElements(items.length, items.length);
  return items.slice();
}

function includes(collection: AnyElements, value: Value, e: Evaluation): boolean {
  if (collection instanceof JavaSet) return collection.has(value, e);
  return includesValue(collection.items, value, e);
}

function sizeOf(collection: AnyElements): number {
  return collection instanceof JavaSet ? collection.size : collection.items.length;
}

/** Shared read methods of lists, sets and views (`java.util.Collection`). */
export const collectionMethods = new MethodTable('Collection', 'operands')
  .include(objectMethods)
  .add('size', [], (_e, self: AnyElements) => sizeOf(self))
  .add('isEmpty', [], (_e, self: AnyElements) => sizeOf(self) === 0)
  .add('containsAll', ['elements'], (e, self: AnyElements, others) =>
    itemsOf(others, e).every((item) => {
      e.step();
      return includes(self, item, e);
    }),
  )
  .addFresh('iterator', [], (e, self: AnyElements) => new JavaIterator('iterator', itemsOf(self, e)))
  .addFresh('stream', [], (e, self: AnyElements) => new JavaStream(itemsOf(self, e)))
  .addFresh('toArray', [], (e, self: AnyElements) => new JavaArray(itemsOf(self, e)));

function textProperty(self: JavaMap, key: string, e: Evaluation): string | null {
  const value = self.get(key, e);
  return typeof value === 'string' ? value : null;
}

/** Views such as `map.values()`. */
export const viewMethods = new MethodTable('Collection', 'operands')
  .include(collectionMethods)
  .add('contains', ['any'], (e, self: AnyElements, value) => includes(self, value, e));

/** Prepares a list for a change: checks that it is open, and saves it. */
function changing(list: JavaList, e: Evaluation): JavaList {
  if (list.access !== 'open') throw new EvaluationError('this list cannot be changed; new ArrayList(list) can');
  e.step(1 + Math.trunc(list.items.length / 64));
  e.willChange(list);
  return list;
}

function checkIndex(list: { readonly items: readonly Value[] }, index: number, last = list.items.length - 1): number {
  if (index < 0 || index > last) throw new EvaluationError(`index ${index} is outside a list of ${list.items.length}`);
  return index;
}

const FEW_VALUES = 100;

function insert(list: JavaList, index: number, values: readonly Value[], e: Evaluation): boolean {
  changing(list, e);
  checkIndex(list, index, list.items.length);
  e.reserveElements(list.items.length + values.length, values.length);
  if (values.length <= FEW_VALUES) list.items.splice(index, 0, ...values);
  // As arguments of one call, many values would not fit on the stack.
  else list.items = [...list.items.slice(0, index), ...values, ...list.items.slice(index)];
  return values.length > 0;
}

function removeAt(list: JavaList, index: number, e: Evaluation): Value {
  changing(list, e);
  checkIndex(list, index);
  return list.items.splice(index, 1)[0] ?? null;
}

function end(list: JavaList, index: number): Value {
  if (list.items.length === 0) throw new EvaluationError('the list is empty');
  return list.items.at(index) ?? null;
}

function keep(list: JavaList, others: AnyElements, shouldHave: boolean, e: Evaluation): boolean {
  changing(list, e);
  const before = list.items.length;
  list.items = list.items.filter((item) => {
    e.step();
    return includes(others, item, e) === shouldHave;
  });
  return list.items.length !== before;
}

export const vectorMethods = new MethodTable('List', 'operands')
  .include(collectionMethods)
  .add('contains', ['any'], (e, self: JavaList, value) => {
    if (self.access === 'immutable' && value === null) throw new EvaluationError('List.of(…).contains(null)');
    return includes(self, value, e);
  })
  .add('get', ['int'], (_e, self: JavaList, index) => self.items[checkIndex(self, index)] ?? null)
  .add('indexOf', ['any'], (e, self: JavaList, value) => indexOfValue(self.items, value, e))
  .add('lastIndexOf', ['any'], (e, self: JavaList, value) => lastIndexOfValue(self.items, value, e))
  .add('subList', ['int', 'int'], (e, self: JavaList, from, to) => {
    checkIndex(self, to, self.items.length);
    checkIndex(self, from, to);
    e.reserveElements(to - from, to - from);
    return new JavaList(self.items.slice(from, to));
  })
  .add('set', ['int', 'any'], (e, self: JavaList, index, value) => setElement(self, index, value, e))
  .add('add', ['any'], (e, self: JavaList, value) => insert(self, self.items.length, [value], e))
  .add('add', ['int', 'any'], (e, self: JavaList, index, value) => {
    insert(self, index, [value], e);
    return null;
  })
  .add('addAll', ['elements'], (e, self: JavaList, others) => insert(self, self.items.length, itemsOf(others, e), e))
  .add('remove', ['int'], (e, self: JavaList, index) => removeAt(self, index, e))
  .add('remove', ['any'], (e, self: JavaList, value) => {
    const index = indexOfValue(self.items, value, e);
    if (index >= 0) removeAt(self, index, e);
    return index >= 0;
  })
  .add('removeAll', ['elements'], (e, self: JavaList, others) => keep(self, others, false, e))
  .add('retainAll', ['elements'], (e, self: JavaList, others) => keep(self, others, true, e))
  .add('clear', [], (e, self: JavaList) => {
    changing(self, e).items = [];
    return null;
  })
  .add('getFirst', [], (_e, self: JavaList) => end(self, 0))
  .add('getLast', [], (_e, self: JavaList) => end(self, -1))
  .add('addFirst', ['any'], (e, self: JavaList, value) => {
    insert(self, 0, [value], e);
    return null;
  })
  .add('addLast', ['any'], (e, self: JavaList, value) => {
    insert(self, self.items.length, [value], e);
    return null;
  })
  .add('removeFirst', [], (e, self: JavaList) => removeAt(self, 0, e))
  .add('removeLast', [], (e, self: JavaList) => removeAt(self, self.items.length - 1, e));

/** `java.util.List` with additional methods of LinkedList and ArrayDeque. */
export const listMethods = new MethodTable('List', 'operands')
  .include(vectorMethods)
  .add('peek', [], (_e, self: JavaList) => self.items[0] ?? null)
  .add('peekFirst', [], (_e, self: JavaList) => self.items[0] ?? null)
  .add('peekLast', [], (_e, self: JavaList) => self.items.at(-1) ?? null)
  .add('element', [], (_e, self: JavaList) => end(self, 0))
  .add('offer', ['any'], (e, self: JavaList, value) => insert(self, self.items.length, [value], e))
  .add('push', ['any'], (e, self: JavaList, value) => {
    insert(self, 0, [value], e);
    return null;
  })
  .add('pop', [], (e, self: JavaList) => removeAt(self, 0, e))
  .add('poll', [], (e, self: JavaList) => pollAt(self, 0, e))
  .add('pollFirst', [], (e, self: JavaList) => pollAt(self, 0, e))
  .add('pollLast', [], (e, self: JavaList) => pollAt(self, self.items.length - 1, e));

function pollAt(list: JavaList, index: number, e: Evaluation): Value {
  return list.items.length === 0 ? null : removeAt(list, index, e);
}

/** `list[index] = value` and `list.set`; returns the previous value. */
export function setElement(list: JavaList, index: number, value: Value, e: Evaluation): Value {
  if (list.access === 'immutable') throw new EvaluationError('this list cannot be changed; new ArrayList(list) can');
  e.willChange(list);
  const before = list.items[checkIndex(list, index)] ?? null;
  list.items[index] = value;
  return before;
}

function changingSet(set: JavaSet): JavaSet {
  if (set.immutable) throw new EvaluationError('this set cannot be changed; new HashSet(set) can');
  return set;
}

/** Applies a change to each element; returns true if any changed something. */
function changeEach(items: readonly Value[], change: (item: Value) => boolean, e: Evaluation): boolean {
  let hasChanged = false;
  for (const item of items) {
    e.step();
    if (change(item)) hasChanged = true;
  }
  return hasChanged;
}

function setEnd(set: JavaSet, index: number, e: Evaluation): Value {
  if (set.size === 0) throw new EvaluationError('the set is empty');
  return set.ordered(e, compareNatural).at(index) ?? null;
}

/** `java.util.Set` with additional methods of TreeSet. */
export const setMethods = new MethodTable('Set', 'operands')
  .include(collectionMethods)
  .add('contains', ['any'], (e, self: JavaSet, value) => {
    if (self.immutable && value === null) throw new EvaluationError('Set.of(…).contains(null)');
    return self.has(value, e);
  })
  .add('add', ['any'], (e, self: JavaSet, value) => changingSet(self).add(value, e))
  .add('addAll', ['elements'], (e, self: JavaSet, others) =>
    changeEach(itemsOf(others, e), (item) => changingSet(self).add(item, e), e),
  )
  .add('remove', ['any'], (e, self: JavaSet, value) => changingSet(self).delete(value, e))
  .add('removeAll', ['elements'], (e, self: JavaSet, others) =>
    changeEach(itemsOf(others, e), (item) => changingSet(self).delete(item, e), e),
  )
  .add('retainAll', ['elements'], (e, self: JavaSet, others) =>
    changeEach(itemsOf(self, e), (item) => !includes(others, item, e) && changingSet(self).delete(item, e), e),
  )
  .add('clear', [], (e, self: JavaSet) => {
    changingSet(self).clear(e);
    return null;
  })
  .add('first', [], (e, self: JavaSet) => setEnd(self, 0, e))
  .add('last', [], (e, self: JavaSet) => setEnd(self, -1, e));

function changingMap(map: JavaMap): JavaMap {
  if (map.immutable) throw new EvaluationError('this map cannot be changed; new HashMap(map) can');
  return map;
}

function keys(map: JavaMap, e: Evaluation): JavaSet {
  const set = new JavaSet(map.ordering === 'hash' ? 'insertion' : map.ordering, true);
  for (const entry of map.ordered(e, compareNatural)) set.fill(entry.key, e);
  return set;
}

function keyAt(map: JavaMap, index: number, e: Evaluation): Value {
  const entry = map.ordered(e, compareNatural).at(index);
  if (entry === undefined) throw new EvaluationError('the map is empty');
  return entry.key;
}

/** `java.util.Map` with additional methods of TreeMap. */
export const mapMethods = new MethodTable('Map', 'operands')
  .include(objectMethods)
  .add('size', [], (_e, self: JavaMap) => self.size)
  .add('isEmpty', [], (_e, self: JavaMap) => self.size === 0)
  .add('get', ['any'], (e, self: JavaMap, key) => self.get(key, e) ?? null)
  .add('getOrDefault', ['any', 'any'], (e, self: JavaMap, key, otherwise) => {
    const value = self.get(key, e);
    return value === undefined ? otherwise : value;
  })
  .add('containsKey', ['any'], (e, self: JavaMap, key) => self.get(key, e) !== undefined)
  .add('containsValue', ['any'], (e, self: JavaMap, value) => {
    for (const entry of self.entries.values()) {
      e.step();
      if (javaEquals(entry.value, value, e)) return true;
    }
    return false;
  })
  .add('put', ['any', 'any'], (e, self: JavaMap, key, value) => changingMap(self).put(key, value, e) ?? null)
  // Methods of java.util.Properties, which is a map here.
  .add(
    'setProperty',
    ['string', 'string'],
    (e, self: JavaMap, key, value) => changingMap(self).put(key, value, e) ?? null,
  )
  .add('getProperty', ['string'], (e, self: JavaMap, key) => textProperty(self, key, e))
  .add(
    'getProperty',
    ['string', 'string?'],
    (e, self: JavaMap, key, otherwise) => textProperty(self, key, e) ?? otherwise,
  )
  .add('putIfAbsent', ['any', 'any'], (e, self: JavaMap, key, value) => {
    const previous = self.get(key, e) ?? null;
    if (previous === null) changingMap(self).put(key, value, e);
    return previous;
  })
  .add('putAll', ['map'], (e, self: JavaMap, others) => {
    for (const entry of others.ordered(e, compareNatural)) changingMap(self).put(entry.key, entry.value, e);
    return null;
  })
  .add('replace', ['any', 'any'], (e, self: JavaMap, key, value) => {
    const previous = self.get(key, e);
    if (previous !== undefined) changingMap(self).put(key, value, e);
    return previous ?? null;
  })
  .add('remove', ['any'], (e, self: JavaMap, key) => changingMap(self).delete(key, e) ?? null)
  .add('clear', [], (e, self: JavaMap) => {
    changingMap(self).clear(e);
    return null;
  })
  .add('keySet', [], (e, self: JavaMap) => keys(self, e))
  .addFresh(
    'values',
    [],
    (e, self: JavaMap) => new JavaCollection(self.ordered(e, compareNatural).map((entry) => entry.value)),
  )
  .add('entrySet', [], (e, self: JavaMap) => {
    const set = new JavaSet('insertion', true);
    for (const entry of self.ordered(e, compareNatural)) set.fill(entry, e);
    return set;
  })
  .add('firstKey', [], (e, self: JavaMap) => keyAt(self, 0, e))
  .add('lastKey', [], (e, self: JavaMap) => keyAt(self, -1, e));

export const entryMethods = new MethodTable('Map.Entry', 'operands')
  .include(objectMethods)
  .add('getKey', [], (_e, self: JavaEntry) => self.key)
  .add('getValue', [], (_e, self: JavaEntry) => self.value);

export const iteratorMethods = new MethodTable('Iterator', 'operands')
  .add('hasNext', [], (_e, self: JavaIterator) => self.hasNext())
  .add('next', [], (_e, self: JavaIterator) => self.next());
export const enumerationMethods = new MethodTable('Enumeration', 'operands')
  .add('hasMoreElements', [], (_e, self: JavaIterator) => self.hasNext())
  .add('nextElement', [], (_e, self: JavaIterator) => self.next());

export const streamMethods = new MethodTable('Stream', 'operands')
  .add('count', [], (_e, self: JavaStream) => long(BigInt(self.items.length)))
  .add('toList', [], (e, self: JavaStream) => new JavaList(copied(self.items, e), 'immutable'))
  .addFresh('toArray', [], (_e, self: JavaStream) => new JavaArray(self.items))
  .add('findFirst', [], (_e, self: JavaStream) =>
    self.items.length === 0 ? emptyOptional : new JavaOptional(self.items[0] ?? null),
  )
  .addFresh('distinct', [], (e, self: JavaStream) => {
    const set = new JavaSet('insertion');
    for (const item of self.items) {
      e.step();
      set.fill(item, e);
    }
    return new JavaStream([...set.elements.values()]);
  })
  .addFresh('sorted', [], (e, self: JavaStream) => {
    e.step(self.items.length);
    return new JavaStream(sortItems(copied(self.items, e), compareNatural, e));
  })
  .addFresh('limit', ['int'], (e, self: JavaStream, most) => part(self, 0, Math.max(0, most), e))
  .addFresh('skip', ['int'], (e, self: JavaStream, count) => part(self, Math.max(0, count), self.items.length, e));

function part({ items }: JavaStream, from: number, to: number, e: Evaluation): JavaStream {
  const count = Math.max(0, Math.min(to, items.length) - from);
  e.reserveElements(count, count);
  return new JavaStream(items.slice(from, to));
}

export const optionalMethods = new MethodTable('Optional', 'operands')
  .include(objectMethods)
  .add('get', [], (_e, self: JavaOptional) => {
    if (self.value === null) throw new EvaluationError('the Optional is empty; ask isPresent() first or use orElse');
    return self.value;
  })
  .add('orElseThrow', [], (_e, self: JavaOptional) => {
    if (self.value === null) throw new EvaluationError('the Optional is empty');
    return self.value;
  })
  .add('orElse', ['any'], (_e, self: JavaOptional, otherwise) => self.value ?? otherwise)
  .add('isPresent', [], (_e, self: JavaOptional) => self.value !== null)
  .add('isEmpty', [], (_e, self: JavaOptional) => self.value === null);

export const arrayMethods = new MethodTable('array', 'operands') //
  .add('length', [], (_e, self: JavaArray) => self.items.length);
