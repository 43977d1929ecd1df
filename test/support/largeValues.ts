import { productNames } from '../../src/model/names.ts';
import type { RuleRequest } from '../../src/rules/decision.ts';
import type { Evaluation } from '../../src/rules/evaluation.ts';
import { JavaCodec } from '../../src/rules/library/base64.ts';
import { JavaBitSet } from '../../src/rules/library/bitSet.ts';
import { JavaComparator } from '../../src/rules/library/comparator.ts';
import { JavaCurrency } from '../../src/rules/library/currency.ts';
import { JavaCalendar, JavaDate } from '../../src/rules/library/dates.ts';
import { JavaLocale } from '../../src/rules/library/locales.ts';
import { JavaQueue } from '../../src/rules/library/queues.ts';
import { JavaJoiner, JavaTokenizer } from '../../src/rules/library/textPieces.ts';
import { JavaUuid } from '../../src/rules/library/uuid.ts';
import {
  CookieObject,
  QualifiedNameObject,
  QueryObject,
  RequestObject,
  UserInfoObject,
  UserObject,
} from '../../src/rules/requestObjects.ts';
import {
  JavaArray,
  JavaCollection,
  JavaEntry,
  JavaIterator,
  JavaList,
  JavaMap,
  JavaSet,
  JavaStream,
} from '../../src/rules/values/collections.ts';
import { compareNatural } from '../../src/rules/values/operators.ts';
import {
  JavaBuilder,
  JavaChar,
  JavaDouble,
  JavaFloat,
  JavaLong,
  JavaOptional,
  JavaSmallInt,
  kindOf,
  type Value,
  type ValueKind,
} from '../../src/rules/values/value.ts';
import { sampleRequest } from './ruleAttempt.ts';

const MAX_TEXT_SIZE = 4_194_304;
const MAX_COLLECTION_SIZE = 60_000;

/** A text of this length, in one piece of memory as texts of requests are. */
function flat(unit: string, end = ''): string {
  const body = unit.repeat(Math.trunc((MAX_TEXT_SIZE - end.length) / unit.length)) + end;
  return Buffer.from(body, 'utf16le').toString('utf16le');
}

/** Texts that make naive algorithms slow: as long as a text may be, or made for one method. */
export const largeTexts: readonly string[] = [
  flat('a'),
  flat('a', 'b'),
  `b${'a'.repeat(2_000_000)}`,
  `${'a'.repeat(2_000_000)}b`,
  `${'a'.repeat(300_000)}b${'a'.repeat(300_000)}`,
  'a'.repeat(400),
  flat('ab'),
  flat(' '),
  flat('1'),
  flat('1', 'x'),
  flat('%n'),
  flat('%s'),
  flat('\n'),
  flat('\u03a3'),
  flat('\u0130'),
  flat('\u00df\u0149'),
  flat('\ud83d\ude00'),
  flat('."'),
  flat('$1\\'),
  flat('a.b,c;d '),
];

/** Short texts, patterns among them. */
export const shortTexts: readonly string[] = [
  '',
  'a',
  'ab',
  'b',
  ' ',
  '10',
  '1.5',
  'true',
  'x-engine-user',
  '.*x|a',
  '(a|b)*c',
  '(a?){200}b',
  '(\\p{L}{1,900})*[0-9]',
  '(?i)([a-z]|\\W){50}',
  '%,d %10.3f %S %h',
  'caf\u00e9',
];

const numbers: readonly Value[] = [
  ...[0, 1, -1, 7, 60_000, 4_000_000, 2_147_483_647, -2_147_483_648],
  new JavaLong(9_223_372_036_854_775_807n),
  new JavaDouble(1e308),
  new JavaDouble(Number.NaN),
  new JavaFloat(1.5),
  new JavaSmallInt('short', 12),
  new JavaSmallInt('byte', -1),
];

/** Strings with one `hashCode()`. */
function colliding(): string[] {
  let texts = [''];
  for (let length = 0; length < 15; length += 1) texts = texts.flatMap((text) => [`${text}Aa`, `${text}BB`]);
  return texts;
}

/** Long strings of one length that differ at their ends: V8 hashes those by their lengths alone. */
function longAlike(count: number): string[] {
  const start = 'k'.repeat(20_000);
  return Array.from({ length: count }, (_, index) => start + String(index).padStart(5, '0'));
}

function nested(levels: number): JavaList {
  let value = new JavaList(['x']);
  for (let level = 0; level < levels; level += 1) value = new JavaList([value, value]);
  return value;
}

function selfContaining(): JavaList {
  const list = new JavaList([1, 2]);
  list.items.push(list, list);
  return list;
}

function listsOf(e: Evaluation): readonly Value[] {
  const texts = Array.from(
    { length: MAX_COLLECTION_SIZE },
    (_, index) => `item-${(index * 7919) % MAX_COLLECTION_SIZE}`,
  );
  const long = largeTexts[0] ?? '';
  const set = new JavaSet();
  const tree = new JavaSet('sorted');
  const map = new JavaMap();
  const treeMap = new JavaMap('sorted');
  for (const text of texts) {
    set.fill(text, e);
    tree.fill(text, e);
    map.fill(text, long, e);
    treeMap.fill(text, text, e);
  }
  const collisions = new JavaSet();
  const collisionMap = new JavaMap();
  for (const text of colliding()) {
    collisions.fill(text, e);
    collisionMap.fill(text, text, e);
  }
  const self = new JavaMap();
  self.put('self', self, e);
  self.put('again', self, e);
  const sets = new JavaSet('insertion');
  for (let index = 0; index < 2000; index += 1) sets.fill(new JavaList([index, 'a', new JavaList([index])]), e);
  return [
    new JavaList(texts),
    new JavaList(texts.map(() => long)),
    new JavaList(texts.map((_, index) => index % 3)),
    new JavaList(longAlike(500)),
    new JavaList(texts.map((text) => new JavaList([text]))),
    nested(60),
    nested(70),
    selfContaining(),
    new JavaArray(texts),
    new JavaArray(texts.map(() => new JavaSmallInt('byte', 65))),
    new JavaCollection(texts),
    ...[set, tree, collisions, sets, map, treeMap, collisionMap, self],
    new JavaList([]),
  ];
}

const headers = Array.from({ length: 1000 }, (_, index) => [`X-Header-${index}`, `value ${'v'.repeat(40)}`]).flat();

/** A request with as many headers, parameters and tables as fit into what is accepted. */
export const largeRequest: RuleRequest = {
  ...sampleRequest,
  headers: [
    ...sampleRequest.headers,
    ...headers,
    ...['Cookie', Array.from({ length: 4000 }, (_, index) => `c${index}=${index}`).join('; ')],
    ...['Content-Type', `text/plain;${' '.repeat(20_000)}charset`],
    ...['Date', '1 '.repeat(20_000)],
  ],
  query: Array.from({ length: 5000 }, (_, index) => `p${index}=${index}`).join('&'),
  user: {
    user: 'alice',
    userInfo: { sub: 'alice', groups: Array.from({ length: 10_000 }, (_, index) => `group-${index}`) },
  },
  queryProperties: {
    ...(sampleRequest.queryProperties as NonNullable<RuleRequest['queryProperties']>),
    tables: Array.from({ length: 20_000 }, (_, index) => ['hive', 'web', `table${index}`] as const),
    catalogs: Array.from({ length: 5000 }, (_, index) => `catalog${index}`),
    body: flat('select '),
  },
};

/** Values of every kind of the language, the largest that there may be. */
export function largeValues(e: Evaluation): readonly Value[] {
  const builder = new JavaBuilder();
  builder.text = largeTexts[0] ?? '';
  const lists = listsOf(e);
  const items = Array.from({ length: MAX_COLLECTION_SIZE }, (_, index) => `item-${index}`);
  const large = largeTexts[1] ?? '';
  const largeStack = new JavaList(items.slice(), 'open', 'stack');
  const largeQueue = new JavaQueue(items.toSorted(), null);
  const bits = new JavaBitSet();
  bits.bits = (1n << 16_384n) - 1n;
  const joiner = new JavaJoiner(', ', '[', ']');
  joiner.joined = large.slice(10);
  const user = largeRequest.user as NonNullable<RuleRequest['user']>;
  const query = largeRequest.queryProperties as NonNullable<RuleRequest['queryProperties']>;
  return [
    ...[null, true, false],
    ...[
      largeStack,
      largeQueue,
      bits,
      joiner,
      new JavaTokenizer(large, 'a', false),
      new JavaTokenizer(large, 'b', true),
    ],
    ...[new JavaLocale('tr', ''), new JavaLocale('en', 'US'), new JavaCurrency('EUR')],
    ...numbers,
    ...largeTexts,
    ...shortTexts,
    ...[new JavaChar('a'), new JavaChar('\u03a3')],
    builder,
    ...lists,
    new JavaEntry(large, lists[0] ?? null),
    new JavaIterator('iterator', items),
    new JavaIterator('enumeration', items),
    new JavaStream(items),
    new JavaStream(items.map(() => large)),
    new JavaOptional(lists[5] ?? null),
    new JavaOptional(large),
    new JavaComparator((a, b) => compareNatural(a, b, e)),
    new JavaDate(4e15),
    new JavaCalendar(1e12),
    new JavaUuid('123e4567-e89b-12d3-a456-426614174000'),
    ...(['encoder', 'decoder'] as const).map((kind) => new JavaCodec(kind, 'base64url')),
    new RequestObject(largeRequest, productNames('Engine')),
    new CookieObject('a', large),
    new UserObject(user),
    new UserInfoObject(user.userInfo ?? {}),
    new QueryObject(query),
    new QualifiedNameObject(['hive', 'web', large]),
  ];
}

/** Values by their kinds. */
export function byKind(values: readonly Value[]): ReadonlyMap<ValueKind, readonly Value[]> {
  return Map.groupBy(values, kindOf);
}
