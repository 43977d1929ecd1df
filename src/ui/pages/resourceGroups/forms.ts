import type { PropertyView, ResourceGroupView, SelectorView } from '../../client/types.ts';
import type { Field, Values } from '../../components/RecordForm.tsx';
import { descendants } from './tree.ts';

const choices = (values: readonly string[]) => values.map((value) => ({ value, label: value }));
const text = (name: string, label: string, description?: string): Field => ({
  name,
  label,
  kind: 'text',
  ...(description === undefined ? {} : { description }),
});
const number = (name: string, label: string, description?: string): Field => ({
  ...text(name, label, description),
  kind: 'number',
});

export function groupFields(groups: readonly ResourceGroupView[], edited: ResourceGroupView | null): readonly Field[] {
  const below = edited === null ? new Set<number>() : descendants(groups, edited.resourceGroupId);
  const parents = groups
    .filter(({ resourceGroupId }) => resourceGroupId !== edited?.resourceGroupId && !below.has(resourceGroupId))
    .map(({ resourceGroupId, name }) => ({ value: String(resourceGroupId), label: `${name} (${resourceGroupId})` }));
  const size = 'A percentage such as 80%, or a size such as 5GB';
  const cpu = 'A duration such as 30m, of the quota period';
  return [
    { ...text('name', 'Name', 'Without dots'), required: true },
    { name: 'parent', label: 'Parent', kind: 'choice', options: parents, description: 'None: a root group' },
    { ...text('softMemoryLimit', 'Soft memory limit', size), required: true },
    { ...number('maxQueued', 'Queries that may wait'), required: true },
    { ...number('hardConcurrencyLimit', 'Queries that may run'), required: true },
    number('softConcurrencyLimit', 'Soft limit of running queries', 'Beyond it the group yields to others'),
    {
      name: 'schedulingPolicy',
      label: 'Scheduling policy',
      kind: 'choice',
      options: choices(['fair', 'weighted', 'weighted_fair', 'query_priority']),
    },
    number('schedulingWeight', 'Scheduling weight'),
    text('softCpuLimit', 'Soft CPU limit', cpu),
    text('hardCpuLimit', 'Hard CPU limit', cpu),
    { name: 'jmxExport', label: 'Shown by JMX', kind: 'choice', options: choices(['true', 'false']) },
    text('environment', 'Environment', "The engine's node.environment"),
  ];
}

export function groupValues(group: Partial<ResourceGroupView>): Values {
  const { resourceGroupId: _, parent, jmxExport, ...rest } = group;
  return { ...rest, parent: parent ?? null, jmxExport: jmxExport === undefined ? null : String(jmxExport) };
}

export function groupData({ parent, jmxExport, ...values }: Values): object {
  return {
    ...values,
    parent: parent == null ? null : Number(parent),
    jmxExport: jmxExport == null ? null : jmxExport === 'true',
  };
}

export const queryTypeChoices = choices(
  'SELECT EXPLAIN DESCRIBE INSERT UPDATE DELETE MERGE ANALYZE ALTER_TABLE_EXECUTE DATA_DEFINITION'.split(' '),
);

/** Fields of a selector. @param migrated true if the engine's own migrations have added the newer columns */
export function selectorFields(groups: readonly ResourceGroupView[], migrated: boolean): readonly Field[] {
  const regex = "A regular expression in Java's syntax that must match whole";
  const options = groups.map(({ resourceGroupId, name }) => ({
    value: String(resourceGroupId),
    label: `${name} (${resourceGroupId})`,
  }));
  return [
    { name: 'resourceGroupId', label: 'Resource group', kind: 'choice', options, required: true },
    number('priority', 'Priority', 'The highest that matches is taken'),
    text('userRegex', 'User', regex),
    text('sourceRegex', 'Source', regex),
    { name: 'queryType', label: 'Query type', kind: 'choice', options: queryTypeChoices },
    text('clientTags', 'Client tags', 'A JSON list such as ["a", "b"]'),
    text('selectorResourceEstimate', 'Resource estimate', 'A JSON object, e.g. {"cpuTime": {"max": "1h"}}'),
    ...(migrated
      ? [
          text('userGroupRegex', 'User group', regex),
          text('originalUserRegex', 'Original user', regex),
          text('authenticatedUserRegex', 'Authenticated user', regex),
        ]
      : []),
  ];
}

export function selectorData({ resourceGroupId, ...values }: Values): object {
  return { ...values, resourceGroupId: resourceGroupId == null ? null : Number(resourceGroupId) };
}

export function selectorValues({ id: _, ...selector }: Partial<SelectorView>): Values {
  return selector;
}

export const propertyFields: readonly Field[] = [
  { name: 'name', label: 'Name', kind: 'choice', options: choices(['cpu_quota_period']), required: true },
  { ...text('value', 'Value', 'A duration such as 1h'), required: true },
];

export const propertyValues = ({ name, value }: Partial<PropertyView>): Values => ({
  name: name ?? 'cpu_quota_period',
  value: value ?? null,
});
