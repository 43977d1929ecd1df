import { expect, test } from 'vitest';
import { parseGlobalProperty } from '../../../src/model/globalProperty.ts';
import {
  contradictions,
  parseResourceGroupCreate,
  parseResourceGroupUpdate,
} from '../../../src/model/resourceGroup.ts';
import { parseSelectorCreate, parseSelectorMatch, parseSelectorUpdate } from '../../../src/model/selector.ts';
import type { Checked } from '../../../src/model/validation.ts';

const problemsOf = (checked: Checked<unknown>) =>
  checked.ok ? ['fine'] : checked.problems.map(({ field, message }) => `${field} ${message}`);
const group = { name: 'a', softMemoryLimit: '80%' };

test.each<[object, string]>([
  [{}, 'fine'],
  [{ resourceGroupId: 0 }, 'fine'],
  [{ resourceGroupId: null }, 'fine'],
  [{ resourceGroupId: 7 }, 'resourceGroupId is assigned by the database'],
  [{ name: null }, 'name must be a text, not null'],
  [{ name: '' }, 'name must not be empty'],
  [{ name: 'a.b' }, 'name must not hold a dot'],
  [{ name: 'user-${USER}_${x1}' }, 'fine'],
  [{ name: 'a$' }, 'name must hold $, { and } only in variables'],
  [{ name: '${1}' }, 'name must hold $, { and } only in variables'],
  [{ name: 'a\u0000' }, 'name must not hold control characters'],
  [{ name: 'x'.repeat(251) }, 'name must have at most 250 characters'],
  [{ softMemoryLimit: '0%' }, 'fine'],
  [{ softMemoryLimit: '33.3%' }, 'fine'],
  [{ softMemoryLimit: '5GB' }, 'fine'],
  [{ softMemoryLimit: '1.5 TB' }, 'fine'],
  [{ softMemoryLimit: '5gb' }, 'softMemoryLimit must be a percentage such as 80% or a size'],
  [{ softMemoryLimit: '80' }, 'softMemoryLimit must be a percentage'],
  [{ softMemoryLimit: '1000%' }, 'softMemoryLimit must be a percentage'],
  [{ softMemoryLimit: '101%' }, 'softMemoryLimit must be at most 100%'],
  [{ softMemoryLimit: '-1%' }, 'softMemoryLimit must be a percentage'],
  [{ softMemoryLimit: '' }, 'softMemoryLimit must be a percentage'],
  [{ softMemoryLimit: 80 }, 'softMemoryLimit must be a text, not 80'],
  [{ maxQueued: -1 }, 'maxQueued must be at least 0'],
  [{ maxQueued: 2_147_483_648 }, 'maxQueued must be at most 2147483647'],
  [{ maxQueued: 1.5 }, 'maxQueued must be a whole number'],
  [{ maxQueued: '1' }, 'maxQueued must be a whole number, not a text'],
  [{ hardConcurrencyLimit: -1 }, 'hardConcurrencyLimit must be at least 0'],
  [{ schedulingPolicy: 'Weighted_Fair' }, 'fine'],
  [{ schedulingPolicy: 'fast' }, 'schedulingPolicy must be one of fair, weighted, weighted_fair, query_priority'],
  [{ schedulingWeight: 0 }, 'schedulingWeight must be at least 1'],
  [{ jmxExport: 'true' }, 'jmxExport must be true or false, not a text'],
  [{ softCpuLimit: '1h' }, 'fine'],
  [{ softCpuLimit: '1 hour' }, 'softCpuLimit must be a duration such as 30m or 1h'],
  [{ hardCpuLimit: 'PT1H' }, 'hardCpuLimit must be a duration'],
  [{ parent: 0 }, 'parent must be at least 1'],
  [{ parent: 'a' }, 'parent must be a whole number, not a text'],
  [{ parent: 2 ** 53 }, 'parent must be at most 9007199254740991'],
  [{ environment: 'a\tb' }, 'environment must not hold control characters'],
  [{ hardCpuLimits: '1h' }, 'hardCpuLimits is not a known field'],
])('a group with %j: %s', (change, words) => {
  expect(problemsOf(parseResourceGroupCreate({ ...group, ...change }))[0]).toContain(words);
});

test('an update needs the id', () => {
  expect(problemsOf(parseResourceGroupUpdate(group))).toEqual(['resourceGroupId is required']);
  expect(problemsOf(parseResourceGroupUpdate({ ...group, resourceGroupId: 0 }))).toEqual([
    'resourceGroupId must be at least 1',
  ]);
  expect(problemsOf(parseResourceGroupUpdate({ ...group, resourceGroupId: '1' }))[0]).toContain(
    'a whole number, not a text',
  );
});

test.each([
  [{ softConcurrencyLimit: 6, hardConcurrencyLimit: 5 }, ['softConcurrencyLimit']],
  [{ softConcurrencyLimit: 5, hardConcurrencyLimit: 5 }, []],
  [{ softCpuLimit: '1h' }, ['hardCpuLimit']],
  [{ softCpuLimit: '61m', hardCpuLimit: '1h' }, ['softCpuLimit']],
  [{ softCpuLimit: '3600s', hardCpuLimit: '1h' }, []],
  [{ hardCpuLimit: '1h' }, []],
])('fields against each other: %j', (change, fields) => {
  const checked = parseResourceGroupCreate({ ...group, ...change });
  expect(checked.ok ? contradictions(checked.value).map((problem) => problem.field) : null).toEqual(fields);
});

test.each<[object, string]>([
  [{}, 'fine'],
  [{ resourceGroupId: null }, 'fine'],
  [{ resourceGroupId: 0 }, 'fine'],
  [{ resourceGroupId: -1 }, 'resourceGroupId'],
  [{ priority: '1' }, 'priority must be a whole number, not a text'],
  [{ priority: 1e300 }, 'priority must be'],
  [{ userRegex: 'a++|(?i)b' }, 'fine'],
  [{ userRegex: '(?<=a)b\\1(' }, 'fine'],
  [{ userRegex: 'x'.repeat(513) }, 'userRegex must have at most 512 characters'],
  [{ userRegex: '\u0000' }, 'userRegex must not hold the character NUL'],
  [{ queryType: 'select' }, 'fine'],
  [{ queryType: 'DROP' }, 'queryType must be one of SELECT,'],
  [{ clientTags: '["a","b"]' }, 'fine'],
  [{ clientTags: 'a,b' }, 'clientTags must be a JSON list of texts'],
  [{ clientTags: '[1]' }, 'clientTags must be a JSON list of texts'],
  [{ clientTags: ['a'] }, 'clientTags must be a text, not a list'],
  [{ selectorResourceEstimate: '{"cpuTime":{"min":"1h","max":null},"peakMemory":{"max":"5GB"}}' }, 'fine'],
  [{ selectorResourceEstimate: '{"cpu":{}}' }, 'selectorResourceEstimate must not hold cpu'],
  [{ selectorResourceEstimate: '{"cpuTime":{"from":"1h"}}' }, 'selectorResourceEstimate must not hold cpuTime.from'],
  [{ selectorResourceEstimate: '{"peakMemory":{"min":"1h"}}' }, 'must hold a size such as 5GB as peakMemory.min'],
  [{ selectorResourceEstimate: '[]' }, 'selectorResourceEstimate must be a JSON object'],
  [{ user_regex: 'a' }, 'user_regex is not a known field'],
])('a selector with %j: %s', (selector, words) => {
  expect(problemsOf(parseSelectorCreate(selector))[0]).toContain(words);
});

test('a selector that is named may hold anything a row can hold', () => {
  expect(problemsOf(parseSelectorMatch({ resourceGroupId: 1, userRegex: '(', clientTags: 'a,b', id: 5 }))).toEqual([
    'fine',
  ]);
  expect(problemsOf(parseSelectorMatch({ userRegex: 'a\u0000', resourceGroupId: 1 }))[0]).toContain('NUL');
  expect(problemsOf(parseSelectorMatch({ userRegex: 'a' }))).toEqual(['resourceGroupId is required']);
});

test('a change of a selector needs both, and checks the new one', () => {
  const current = { resourceGroupId: 1, queryType: 'DROP' };
  expect(problemsOf(parseSelectorUpdate({}))).toEqual(['current is required', 'update is required']);
  expect(problemsOf(parseSelectorUpdate({ current, update: null }))).toEqual(['update must be an object, not null']);
  expect(problemsOf(parseSelectorUpdate({ current, update: {} }))).toEqual(['update.resourceGroupId is required']);
  expect(problemsOf(parseSelectorUpdate({ current, update: current }))[0]).toContain('update.queryType must be one of');
  expect(problemsOf(parseSelectorUpdate({ current, update: { resourceGroupId: 1, priority: null } }))).toEqual([
    'fine',
  ]);
});

test.each<[unknown, string]>([
  [{ name: 'cpu_quota_period', value: '1h' }, 'fine'],
  [{ name: 'other', value: '1h' }, 'name must be cpu_quota_period'],
  [{ name: 'cpu_quota_period' }, 'value is required'],
  [{ name: 'cpu_quota_period', value: null }, 'value must be a text, not null'],
  [{ name: 'cpu_quota_period', value: '0s' }, 'value must be a duration above zero'],
  [{ name: 'cpu_quota_period', value: 'soon' }, 'value must be a duration above zero'],
  [{ name: 'cpu_quota_period', value: '1h', more: 1 }, 'more is not a known field'],
  [[], ' must be an object, not a list'],
])('a property %j: %s', (property, words) => {
  expect(problemsOf(parseGlobalProperty(property))[0]).toContain(words);
});
