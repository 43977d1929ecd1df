import { type Evaluation, EvaluationError } from '../evaluation.ts';
import {
  JavaArray,
  JavaEntry,
  JavaIterator,
  JavaList,
  JavaMap,
  JavaSet,
  type Ordering,
} from '../values/collections.ts';
import { compareByText, hashOf, javaEquals } from '../values/equality.ts';
import { compareNatural, compareText } from '../values/operators.ts';
import { javaText, textBy } from '../values/text.ts';
import { emptyOptional, JavaObject, JavaOptional, JavaSmallInt, type Kind, type Value } from '../values/value.ts';
import { itemsOf } from './collections.ts';
import { LibraryClass } from './javaClass.ts';
import { long, MethodTable } from './methodTable.ts';

function listClass(name: string): LibraryClass {
  const made = new LibraryClass(name, ['list']);
  made.constructors
    .add('new', [], () => new JavaList([]))
    .add('new', ['int'], () => new JavaList([]))
    .add('new', ['elements'], (e, _self, elements) => copyOf(elements, e));
  return made;
}

function copyOf(elements: Parameters<typeof itemsOf>[0], e: Evaluation): JavaList {
  const items = itemsOf(elements, e);
  e.reserveElements(items.length, items.length);
  return new JavaList([...items]);
}

function setClass(name: string, ordering: Ordering): LibraryClass {
  const made = new LibraryClass(name, ['set']);
  made.constructors
    .add('new', [], () => new JavaSet(ordering))
    .add('new', ['int'], () => new JavaSet(ordering))
    .add('new', ['elements'], (e, _self, elements) => {
      const items = itemsOf(elements, e);
      const set = new JavaSet(ordering, false, items.length);
      for (const item of items) set.fill(item, e);
      return set;
    });
  return made;
}

function mapClass(name: string, ordering: Ordering): LibraryClass {
  const made = new LibraryClass(name, ['map']);
  made.constructors
    .add('new', [], () => new JavaMap(ordering))
    .add('new', ['int'], () => new JavaMap(ordering))
    .add('new', ['map'], (e, _self, other) => copyMap(other, new JavaMap(ordering), e));
  return made;
}

function copyMap(from: JavaMap, to: JavaMap, e: Evaluation): JavaMap {
  for (const entry of from.ordered(e, compareNatural)) to.fill(entry.key, entry.value, e);
  return to;
}

function notNull(value: Value, what: string): Value {
  if (value === null) throw new EvaluationError(`${what} does not take null`);
  return value;
}

const list = new LibraryClass('List', ['list']);
list.statics
  .addVariadic('of', [], (e, _self, items) => {
    e.reserveElements(items.length, items.length);
    return new JavaList(
      items.map((item) => notNull(item, 'List.of')),
      'immutable',
    );
  })
  .add('copyOf', ['elements'], (e, _self, elements) => new JavaList([...itemsOf(elements, e)], 'immutable'));

const set = new LibraryClass('Set', ['set']);
set.statics
  .addVariadic('of', [], (e, _self, items) => {
    const made = new JavaSet('hash', true);
    for (const item of items) {
      if (!made.fill(notNull(item, 'Set.of'), e)) throw new EvaluationError('Set.of: an element is there twice');
    }
    return made;
  })
  .add('copyOf', ['elements'], (e, _self, elements) => {
    const made = new JavaSet('hash', true);
    for (const item of itemsOf(elements, e)) made.fill(item, e);
    return made;
  });

const map = new LibraryClass('Map', ['map']);
map.statics
  .addVariadic('of', [], (e, _self, items) => {
    if (items.length % 2 !== 0 || items.length > 20)
      throw new EvaluationError('Map.of takes up to 10 pairs of key and value');
    const made = new JavaMap('hash', true);
    for (let index = 0; index < items.length; index += 2) {
      const key = notNull(items[index] ?? null, 'Map.of');
      if (made.fill(key, notNull(items[index + 1] ?? null, 'Map.of'), e) !== undefined) {
        throw new EvaluationError('Map.of: a key is there twice');
      }
    }
    return made;
  })
  .add('copyOf', ['map'], (e, _self, other) => copyMap(other, new JavaMap('hash', true), e))
  .add(
    'entry',
    ['any', 'any'],
    (_e, _self, key, value) => new JavaEntry(notNull(key, 'Map.entry'), notNull(value, 'Map.entry')),
  );

const arrays = new LibraryClass('Arrays');
arrays.statics
  .addVariadic('asList', [], (e, _self, items) => {
    e.reserveElements(items.length, items.length);
    return new JavaList([...items], 'fixed');
  })
  .add('toString', ['elements'], (e, _self, elements) => javaText(new JavaArray(itemsOf(elements, e)), e));

const collections = new LibraryClass('Collections');
function extreme(elements: readonly Value[], sign: 1 | -1): Value {
  const [first, ...others] = elements;
  if (first === undefined) throw new EvaluationError('the collection is empty');
  return others.reduce<Value>((best, item) => (compareNatural(item, best) * sign > 0 ? item : best), first);
}
collections.statics
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

const optional = new LibraryClass('Optional', ['optional']);
optional.statics
  .add('of', ['any'], (_e, _self, value) => new JavaOptional(notNull(value, 'Optional.of')))
  .add('ofNullable', ['any'], (_e, _self, value) => (value === null ? emptyOptional : new JavaOptional(value)))
  .add('empty', [], () => emptyOptional);

const objects = new LibraryClass('Objects');
objects.statics
  .add('equals', ['any', 'any'], (e, _self, a, b) => javaEquals(a, b, e))
  .add('isNull', ['any'], (_e, _self, value) => value === null)
  .add('nonNull', ['any'], (_e, _self, value) => value !== null)
  .add('hashCode', ['any'], (e, _self, value) => hashOf(value, e))
  .addVariadic('hash', [], (e, _self, items) => hashOf(new JavaList([...items]), e))
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

const base64 = new LibraryClass('Base64');
base64.statics
  .add('getEncoder', [], () => new JavaCodec('encoder', 'base64'))
  .add('getUrlEncoder', [], () => new JavaCodec('encoder', 'base64url'))
  .add('getDecoder', [], () => new JavaCodec('decoder', 'base64'))
  .add('getUrlDecoder', [], () => new JavaCodec('decoder', 'base64url'));

/** Methods of Base64's encoder. */
export const encoderMethods = new MethodTable('Base64.Encoder').add(
  'encodeToString',
  ['elements'],
  (e, self: JavaCodec, elements) => {
    const bytes = itemsOf(elements, e).map((item) => (item instanceof JavaSmallInt ? item.value : Number.NaN));
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

/** `java.util.Date`: a moment in milliseconds. */
export class JavaDate extends JavaObject {
  readonly kind = 'date';
  readonly time: number;

  constructor(time: number) {
    super();
    this.time = time;
  }
}

/** Methods of Date. */
export const dateMethods = new MethodTable('Date').add('getTime', [], (_e, self: JavaDate) => long(BigInt(self.time)));
textBy('date', (value) => new Date((value as JavaDate).time).toISOString());
compareByText('date', (value) => String((value as JavaDate).time));

const date = new LibraryClass('Date', ['date']);
date.constructors
  .add('new', [], (e) => new JavaDate(e.sources.now()))
  .add('new', ['long'], (_e, _self, time) => new JavaDate(Number(BigInt.asIntN(53, time))));

/** `java.util.Calendar` in the machine's time zone. */
export class JavaCalendar extends JavaObject {
  readonly kind = 'calendar';
  readonly time: number;

  constructor(time: number) {
    super();
    this.time = time;
  }
}

const calendarFields: readonly (readonly [name: string, number: number, read: (moment: Date) => number])[] = [
  ['YEAR', 1, (moment) => moment.getFullYear()],
  ['MONTH', 2, (moment) => moment.getMonth()],
  ['DAY_OF_MONTH', 5, (moment) => moment.getDate()],
  ['DAY_OF_WEEK', 7, (moment) => moment.getDay() + 1],
  ['HOUR', 10, (moment) => moment.getHours() % 12],
  ['HOUR_OF_DAY', 11, (moment) => moment.getHours()],
  ['MINUTE', 12, (moment) => moment.getMinutes()],
  ['SECOND', 13, (moment) => moment.getSeconds()],
];
const calendar = new LibraryClass('Calendar', ['calendar']);
for (const [name, number] of calendarFields) calendar.field(name, number);
for (const [index, day] of ['SUNDAY', 'MONDAY', 'TUESDAY', 'WEDNESDAY', 'THURSDAY', 'FRIDAY', 'SATURDAY'].entries()) {
  calendar.field(day, index + 1);
}
calendar.statics.add('getInstance', [], (e) => new JavaCalendar(e.sources.now()));

/** Methods of Calendar: the machine's time zone, as in Java. */
export const calendarMethods = new MethodTable('Calendar')
  .add('get', ['int'], (_e, self: JavaCalendar, field) => {
    const found = calendarFields.find(([, number]) => number === field);
    if (found === undefined) throw new EvaluationError(`Calendar has no field ${field} here`);
    return found[2](new Date(self.time));
  })
  .add('getTimeInMillis', [], (_e, self: JavaCalendar) => long(BigInt(self.time)));

/** `java.util.UUID`. */
export class JavaUuid extends JavaObject {
  readonly kind = 'uuid';
  readonly text: string;

  constructor(text: string) {
    super();
    this.text = text;
  }
}

const uuid = new LibraryClass('UUID', ['uuid']);
uuid.statics.add('fromString', ['string'], (_e, _self, text) => {
  if (!/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text))
    throw new EvaluationError('not a UUID');
  return new JavaUuid(text.toLowerCase());
});

/** Methods of UUID. */
export const uuidMethods = new MethodTable('UUID')
  .add('version', [], (_e, self: JavaUuid) => Number.parseInt(self.text.charAt(14), 16))
  .add('toString', [], (_e, self: JavaUuid) => self.text)
  .add('equals', ['any'], (e, self: JavaUuid, other) => javaEquals(self, other, e));
textBy('uuid', (value) => (value as JavaUuid).text);
compareByText('uuid', (value) => (value as JavaUuid).text);

/** Classes that are only there for `is`. */
function typeOnly(name: string, kinds: readonly Kind[]): LibraryClass {
  return new LibraryClass(name, kinds);
}

/** Classes of java.util and the interfaces of java.lang. */
export const utilityClasses: readonly LibraryClass[] = [
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
  arrays,
  collections,
  optional,
  objects,
  base64,
  date,
  calendar,
  uuid,
  typeOnly('Collection', ['list', 'set', 'collection']),
  typeOnly('CharSequence', ['string', 'builder']),
];
