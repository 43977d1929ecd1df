import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readCases } from '../../../scripts/cases/sql.ts';
import { Selection, statementAnalysis } from '../../../src/replay/selection.ts';
import { keywords, T } from '../../../src/sql/syntax/kinds.ts';
import { tokenizeSql } from '../../../src/sql/syntax/lexer.ts';

const analyze = statementAnalysis({ productName: 'Trino', clientsUseV2Format: false, maxAnalyzed: 100_000 });
const anything = {
  routingGroups: null,
  users: null,
  excludeCatalogs: [],
  perDigest: 100,
  max: 10_000,
  decider: null,
  percent: 100,
};

const row = (text: string, more: object = {}, recorded: object = {}) => ({
  ...{ queryId: `q-${text}`, queryText: text, isCut: false, user: 'ann', source: null, created: 0 },
  ...{ routingGroup: 'adhoc', decision: null, ...more },
  statement: {
    ...{ digest: text, state: 'FINISHED', errorType: null, errorName: null, errorMessage: null, cpuMillis: 100 },
    replay: JSON.stringify({ complete: 'yes', headers: { Catalog: 'tpch' } }),
    ...recorded,
  },
});

test('selects what can be replayed, and states for what it stands', () => {
  const filter = { ...anything, routingGroups: ['adhoc'], excludeCatalogs: ['secret'], perDigest: 2, max: 3 };
  const selection = new Selection(filter, analyze);
  for (let count = 0; count < 4; count++) selection.add({ ...row('SELECT 1'), queryId: `a${count}` });
  selection.add(row('SELECT 2', {}, { state: 'FAILED', errorType: 'USER_ERROR' }));
  selection.add(row('SELECT 3'));
  selection.add(row('SELECT 1', { routingGroup: 'etl' }));
  selection.add(row('SELECT 1', { source: 'engine-gateway-replay' }));
  selection.add(row('DELETE FROM t'));
  selection.add(row('SELECT * FROM secret.s.t'));
  selection.add(row('SELECT 1', {}, { state: 'FAILED', errorType: 'INTERNAL_ERROR' }));
  selection.add(row('SELECT 1', { isCut: true }));
  selection.add(row('SELECT 1', {}, { replay: JSON.stringify({ complete: 'redacted', headers: {} }) }));
  const { queries, recorded, excluded } = selection.report();
  expect(queries.map(({ queryId, standsFor }) => [queryId, standsFor.queries])).toEqual([
    ['a0', 2],
    ['a1', 2],
    ['q-SELECT 2', 1],
  ]);
  expect(recorded).toEqual({ queries: 11, cpuMillis: 1_100 });
  expect(Object.fromEntries(Object.entries(excluded).map(([why, { queries }]) => [why, queries]))).toEqual({
    ...{ enough: 1, notRead: 1, catalog: 1, engine: 1, incomplete: 2 },
  });
});

/** One statement of each class of the engine's tree. */
const classes = Object.entries(
  JSON.parse(readFileSync('test/fixtures/sql-analysis/digests.json', 'utf8')) as Record<string, { text: string }>,
);
const recorded = (await readCases('cases')).flatMap(({ body, expect: expected }) =>
  'throws' in expected || ['Query', ''].includes(expected.queryType) || typeof body !== 'string' || body.length > 2_000
    ? []
    : [body],
);
const words: ReadonlySet<string> = new Set(keywords.map(([word]) => word));

/** The text with other spaces, comments and letter case of keywords. */
function respelled(text: string, spaces: readonly string[], isLower: boolean): string {
  const { kinds, starts, ends, count } = tokenizeSql(text);
  return Array.from({ length: count }, (_, at) => {
    const token = text.slice(starts[at], ends[at]);
    if (kinds[at] === T.UNRECOGNIZED || kinds[at] === T.EOF) return token;
    const isKeyword = words.has(token.toUpperCase());
    return `${isKeyword && isLower ? token.toLowerCase() : token}${spaces[at % spaces.length]}`;
  }).join('');
}

/** A statement in one of the forms in which clients send it. */
const forms: readonly ((text: string) => Parameters<typeof row>)[] = [
  (text) => [text],
  (text) => [`EXPLAIN ANALYZE ${text}`],
  (text) => [`EXECUTE IMMEDIATE '${text.replaceAll("'", "''")}'`],
  (text) => ['EXECUTE p', {}, { replay: JSON.stringify({ complete: 'yes', headers: {}, statement: text }) }],
  (text) => [`/* SELECT 1 */ ${text}`],
];

test('no statement of a class that is not a query is ever selected, however it is written and sent', () => {
  const others = classes.flatMap(([name, { text }]) => (name === 'Query' || name.startsWith('list') ? [] : [text]));
  expect(others.length).toBeGreaterThan(75);
  const texts = fc.constantFrom(...others, ...recorded);
  const spaces = fc.array(fc.constantFrom(' ', '\n', ' /* SELECT */ ', ' -- c\n', '\t'), {
    minLength: 1,
    maxLength: 4,
  });
  fc.assert(
    fc.property(texts, spaces, fc.boolean(), fc.constantFrom(...forms), (text, some, isLower, form) => {
      const selection = new Selection(anything, analyze);
      selection.add(row(...form(respelled(text, some, isLower))));
      expect(selection.report().queries).toEqual([]);
    }),
    { numRuns: 2_000 },
  );
});

test.each([
  "SELECT * FROM TABLE(system.query(query => 'DELETE FROM t'))",
  "WITH a AS (SELECT * FROM TABLE(c.system.execute(query => 'DROP TABLE t'))) SELECT * FROM a",
  'SELECT (SELECT max(n) FROM TABLE(f(1)))',
  'SELECT 1; DELETE FROM t',
])('%s is not selected', (text) => {
  const selection = new Selection(anything, analyze);
  selection.add(row(text));
  expect(selection.report()).toMatchObject({ queries: [], excluded: { notRead: { queries: 1 } } });
});

test('a share of the queries is the same wherever it is chosen', () => {
  const choose = () => {
    const selection = new Selection({ ...anything, percent: 10 }, analyze);
    const counts = Array.from({ length: 2_000 }, (_, count) => {
      const before = selection.report().recorded.queries;
      selection.add({ ...row('SELECT 1', { isCut: true }), queryId: `20261127_190739_${count}_an8um` });
      return selection.report().recorded.queries - before;
    });
    return counts.join('');
  };
  expect(choose()).toBe(choose());
  const share = choose().replaceAll('0', '').length;
  expect(share).toBeGreaterThan(150);
  expect(share).toBeLessThan(250);
});
