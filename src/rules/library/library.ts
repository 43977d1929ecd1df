import {
  cookieMethods,
  qualifiedNameMethods,
  queryMethods,
  requestMethods,
  userInfoMethods,
  userMethods,
} from '../requestObjects.ts';
import { kindOf, type Value, type ValueKind } from '../values/value.ts';
import { base64Class, decoderMethods, encoderMethods } from './base64.ts';
import { bitSetClass, bitSetMethods } from './bitSet.ts';
import { collectionClasses } from './collectionClasses.ts';
import { arraysClass, collectionsClass } from './collectionStatics.ts';
import {
  arrayMethods,
  entryMethods,
  enumerationMethods,
  iteratorMethods,
  listMethods,
  mapMethods,
  optionalMethods,
  setMethods,
  streamMethods,
  viewMethods,
} from './collections.ts';
import { caseInsensitiveOrder, comparatorMethods } from './comparator.ts';
import { currencyClass, currencyMethods } from './currency.ts';
import { calendarClass, calendarMethods, dateClass, dateMethods } from './dates.ts';
import { LibraryClass } from './javaClass.ts';
import { localeClass, localeMethods } from './locales.ts';
import type { MethodTable, Overloads } from './methodTable.ts';
import {
  booleanClass,
  booleanMethods,
  byteClass,
  doubleClass,
  floatClass,
  integerClass,
  longClass,
  mathClass,
  numberClass,
  numberMethods,
  shortClass,
} from './numbers.ts';
import { objectsClass, optionalClass } from './objects.ts';
import { priorityQueueClass, queueMethods, stackClass, stackMethods } from './queues.ts';
import { builderClass, builderMethods, characterClass, charMethods, stringClass, stringMethods } from './strings.ts';
import { joinerClass, joinerMethods, tokenizerClass, tokenizerMethods } from './textPieces.ts';
import { uuidClass, uuidMethods } from './uuid.ts';

/**
 * The allow-list: methods by type of value. Calls only use these methods (docs/rules.md lists them; a test compares).
 */
const instanceMethods: Partial<Record<ValueKind, MethodTable>> = {
  boolean: booleanMethods,
  int: numberMethods,
  long: numberMethods,
  float: numberMethods,
  double: numberMethods,
  short: numberMethods,
  byte: numberMethods,
  char: charMethods,
  string: stringMethods,
  builder: builderMethods,
  list: listMethods,
  stack: stackMethods,
  queue: queueMethods,
  array: arrayMethods,
  set: setMethods,
  map: mapMethods,
  entry: entryMethods,
  collection: viewMethods,
  iterator: iteratorMethods,
  enumeration: enumerationMethods,
  stream: streamMethods,
  optional: optionalMethods,
  comparator: comparatorMethods,
  date: dateMethods,
  calendar: calendarMethods,
  uuid: uuidMethods,
  locale: localeMethods,
  currency: currencyMethods,
  tokenizer: tokenizerMethods,
  joiner: joinerMethods,
  bitSet: bitSetMethods,
  encoder: encoderMethods,
  decoder: decoderMethods,
  request: requestMethods,
  cookie: cookieMethods,
  user: userMethods,
  userInfo: userInfoMethods,
  query: queryMethods,
  qualifiedName: qualifiedNameMethods,
};

const byKind = new Map(Object.entries(instanceMethods)) as ReadonlyMap<ValueKind, MethodTable>;

/** Methods of a value's type; undefined for null and classes. */
export function methodsOf(value: Value): MethodTable | undefined {
  return byKind.get(kindOf(value));
}

export function methodsOfKind(kind: ValueKind): MethodTable | undefined {
  return byKind.get(kind);
}

/**
 * True if a method of this name returns equal results for equal receivers and arguments on every type. Types are
 * unknown before evaluation.
 */
export function isPureMethod(name: string): boolean {
  const all = [...byKind.values()].flatMap((table) => table.get(name) ?? []);
  return all.length > 0 && all.every(isPure);
}

/** The equivalent for `value.name`, which is a getter, or a key of a map. */
export function isPureProperty(name: string): boolean {
  return [...byKind.values()].flatMap((table) => table.getter(name) ?? []).every(isPure);
}

function isPure({ methods }: Overloads): boolean {
  return methods.every(({ dependsOn }) => dependsOn === 'operands');
}

export function kindsWithMethods(): readonly ValueKind[] {
  return [...byKind.keys()];
}

stringClass.field('CASE_INSENSITIVE_ORDER', caseInsensitiveOrder);

/** Constants of Trino Gateway's selector that its rules use by name. */
const selectorClass = new LibraryClass('FileBasedRoutingGroupSelector').field(
  'RESULTS_ROUTING_GROUP_KEY',
  'routingGroup',
);

const allKinds = [...byKind.keys(), 'class' as const];

const classes = new Map<string, LibraryClass>(
  [
    stringClass,
    builderClass,
    characterClass,
    integerClass,
    longClass,
    doubleClass,
    floatClass,
    shortClass,
    byteClass,
    numberClass,
    booleanClass,
    mathClass,
    selectorClass,
    ...collectionClasses,
    arraysClass,
    collectionsClass,
    optionalClass,
    objectsClass,
    base64Class,
    dateClass,
    calendarClass,
    uuidClass,
    stackClass,
    priorityQueueClass,
    localeClass,
    currencyClass,
    tokenizerClass,
    joinerClass,
    bitSetClass,
    // Only for `is`.
    new LibraryClass('Collection', ['list', 'stack', 'queue', 'set', 'collection']),
    new LibraryClass('CharSequence', ['string', 'builder']),
    new LibraryClass('Object', allKinds),
  ].map((libraryClass) => [libraryClass.name, libraryClass]),
);
classes.set('StrictMath', mathClass);
classes.set('StringBuffer', builderClass);

const PACKAGES = /^java\.(?:util|lang)\.([A-Z]\w*)$/;

/** Finds a class by its short name or as `java.util.X` and `java.lang.X`; undefined if unavailable. */
export function libraryClass(name: string): LibraryClass | undefined {
  return classes.get(PACKAGES.exec(name)?.[1] ?? name);
}

export function classNames(): readonly string[] {
  return [...classes.keys()].sort();
}

/** Names of primitive types, which are separate classes in `x == int`. */
export const primitiveTypes: ReadonlyMap<string, ValueKind> = new Map([
  ['int', 'int'],
  ['long', 'long'],
  ['float', 'float'],
  ['double', 'double'],
  ['short', 'short'],
  ['byte', 'byte'],
  ['char', 'char'],
  ['boolean', 'boolean'],
]);
