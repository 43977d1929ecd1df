import { describe, expect, test } from 'vitest';
import type { FileSelector } from '../../../src/model/groupsFile/groupFields.ts';
import { checkGroupsFile } from '../../../src/model/groupsFile/groupsFile.ts';
import { systemSources } from '../../../src/rules/evaluation.ts';
import { type GroupCriteria, selectGroup } from '../../../src/rules/groupSelection.ts';
import { randomCriteria, randomFile, randomOf } from '../../support/groupCases.ts';

const bob: GroupCriteria = {
  user: 'bob',
  originalUser: 'bob',
  authenticatedUser: 'bob',
  groups: ['analysts', 'staff'],
  source: 'dbt-7',
  clientTags: ['hi', 'lo'],
  queryType: 'SELECT',
  resourceEstimates: { executionTime: '5m', cpuTime: null, peakMemory: '2GB' },
};

/** The group's name with dots, or the outcome and why. */
async function chosen(selectors: readonly FileSelector[], criteria: Partial<GroupCriteria> = {}): Promise<string> {
  const { outcome, group, message, results } = await selectGroup(selectors, { ...bob, ...criteria });
  if (group !== null) return group.join('.');
  return `${outcome}: ${outcome === 'rejected' ? results.at(-1)?.message : message}`;
}

describe('conditions', () => {
  test.each<[Partial<FileSelector>, Partial<GroupCriteria>, string]>([
    [{}, {}, 'g'],
    [{ user: 'b.b' }, {}, 'g'],
    [{ user: 'bo' }, {}, 'rejected: "bo" does not match "bob"'],
    [{ user: 'Bob' }, {}, 'rejected: "Bob" does not match "bob"'],
    [{ originalUser: 'ann' }, { originalUser: 'ann' }, 'g'],
    [{ authenticatedUser: '.*' }, {}, 'g'],
    [{ authenticatedUser: '.*' }, { authenticatedUser: null }, 'g'],
    [{ authenticatedUser: '.+' }, { authenticatedUser: null }, 'rejected: ".+" does not match ""'],
    [{ source: 'dbt.*' }, {}, 'g'],
    [{ source: '.*' }, { source: null }, 'g'],
    [{ source: '[a-z]*-.*' }, { source: null }, 'rejected: "[a-z]*-.*" does not match ""'],
    [{ userGroup: 'st.*' }, {}, 'g'],
    [{ userGroup: 'admins' }, {}, 'rejected: "admins" does not match "analysts", "staff"'],
    [{ userGroup: '.*' }, { groups: [] }, 'rejected: ".*" has nothing to match: the user is in no group'],
    [{ queryType: 'select' }, {}, 'g'],
    [{ queryType: 'INSERT' }, {}, 'rejected: queryType INSERT is not that of the query, SELECT'],
    [
      { queryType: 'INSERT' },
      { queryType: null },
      'rejected: queryType INSERT is not that of the query, which has none',
    ],
    [{ clientTags: ['lo'] }, {}, 'g'],
    [{ clientTags: ['lo', 'x'] }, {}, 'rejected: the query has no client tag "x"'],
    [{ selectorResourceEstimate: { executionTime: { min: '5m', max: '300s' } } }, {}, 'g'],
    [
      { selectorResourceEstimate: { peakMemory: { max: '1.5GB' } } },
      {},
      'rejected: peakMemory is 2GB, and not anything to 1.5GB',
    ],
    [
      { selectorResourceEstimate: { cpuTime: { min: '1s' } } },
      {},
      'rejected: cpuTime is not estimated, and not 1s to anything',
    ],
    [
      { user: '.*(?<=b)' },
      {},
      'unknown: whether selectors[0] matches is not known here: ".*(?<=b)" is not evaluated here: regular expression: look-behind is not available; list what matches instead, such as (ann|bob) at 3',
    ],
    [{ user: '(b)o\\1', queryType: 'INSERT' }, {}, 'rejected: queryType INSERT is not that of the query, SELECT'],
  ])('%j of %j: %s', async (selector, criteria, expected) => {
    expect(await chosen([{ ...selector, group: 'g' }], criteria)).toBe(expected);
  });

  test('the first selector that matches counts, and what those before it did is known', async () => {
    const { results, selector } = await selectGroup(
      [{ user: 'ann', group: 'a' }, { source: 'dbt.*', group: 'b' }, { group: 'c' }],
      bob,
    );
    expect(selector).toBe(1);
    expect(results).toEqual([
      { outcome: 'not-matched', condition: 'user', message: '"ann" does not match "bob"' },
      { outcome: 'matched', condition: null, message: 'all its conditions hold' },
    ]);
  });
});

describe('names of groups', () => {
  test.each<[FileSelector, Partial<GroupCriteria>, string]>([
    [{ group: 'a.${USER}.x-${SOURCE}' }, {}, 'a.bob.x-dbt-7'],
    [{ group: 'a.${tool}_${n}', source: '(?<tool>[a-z]+)-(?<n>\\d+)' }, {}, 'a.dbt_7'],
    [{ group: '${SOURCE}' }, { source: 'a.b' }, 'a.b'],
    [
      { group: 'a.${SOURCE}' },
      { source: null },
      'failed: selectors[0] is the first that matches, but the part ${SOURCE} of its group is empty for this query: the query fails',
    ],
    [
      { group: 'a-${x}', user: 'bob|(?<x>.*)' },
      {},
      'failed: selectors[0] is the first that matches, but its expressions give the variable x no value for this query: the query fails',
    ],
  ])('%j of %j: %s', async (selector, criteria, expected) => {
    expect(await chosen([selector], criteria)).toBe(expected);
  });
});

test('no query reaches a selector that is said never to be reached', async () => {
  const random = randomOf(476);
  let warned = 0;
  for (let round = 0; round < 150; round++) {
    const file = randomFile(random);
    const { problems, warnings } = checkGroupsFile(file);
    expect(problems).toEqual([]);
    const unreachable = new Set(
      warnings.flatMap(({ field, message }) => {
        const [, index] = /^selectors\[(\d+)\]/.exec(field) ?? [];
        return index !== undefined && /never reached|no query matches/.test(message) ? [Number(index)] : [];
      }),
    );
    warned += unreachable.size;
    for (let request = 0; request < 20; request++) {
      const { selector } = await selectGroup(file.selectors, randomCriteria(random));
      expect([selector, selector !== null && unreachable.has(selector)]).toEqual([selector, false]);
    }
  }
  expect(warned).toBeGreaterThan(50);
});

test('expressions that take too long are not followed for ever', async () => {
  let time = 0;
  const slow = { ...systemSources, processorTime: () => (time += 3) };
  const selectors = Array.from({ length: 5_000 }, (_, index) => ({ user: `ann${index}`, group: 'a' }));
  const { outcome, results } = await selectGroup(selectors, bob, slow);
  expect([outcome, results.length < 500]).toEqual(['unknown', true]);
  expect(results.at(-1)?.message).toBe('the expressions before it took too long');
});
