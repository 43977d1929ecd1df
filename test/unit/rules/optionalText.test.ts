import { describe, expect, test } from 'vitest';
import { evaluateCase } from '../../../src/cli/ruleCases.ts';

const C = 'engineQueryProperties.getDefaultCatalog()';

/** An expression with what it gives where the catalog is hive, and where there is none; undefined: it fails. */
const cases: readonly (readonly [expression: string, present: unknown, absent: unknown])[] = [
  // As a text.
  [`${C} == "hive"`, true, false],
  [`"hive" == ${C}`, true, false],
  [`${C} == null`, false, true],
  [`${C}.equals("hive")`, true, false],
  [`"hive".equals(${C})`, true, false],
  [`${C}.startsWith("h")`, true, undefined],
  [`${C}.toString()`, 'hive', undefined],
  [`${C}.length()`, 4, undefined],
  [`["hive"] contains ${C}`, true, false],
  // As an Optional.
  [`${C}.isPresent()`, true, false],
  [`${C}.isEmpty()`, false, true],
  [`engineQueryProperties.defaultCatalog.present`, true, false],
  [`engineQueryProperties.defaultCatalog.empty`, false, true],
  [`engineQueryProperties.getDefaultSchema.isPresent`, true, false],
  [`${C}.get()`, 'hive', undefined],
  [`${C}.orElseThrow()`, 'hive', undefined],
  [`${C}.orElse("none")`, 'hive', 'none'],
  [`${C}.orElse(null) == "hive"`, true, false],
  [`${C}.isPresent() && ${C}.get() == "hive"`, true, false],
  [`${C}.equals(Optional.of("hive"))`, true, false],
  [`${C}.equals(Optional.empty())`, false, true],
  [`Optional.of("hive").equals(${C})`, true, false],
  [`Optional.empty().equals(${C})`, false, true],
  [`${C} == Optional.of("hive")`, true, false],
  [`Optional.of("hive") == ${C}`, true, false],
  [`${C} != Optional.of("hive")`, false, true],
  [`${C} == Optional.empty()`, false, true],
  [`${C} == engineQueryProperties.getDefaultSchema()`, true, true],
  // Other texts are texts alone.
  [`engineQueryProperties.getQueryType().isPresent()`, undefined, undefined],
  [`engineQueryProperties.getQueryType() == Optional.of("Query")`, false, false],
];

describe('default catalog and schema answer as a String and as an Optional', () => {
  test.each(cases)('%s', (expr, present, absent) => {
    for (const [name, expected] of [
      ['hive', present],
      [null, absent],
    ] as const) {
      const queryProperties = { defaultCatalog: name, defaultSchema: name, queryType: 'Query' };
      const result = evaluateCase({ id: 'one', kind: 'expression', expr, vars: { queryProperties } });
      if (expected === undefined) expect(result).toMatchObject({ phase: 'run' });
      else expect(result).toMatchObject({ value: expected });
    }
  });
});
