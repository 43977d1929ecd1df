import { describe, expect, test } from 'vitest';
import { environmentsOf, storedGroups } from '../../../src/model/groupsFile/storedGroups.ts';
import type { ResourceGroupRow } from '../../../src/model/resourceGroup.ts';
import type { SelectorRow } from '../../../src/model/selector.ts';

const group = (resourceGroupId: number, name: string, more: Partial<ResourceGroupRow> = {}): ResourceGroupRow => ({
  ...{
    resourceGroupId,
    name,
    softMemoryLimit: null,
    maxQueued: 1,
    softConcurrencyLimit: null,
    hardConcurrencyLimit: 2,
  },
  ...{ schedulingPolicy: null, schedulingWeight: null, jmxExport: null, softCpuLimit: null, hardCpuLimit: null },
  ...{ parent: null, environment: 'test', ...more },
});
const selector = (resourceGroupId: number, priority: number, more: Partial<SelectorRow> = {}): SelectorRow => ({
  ...{ id: null, resourceGroupId, priority, userRegex: null, sourceRegex: null, queryType: null, clientTags: null },
  ...{ selectorResourceEstimate: null, userGroupRegex: null, originalUserRegex: null, authenticatedUserRegex: null },
  ...more,
});
const stored = (groups: readonly ResourceGroupRow[], selectors: readonly SelectorRow[] = []) =>
  storedGroups({ groups, selectors, properties: [] }, 'test');

describe('storedGroups', () => {
  test('environments are those that groups have', () => {
    const groups = [group(1, 'a', { environment: 'b' }), group(2, 'a', { environment: null }), group(3, 'c')];
    expect(environmentsOf(groups)).toEqual(['b', 'test']);
  });

  test('only groups of the environment and their selectors, in the order of the rows', () => {
    const { file, selectorRows, problems } = stored(
      [group(1, 'a'), group(2, 'b', { parent: 1 }), group(3, 'c', { environment: 'prod' })],
      [selector(3, 9), selector(2, 8, { id: 4, userRegex: 'x' }), selector(1, 7)],
    );
    expect(file).toEqual({
      rootGroups: [
        {
          ...{ name: 'a', maxQueued: 1, hardConcurrencyLimit: 2 },
          subGroups: [{ name: 'b', maxQueued: 1, hardConcurrencyLimit: 2 }],
        },
      ],
      selectors: [{ user: 'x', group: 'a.b' }, { group: 'a' }],
    });
    expect([selectorRows.map(({ priority }) => priority), problems]).toEqual([[8, 7], []]);
  });

  test.each<[string, readonly ResourceGroupRow[], readonly SelectorRow[], string]>([
    [
      'a parent of another environment',
      [group(1, 'a', { environment: 'prod' }), group(2, 'b', { parent: 1 })],
      [],
      'resource group 2 ("b") has a parent that is not a group of the environment test',
    ],
    [
      'a parent of itself',
      [group(1, 'a', { parent: 1 })],
      [],
      'resource group 1 ("a") has a parent that is not a group of the environment test',
    ],
    [
      'tags that are no list',
      [group(1, 'a')],
      [selector(1, 3, { clientTags: '"x"' })],
      'selector of a with priority 3 has a clientTags that is not of the form that engines read',
    ],
    [
      'an estimate that is not JSON',
      [group(1, 'a')],
      [selector(1, 3, { id: 8, selectorResourceEstimate: '{' })],
      'selector 8 has a selectorResourceEstimate that is not of the form that engines read',
    ],
  ])('%s', (_, groups, selectors, problem) => {
    expect(stored(groups, selectors).problems.map(({ field, message }) => `${field} ${message}`)).toEqual([problem]);
  });

  test('thousands of groups, each below the other, are not followed', () => {
    const groups = Array.from({ length: 50_000 }, (_, index) =>
      group(index + 1, 'a', { parent: index === 0 ? null : index }),
    );
    const { groupRows, problems } = stored(groups);
    expect(groupRows.size).toBe(32);
    expect(problems.map(({ field }) => field)).toEqual(['resource group 32']);
  });

  test('problems are bounded', () => {
    expect(
      stored(Array.from({ length: 5_000 }, (_, id) => group(id + 1, 'a', { parent: 9_999 }))).problems,
    ).toHaveLength(100);
  });
});
