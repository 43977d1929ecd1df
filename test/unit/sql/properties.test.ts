import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readCases } from '../../../scripts/cases/sql.ts';
import { analyzeSql, type SqlAnalysis } from '../../../src/sql/analyzeSql.ts';
import { keywords, T } from '../../../src/sql/syntax/kinds.ts';
import { tokenizeSql } from '../../../src/sql/syntax/lexer.ts';

const context = { catalog: 'lake', schema: 'ops', prepared: new Map([['p', 'SELECT 1']]) };
const analyze = (text: string): SqlAnalysis => analyzeSql(text, context);

/** What must not depend on how a text is written: everything but the text itself and the place of an error. */
function meaning(analysis: SqlAnalysis): object {
  const { body: _, errorMessage, ...rest } = analysis;
  return { ...rest, error: errorMessage === null ? null : errorMessage.replace(/^line \d+:\d+: .*$/s, 'syntax') };
}

const bodies = (await readCases('cases'))
  .map((request) => request.body)
  .filter((body): body is string => typeof body === 'string' && body.length > 0 && body.length < 2_000);
const corpus = fc.constantFrom(...bodies);
const fragment = fc.oneof(
  fc.constantFrom(...keywords.map(([word]) => word)),
  fc.constantFrom(
    '(',
    ')',
    ',',
    '.',
    '*',
    '=',
    "'",
    '"',
    '--',
    '/*',
    '*/',
    '$$',
    '[',
    ']',
    '->',
    '::',
    '1',
    'x',
    ';',
    '\n',
    '\u{1f6b2}',
  ),
);

/** Runs with a time limit a text, far above what the longest here (a few thousand characters) take on a busy machine. */
function responsesInTime(text: string): void {
  const start = performance.now();
  const analysis = analyze(text);
  expect(performance.now() - start).toBeLessThan(5_000);
  if (analysis.errorMessage !== null && analysis.queryType === '') {
    expect(analysis.errorMessage).toMatch(/^line \d+:\d+: \S/);
  }
}

describe('whatever the text', () => {
  test('random characters have an analysis', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 400 }), responsesInTime), { numRuns: 500 });
  });

  test('random words have an analysis', () => {
    fc.assert(
      fc.property(fc.array(fragment, { maxLength: 60 }), (words) => responsesInTime(words.join(' '))),
      { numRuns: 1_000 },
    );
  });

  test('damaged statements have an analysis', () => {
    fc.assert(
      fc.property(corpus, fc.nat(), fc.nat({ max: 20 }), fragment, (body, place, removed, inserted) => {
        const at = place % body.length;
        responsesInTime(`${body.slice(0, at)} ${inserted} ${body.slice(at + removed)}`);
      }),
      { numRuns: 1_000 },
    );
  });
});

/** Texts of the tokens of a statement with their kinds. */
function tokensOf(text: string): readonly (readonly [text: string, kind: number])[] {
  const { kinds, starts, ends, count } = tokenizeSql(text);
  return Array.from({ length: count }, (_, i) => [text.slice(starts[i], ends[i]), kinds[i] as number] as const);
}

const space = fc.constantFrom(' ', '\n', '\t', ' /* c */ ', ' -- c\n', '/**/ ', '\r\n', '  ');
const kindsWithText = new Set<number>([T.IDENTIFIER, T.QUOTED_IDENTIFIER, T.STRING, T.UNICODE_STRING, T.DOLLAR_STRING]);
const isKeyword = new Set(keywords.map(([word]) => word));

describe('how a statement is written does not change what it means', () => {
  test('white space and comments', () => {
    fc.assert(
      fc.property(corpus, fc.array(space, { minLength: 1, maxLength: 40 }), (body, spaces) => {
        const tokens = tokensOf(body);
        // Tokens of no rule, and literals that white space would join or cut, are left alone.
        fc.pre(!tokens.some(([, kind]) => kind === T.UNRECOGNIZED));
        const spread = tokens.map(([text], i) => text + (spaces[i % spaces.length] as string)).join('');
        expect(meaning(analyze(spread))).toEqual(meaning(analyze(body)));
      }),
      { numRuns: 400 },
    );
  });

  test('case of keywords and of unquoted names', () => {
    fc.assert(
      fc.property(corpus, fc.integer(), (body, seed) => {
        const swapped = tokensOf(body).map(([text, kind], i) => {
          const upper = ((seed >> (i % 31)) & 1) === 1;
          const changes = isKeyword.has(text.toUpperCase()) || kind === T.IDENTIFIER;
          // The name of a prepared statement keeps its case.
          if (!changes || /^\s*execute\b/i.test(body) || (kindsWithText.has(kind) && kind !== T.IDENTIFIER))
            return text;
          return upper ? text.toUpperCase() : text.toLowerCase();
        });
        fc.pre(!tokensOf(body).some(([, kind]) => kind === T.UNRECOGNIZED));
        const message = (analysis: SqlAnalysis): object => {
          const { error, ...rest } = meaning(analysis) as { error: string | null };
          return { ...rest, error: error?.toLowerCase() ?? null };
        };
        expect(message(analyze(swapped.join(' ')))).toEqual(
          message(
            analyze(
              tokensOf(body)
                .map(([text]) => text)
                .join(' '),
            ),
          ),
        );
      }),
      { numRuns: 400 },
    );
  });
});

describe('bounds', () => {
  const nested = (open: string, close: string, depth: number, middle = '1'): string =>
    `SELECT ${open.repeat(depth)}${middle}${close.repeat(depth)} FROM a.b.c`;

  test('ten thousand parentheses are analysed', () => {
    expect(analyze(nested('(', ')', 10_000)).tables).toEqual([['a', 'b', 'c']]);
    expect(analyze(`SELECT * FROM ${'('.repeat(10_000)}a.b.c${')'.repeat(10_000)}`).tables).toEqual([['a', 'b', 'c']]);
    expect(analyze(`${'('.repeat(10_000)}SELECT 1 FROM a.b.c${')'.repeat(10_000)}`).tables).toEqual([['a', 'b', 'c']]);
  });

  test('a hundred thousand literals are analysed', () => {
    const list = Array.from({ length: 100_000 }, (_, i) => `'${i}'`).join(', ');
    expect(analyze(`SELECT * FROM a.b.c WHERE x IN (${list})`).tables).toEqual([['a', 'b', 'c']]);
  });

  test.each([
    ['calls', 'f(', ')'],
    ['subqueries', '(SELECT ', ')'],
    ['cases', 'CASE WHEN ', ' THEN 1 END'],
    ['subscripts', 'x[', ']'],
    ['casts', 'CAST(', ' AS int)'],
    ['lists', 'x IN (', ')'],
    ['arrays', '[', ']'],
    ['lambdas', 'x -> ', ''],
    ['windows', 'f() OVER (ORDER BY ', ')'],
    ['mixed parentheses', '1 + (', ')'],
  ])('%s nested deeper than the engine goes end in an analysis', (_name, open, close) => {
    for (const depth of [100, 1_000, 10_000, 100_000]) {
      const { errorMessage } = analyze(nested(open, close, depth));
      if (errorMessage !== null)
        expect(errorMessage).toBe('line 1:1: statement is too large (stack overflow while parsing)');
      if (depth === 100) expect(errorMessage).toBeNull();
    }
  });

  test('signs and negations may be repeated without end', () => {
    expect(analyze(`SELECT ${'- '.repeat(100_000)}1`).errorMessage).toBeNull();
    expect(analyze(`SELECT ${'NOT '.repeat(100_000)}true`).errorMessage).toBeNull();
  });

  test('a hundred thousand repetitions end in an analysis (their times: npm run bench -- sql)', () => {
    const make: readonly ((size: number) => string)[] = [
      (size) => nested('(', ')', size),
      (size) => `SELECT 1 ${'/*'.repeat(size)}`,
      (size) => `SELECT ${"'a'".repeat(size)} '`,
      (size) => `SELECT ${'$'.repeat(size)}`,
      (size) => `SELECT ${'"'.repeat(size)}`,
      (size) => `WITH ${Array.from({ length: size }, (_, i) => `c${i} AS (SELECT 1)`).join(', ')} SELECT * FROM c1`,
      (size) => `SELECT ${'final '.repeat(size)}`,
      (size) => `SELECT * FROM t pivot (${'a, '.repeat(size)}a)`,
      (size) => `SELECT U&'${'\\0041'.repeat(size)}'`,
    ];
    for (const text of make) {
      const { queryType, errorMessage } = analyze(text(100_000));
      expect(errorMessage ?? queryType).toMatch(/^(line \d+:\d+: |Query$)/);
    }
  });
});
