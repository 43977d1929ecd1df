import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readCases } from '../../../scripts/cases/sql.ts';
import { shapeText, statementDigests, statementLabels } from '../../../src/sql/statementDigests.ts';
import { keywords, T } from '../../../src/sql/syntax/kinds.ts';
import { tokenizeSql } from '../../../src/sql/syntax/lexer.ts';

type Stored = Readonly<Record<'text' | 'exact' | 'shape' | 'shapeText', string>>;
const stored = JSON.parse(
  await readFile(new URL('../../fixtures/sql-analysis/digests.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, Stored>>;
const cases = await readCases('cases');
const digests = (text: string) => statementDigests(text, null);
const shape = (text: string) => digests(text).shape;
const exact = (text: string) => digests(text).exact;

describe('stored digests', () => {
  test.each(Object.entries(stored))('%s: as earlier releases computed them', (_name, row) => {
    const { exact: exactDigest, shape: shapeDigest } = digests(row.text);
    expect({ exact: exactDigest, shape: shapeDigest, shapeText: shapeText(row.text, 1_000) }).toEqual({
      ...{ exact: row.exact, shape: row.shape, shapeText: row.shapeText },
    });
  });

  test('every class of the recorded cases has a stored digest, and shapes of different classes differ', () => {
    const classes = new Set(
      cases.flatMap(({ expect: e }) => ('throws' in e || e.queryType === '' ? [] : [e.queryType])),
    );
    expect([...classes].filter((name) => stored[name] === undefined)).toEqual([]);
    const shapes = Object.values(stored).map((row) => row.shape);
    expect(new Set(shapes).size).toBe(shapes.length);
  });
});

const bodies = cases
  .map(({ body }) => body)
  .filter((body): body is string => typeof body === 'string' && body.length > 0 && body.length < 2_000)
  .filter((body) => !/^\s*execute\s+immediate/i.test(body))
  .filter((body) => tokensOf(body).every(([, kind]) => kind !== T.UNRECOGNIZED));
const corpus = fc.constantFrom(...bodies);

function tokensOf(text: string): readonly (readonly [text: string, kind: number])[] {
  const { kinds, starts, ends, count } = tokenizeSql(text);
  return Array.from({ length: count }, (_, i) => [text.slice(starts[i], ends[i]), kinds[i] as number] as const);
}

const joined = (tokens: readonly (readonly [string, number])[]) => tokens.map(([text]) => text).join(' ');
const space = fc.constantFrom(' ', '\n', '\t', ' /* c */ ', ' -- c\n', '/**/ ', '\r\n', '  ');
const words = new Set(keywords.map(([word]) => word));
const literals = new Map<number, (n: number) => string>([
  [T.STRING, (n) => `'it''s ${n}'`],
  [T.INTEGER_VALUE, (n) => String(n)],
  [T.DECIMAL_VALUE, (n) => `${n}.5`],
  [T.DOUBLE_VALUE, (n) => `${n}e3`],
  [T.BINARY_LITERAL, (n) => `X'${(n % 90) + 10}'`],
]);
const operators = new Map<number, string>([
  ...([
    [T.PLUS, '*'],
    [T.MINUS, '/'],
    [T.ASTERISK, '+'],
    [T.SLASH, '-'],
    [T.EQ, '<>'],
    [T.NEQ, '='],
  ] as const),
  ...([
    [T.LT, '>'],
    [T.GT, '<'],
    [T.LTE, '>='],
    [T.GTE, '<='],
    [T.AND, 'OR'],
    [T.OR, 'AND'],
  ] as const),
]);

describe('for all recorded statements', () => {
  test('white space and comments change neither digest', () => {
    fc.assert(
      fc.property(corpus, fc.array(space, { minLength: 1, maxLength: 40 }), (body, spaces) => {
        const spread = tokensOf(body)
          .map(([text], i) => text + (spaces[i % spaces.length] as string))
          .join('');
        expect(digests(spread)).toMatchObject({ exact: exact(body), shape: shape(body) });
      }),
      { numRuns: 2_000 },
    );
  });

  test('letter case of keywords and unquoted names changes neither digest', () => {
    fc.assert(
      fc.property(corpus, fc.integer(), (body, seed) => {
        const swapped = tokensOf(body).map(([text, kind], i) => {
          if (!words.has(text.toUpperCase()) && kind !== T.IDENTIFIER) return [text, kind] as const;
          return [((seed >> (i % 31)) & 1) === 1 ? text.toUpperCase() : text.toLowerCase(), kind] as const;
        });
        expect(digests(joined(swapped))).toMatchObject({ exact: exact(body), shape: shape(body) });
      }),
      { numRuns: 2_000 },
    );
  });

  test('a literal changes the exact digest and never the shape', () => {
    fc.assert(
      fc.property(corpus, fc.nat(100_000), (body, n) => {
        let hasChanged = false;
        const others = tokensOf(body).map(([text, kind]) => {
          const other = literals.get(kind)?.(n) ?? text;
          hasChanged ||= other.toLowerCase() !== text.toLowerCase();
          return [other, kind] as const;
        });
        expect(shape(joined(others))).toBe(shape(body));
        if (hasChanged) expect(exact(joined(others))).not.toBe(exact(body));
      }),
      { numRuns: 2_000 },
    );
  });

  test('another name or operator changes both digests', () => {
    fc.assert(
      fc.property(corpus, fc.nat(), (body, place) => {
        const tokens = tokensOf(body);
        const places = tokens.flatMap(([, kind], i) => {
          // The sign of a number is part of the literal, the name of a type before a string in a list is one too.
          const isSign = (kind === T.MINUS || kind === T.PLUS) && /^[\d.]/.test(tokens[i + 1]?.[0] ?? '');
          const isType = kind === T.IDENTIFIER && tokens[i + 1]?.[1] === T.STRING;
          return (kind === T.IDENTIFIER && !isType) || (operators.has(kind) && !isSign) ? [i] : [];
        });
        fc.pre(places.length > 0);
        const at = places[place % places.length] as number;
        const [text, kind] = tokens[at] as readonly [string, number];
        const changed = tokens.with(at, [operators.get(kind) ?? `${text}_x`, kind]);
        expect(shape(joined(changed))).not.toBe(shape(body));
        expect(exact(joined(changed))).not.toBe(exact(body));
      }),
      { numRuns: 3_000 },
    );
  });

  test('shapes are as many as their texts', () => {
    const byShape = new Map<string, string>();
    for (const body of bodies) {
      const text = shapeText(body, 10_000);
      expect(byShape.get(shape(body)) ?? text).toBe(text);
      byShape.set(shape(body), text);
    }
    expect(new Set(byShape.values()).size).toBe(byShape.size);
  });
});

describe('what a shape has once', () => {
  test.each([
    [
      'lists of IN',
      'SELECT 1 FROM t WHERE a IN (1)',
      "SELECT 2 FROM t WHERE a IN (1, -2, NULL, 'x', DATE '2026-01-01')",
    ],
    ['rows of VALUES', "INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (1, 'a'), (2, NULL), (-3, 'c')"],
    ['rows with expressions', 'VALUES (cast(1 AS a), 2)', 'VALUES (CAST(4 AS a), 5), (cast(6 AS A), 7)'],
    ['rows without parentheses', 'SELECT * FROM (VALUES 1) t', 'SELECT * FROM (VALUES 1, 2, 3) t'],
    ['LIMIT', 'SELECT 1 LIMIT 1', 'SELECT 1 LIMIT ALL'],
    ['signs', 'SELECT a - 1, f(-1) WHERE b = -1', 'SELECT a - 2, f(3) WHERE b = +4'],
    ['parameters', 'SELECT a FROM t WHERE b = ?', "SELECT a FROM t WHERE b = 'x'"],
    ['escapes', "SELECT U&'!0041' UESCAPE '!'", "SELECT 'A'"],
    ['booleans', 'SELECT 1 FROM t WHERE a = true', 'SELECT 1 FROM t WHERE a = FALSE'],
  ])('%s', (_name, one, other) => {
    expect(shape(other)).toBe(shape(one));
    expect(exact(other)).not.toBe(exact(one));
  });

  test.each([
    ['other rows', 'VALUES (1, 2)', 'VALUES (1, 2), (a, 2)'],
    ['rows of another length', 'VALUES (1, 2)', 'VALUES (1, 2), (3, 4, 5)'],
    ['a list with a column', 'SELECT 1 WHERE a IN (1)', 'SELECT 1 WHERE a IN (1, b)'],
    ['IS NULL', 'SELECT 1 WHERE a IS NULL', 'SELECT 1 WHERE a IS NOT NULL'],
    ['subtraction', 'SELECT a - 1', 'SELECT a + 1'],
    ['quoted names', 'SELECT "A"', 'SELECT "a"'],
  ])('not %s', (_name, one, other) => {
    expect(shape(other)).not.toBe(shape(one));
  });

  test('rows in rows, and a hundred thousand of them, in linear time', () => {
    const rows = Array.from({ length: 100_000 }, (_, i) => `(${i}, 'x', (SELECT max(a) FROM t WHERE b IN (${i}, 2)))`);
    const long = `INSERT INTO t VALUES ${rows.join(', ')}`;
    expect(shape(long)).toBe(shape(`INSERT INTO t VALUES ${rows[7]}`));
    const deep = `SELECT ${'(VALUES (1), '.repeat(20_000)}1${')'.repeat(20_000)}`;
    const start = performance.now();
    for (const text of [
      long,
      deep,
      `SELECT ${'x IN (1, '.repeat(100_000)}`,
      `VALUES ${'(1), (a), '.repeat(100_000)}`,
    ]) {
      expect(shape(text)).toMatch(/^[0-9a-f]{16}$/);
    }
    expect(performance.now() - start).toBeLessThan(10_000);
  });

  test('shape texts have a bound', () => {
    expect(shapeText('SELECT aaaa, bbbb', 10)).toBe('SELECT aaa…');
    expect(shapeText('! '.repeat(10), 4)).toBe('! ! …');
  });
});

describe('EXECUTE', () => {
  const prepared = new Map([['Q', 'SELECT a FROM t WHERE b = ?']]);
  test('has the shape of its statement, and its parameters in the exact digest', () => {
    const one = statementDigests('EXECUTE "Q" USING 1', prepared);
    expect(one).toMatchObject({
      shape: shape('select a from t where b = 7'),
      text: prepared.get('Q'),
      isResolved: true,
    });
    expect(statementDigests('execute "Q" using 1', prepared).exact).toBe(one.exact);
    expect(statementDigests('EXECUTE "Q" USING 2', prepared).exact).not.toBe(one.exact);
    expect(digests("EXECUTE IMMEDIATE 'SELECT ''x'''")).toMatchObject({
      shape: shape('SELECT 1'),
      exact: exact("SELECT 'x'"),
    });
  });

  test('of an unknown statement is a statement itself', () => {
    expect(statementDigests('EXECUTE q', prepared)).toMatchObject({ text: 'EXECUTE q', isResolved: false });
  });
});

describe('labels', () => {
  const node = 'model.shop.daily_orders';
  const hash = 'a5cd01e49cc4cef75ee341f2249ea177b7fefe3d71762318caa3b7a6d76d9cd0';
  test.each([
    [
      `/* {"app": "dbt", "dbt_version": "1.9.1", "profile_name": "p", "target_name": "t", "node_id": "${node}"} */\nSELECT 1`,
      { tool: 'dbt', model: node },
    ],
    [`SELECT 1\n/* {"app": "dbt", "node_id": "${node}"} */`, { tool: 'dbt', model: node }],
    [
      `-- Looker Query Context '{"user_id":6,"history_slug":"fc83","instance_slug":"71d4"}' \nSELECT 1`,
      { tool: 'looker' },
    ],
    [
      `-- Metabase:: userID: 1 queryType: MBQL queryHash: ${hash} dashboardID: 12 cardID: 2\nSELECT 1`,
      { tool: 'metabase', model: '2', dashboard: '12' },
    ],
    [
      `PREPARE statement3 FROM -- Metabase:: userID: 1 queryType: MBQL queryHash: ${hash}\nSELECT 1`,
      { tool: 'metabase' },
    ],
    ['-- 6dcd92a04feb50f14bbcf07c661680ba\nSELECT 1\n-- 6dcd92a04feb50f14bbcf07c661680ba', { tool: 'superset' }],
    ['-- [SQL LAB] alice 2026-01-01T10:00:00\nSELECT 1', { tool: 'superset' }],
    ['-- superset user=alice, dashboard_id=7, slice_id=9\nSELECT 1', { tool: 'superset', model: '9', dashboard: '7' }],
    [
      "/* Tableau workbook: 'Sales 2026', dashboard: 'By region' */ SELECT 1",
      { tool: 'tableau', model: 'Sales 2026', dashboard: 'By region' },
    ],
    ['-- for the superset team\nSELECT 1', null],
    ["SELECT '-- Metabase:: dashboardID: 1'", null],
  ])('%s', (text, labels) => {
    expect(statementLabels(text, null)).toEqual(labels);
  });

  test('are the tool that the source names without a comment', () => {
    expect(statementLabels('SELECT 1', 'dbt-trino-1.9.0')).toEqual({ tool: 'dbt' });
    expect(statementLabels('SELECT 1', 'Apache Superset')).toEqual({ tool: 'superset' });
    expect(statementLabels('SELECT 1', 'trino-cli')).toBeNull();
  });

  test('never take long, whatever the comments', () => {
    const start = performance.now();
    for (const part of ['--\n', '/*', '/* */', ' ', '*/', '-- "app": "dbt" "node_id"', '\n--', "dashboard: '"]) {
      const text = `-- superset ${part.repeat(200_000)}`;
      statementLabels(text, text);
      statementLabels(`SELECT 1 ${text}`, null);
    }
    expect(performance.now() - start).toBeLessThan(2_000);
  });
});
