import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { checkGroupsFile } from '../../../src/model/groupsFile/groupsFile.ts';

/** Files, what is wrong with them, and whether the engine loads them, which `test/engine/groupsFiles.test.ts` asks it. */
interface FileCase {
  readonly case: string;
  readonly file: unknown;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}
const cases = JSON.parse(
  readFileSync(new URL('../../fixtures/resource-groups/files.json', import.meta.url), 'utf8'),
) as readonly FileCase[];

describe('checkGroupsFile', () => {
  test.each(cases)('$case', ({ file, problems, warnings }) => {
    const check = checkGroupsFile(file);
    const lines = (found: typeof check.problems) => found.map(({ field, message }) => `${field} ${message}`);
    expect({ problems: lines(check.problems), warnings: lines(check.warnings) }).toEqual({ problems, warnings });
  });

  test('groups are nested 32 levels deep at most', () => {
    const nested = (depth: number): object => ({
      name: 'a',
      hardConcurrencyLimit: 1,
      maxQueued: 1,
      subGroups: depth === 1 ? [] : [nested(depth - 1)],
    });
    const group = (depth: number) => Array(depth).fill('a').join('.');
    const check = (depth: number) =>
      checkGroupsFile({ rootGroups: [nested(depth)], selectors: [{ group: group(depth) }] });
    expect(check(32)).toEqual({ problems: [], warnings: [] });
    expect(check(33).problems.map(({ message }) => message)).toEqual(['must not be nested deeper than 32 groups']);
  });

  test('a file of mistakes is answered with a bounded number of them', () => {
    const { problems } = checkGroupsFile({ rootGroups: Array(100_000).fill({}), selectors: Array(100_000).fill(1) });
    expect(problems).toHaveLength(100);
  });

  test('thousands of selectors with expensive expressions take bounded processor time', () => {
    const literals = Array.from({ length: 60 }, (_, index) => `user_${index}`).join('|');
    const selectors = Array.from({ length: 3_000 }, (_, index) => ({
      group: 'a',
      user: index % 2 === 0 ? `(?:${'a?'.repeat(100)}b)+${index}` : `${literals}|${index}`,
    }));
    const before = process.cpuUsage();
    const { problems } = checkGroupsFile({
      rootGroups: [{ name: 'a', hardConcurrencyLimit: 1, maxQueued: 1 }],
      selectors,
    });
    expect(problems).toEqual([]);
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(10_000);
  });
});
