import { readFile } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { analyzeSql } from '../../../src/sql/analyzeSql.ts';

/** A text and what the engine's own parser (483) says of it: the statement's class, or the error. */
interface ParserVerdict {
  readonly sql: string;
  readonly statement?: string;
  /** `line L:C: mismatched input` for errors of the grammar, the whole message for others. */
  readonly error?: string;
}

/** Statements derived from the grammar, and statements and cases with one or two mistakes made in them. */
const verdicts: readonly ParserVerdict[] = gunzipSync(
  await readFile(new URL('../../fixtures/sql-analysis/parser-verdicts.jsonl.gz', import.meta.url)),
)
  .toString('utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as ParserVerdict);

const context = { catalog: 'c', schema: 's', prepared: new Map<string, string>() };
const isExpanded = (sql: string): boolean => /execute\s+immediate/i.test(sql);

function ours(sql: string): ParserVerdict {
  const { errorMessage, queryType } = analyzeSql(sql, context);
  if (errorMessage === null || queryType !== '') return { sql, statement: queryType };
  return { sql, error: errorMessage.replace(/^(line \d+:\d+: mismatched input) .*$/s, '$1') };
}

test('takes what the engine takes, as the same kind of statement, and nothing else', () => {
  const kind = ({ sql, statement }: ParserVerdict): string => `${statement ?? 'refused'}: ${sql}`;
  const compared = verdicts.filter(({ sql }) => !isExpanded(sql));
  expect(compared.length).toBeGreaterThan(3_000);
  expect(compared.map(({ sql }) => kind(ours(sql)))).toEqual(compared.map(kind));
});

test('errors are where the engine says they are', () => {
  const refused = verdicts.filter(({ sql, error }) => error !== undefined && !isExpanded(sql));
  const different = refused.filter(({ sql, error }) => ours(sql).error !== error);
  // Where the engine's parser looks ahead over ambiguous text, a handful of places are its own secret.
  expect(different.length / refused.length).toBeLessThan(0.003);
});
