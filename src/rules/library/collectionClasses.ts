import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { JavaEntry, JavaList, JavaMap, JavaSet, type Ordering } from '../values/collections.ts';
import { compareNatural } from '../values/operators.ts';
import { copied, itemsOf } from './collections.ts';
import { LibraryClass } from './javaClass.ts';
import { notNull } from './objects.ts';

function listClass(name: string): LibraryClass {
  const type = new LibraryClass(name, ['list']);
  type.constructors
    .add('new', [], () => new JavaList([]))
    .add('new', ['int'], () => new JavaList([]))
    .add('new', ['elements'], (e, _self, elements) => copyOf(elements, e));
  return type;
}

function copyOf(elements: Parameters<typeof itemsOf>[0], e: Evaluation): JavaList {
  return new JavaList(copied(itemsOf(elements, e), e));
}

function setClass(name: string, ordering: Ordering): LibraryClass {
  const type = new LibraryClass(name, ['set']);
  type.constructors
    .add('new', [], () => new JavaSet(ordering))
    .add('new', ['int'], () => new JavaSet(ordering))
    .add('new', ['elements'], (e, _self, elements) => {
      const items = itemsOf(elements, e);
      const set = new JavaSet(ordering, false, items.length);
      for (const item of items) set.fill(item, e);
      return set;
    });
  return type;
}

function mapClass(name: string, ordering: Ordering): LibraryClass {
  const type = new LibraryClass(name, ['map']);
  type.constructors
    .add('new', [], () => new JavaMap(ordering))
    .add('new', ['int'], () => new JavaMap(ordering))
    .add('new', ['map'], (e, _self, other) => copyMap(other, new JavaMap(ordering), e));
  return type;
}

function copyMap(from: JavaMap, to: JavaMap, e: Evaluation): JavaMap {
  for (const entry of from.ordered(e, compareNatural)) to.fill(entry.key, entry.value, e);
  return to;
}

const list = new LibraryClass('List', ['list', 'stack']);
list.statics
  .addVariadic('of', [], (e, _self, items) => {
    e.reserveElements(items.length, items.length);
    return new JavaList(
      items.map((item) => notNull(item, 'List.of')),
      'immutable',
    );
  })
  .add('copyOf', ['elements'], (e, _self, elements) => new JavaList(copied(itemsOf(elements, e), e), 'immutable'));

const set = new LibraryClass('Set', ['set']);
set.statics
  .addVariadic('of', [], (e, _self, items) => {
    const result = new JavaSet('hash', true);
    for (const item of items) {
      if (!result.fill(notNull(item, 'Set.of'), e)) throw new EvaluationError('Set.of: an element is there twice');
    }
    return result;
  })
  .add('copyOf', ['elements'], (e, _self, elements) => {
    const result = new JavaSet('hash', true);
    for (const item of itemsOf(elements, e)) result.fill(item, e);
    return result;
  });

const map = new LibraryClass('Map', ['map']);
map.statics
  .addVariadic('of', [], (e, _self, items) => {
    if (items.length % 2 !== 0 || items.length > 20)
      throw new EvaluationError('Map.of takes up to 10 pairs of key and value');
    const result = new JavaMap('hash', true);
    for (let index = 0; index < items.length; index += 2) {
      const key = notNull(items[index] ?? null, 'Map.of');
      if (result.fill(key, notNull(items[index + 1] ?? null, 'Map.of'), e) !== undefined) {
        throw new EvaluationError('Map.of: a key is there twice');
      }
    }
    return result;
  })
  .add('copyOf', ['map'], (e, _self, other) => copyMap(other, new JavaMap('hash', true), e))
  .add(
    'entry',
    ['any', 'any'],
    (_e, _self, key, value) => new JavaEntry(notNull(key, 'Map.entry'), notNull(value, 'Map.entry')),
  );

/** Lists, sets and maps of java.util, with static methods of their interfaces. */
export const collectionClasses: readonly LibraryClass[] = [
  list,
  set,
  map,
  listClass('ArrayList'),
  listClass('LinkedList'),
  listClass('Vector'),
  listClass('ArrayDeque'),
  setClass('HashSet', 'hash'),
  setClass('LinkedHashSet', 'insertion'),
  setClass('TreeSet', 'sorted'),
  mapClass('HashMap', 'hash'),
  mapClass('LinkedHashMap', 'insertion'),
  mapClass('TreeMap', 'sorted'),
  mapClass('Hashtable', 'hash'),
  mapClass('Properties', 'hash'),
];
