import type { GroupsChange } from '../../client/changes.ts';
import type { ResourceGroups } from '../../client/resources.ts';
import type { DeclaredGroups, ResourceGroupView, SelectorView } from '../../client/types.ts';
import type { OpenInAddress } from '../../components/addressState.ts';
import type { Field, Values } from '../../components/forms.tsx';
import type { Declarations } from './declarations.tsx';
import { descendants } from './GroupTree.tsx';

/**
 * Forms by address parameter: `group` contains the group's id, `newGroup` the id of its parent or nothing, `selector`
 * its key, `newSelector` the id of its group, `property` its name.
 */
export const forms = ['group', 'newGroup', 'selector', 'newSelector', 'property', 'newProperty'] as const;
export type FormName = (typeof forms)[number];

/** A form for a record of the tables. */
export interface GroupsForm {
  readonly title: string;
  readonly fields: readonly Field[];
  readonly values: Values;
  /** The resource that declares the record, or would. */
  readonly declared: DeclaredGroups | null;
  /** Describes the change when it is done. */
  readonly done: (values: Values) => string;
  readonly changeOf: (values: Values) => GroupsChange;
}

const choices = (values: readonly string[]) => values.map((value) => ({ value, label: value }));
const text = (name: string, label: string, description?: string): Field => ({
  ...{ name, label, kind: 'text' },
  ...(description === undefined ? {} : { description }),
});
const number = (name: string, label: string, description?: string): Field => ({
  ...text(name, label, description),
  kind: 'number',
});
const choice = (name: string, label: string, options: Field['options'] = []): Field => ({
  ...{ name, label, kind: 'choice', options },
});

const groupChoices = (groups: readonly ResourceGroupView[]) =>
  groups.map(({ resourceGroupId, name }) => ({
    value: String(resourceGroupId),
    label: `${name} (${resourceGroupId})`,
  }));

const newGroup = { maxQueued: 100, hardConcurrencyLimit: 10, softMemoryLimit: '80%' };

/** Returns the form in an address; null if its record does not exist. */
export function formOf(
  { kind, key }: OpenInAddress<FormName>,
  data: ResourceGroups,
  declarations: Declarations,
): GroupsForm | null {
  const { groups, selectors, properties } = data;
  const group = groups.find(({ resourceGroupId }) => String(resourceGroupId) === key);
  const selector = selectors.find((each) => selectorKey(selectors, each) === key);
  const property = properties.find(({ name }) => name === key);
  switch (kind) {
    case 'group':
      return group === undefined ? null : groupForm(groups, group, group, declarations);
    case 'newGroup': {
      if (key !== '' && group === undefined) return null;
      const { resourceGroupId: parent, environment } = group ?? {};
      const above = { ...(parent && { parent }), ...(environment && { environment }) };
      return groupForm(groups, null, { ...newGroup, ...above }, declarations);
    }
    case 'selector':
      return selector === undefined ? null : selectorForm(data, selector, selector, declarations);
    case 'newSelector': {
      if (group === undefined) return null;
      return selectorForm(data, null, { resourceGroupId: group.resourceGroupId, priority: 1 }, declarations);
    }
    case 'property':
    case 'newProperty': {
      if (kind === 'property' && property === undefined) return null;
      const path = property === undefined ? 'saveGlobalProperty' : 'updateGlobalProperty';
      return {
        title: property === undefined ? 'Set a global property' : `Edit ${property.name}`,
        fields: propertyFields,
        values: { name: property?.name ?? CPU_QUOTA_PERIOD, value: property?.value ?? null },
        declared: property === undefined ? null : declarations.ofProperty(property.name),
        done: (values) => `${values.name} is set`,
        changeOf: (values) => ({ path, data: values }),
      };
    }
  }
}

/** Names the record of an address that has no form. */
export function recordName({ kind, key }: OpenInAddress<FormName>, form: GroupsForm | null): string {
  if (kind === 'group' && form !== null) return String(form.values.name);
  if (kind === 'selector') return `Selector ${key}`;
  if (kind === 'property' || kind === 'newProperty') return key === '' ? 'A global property' : `Global property ${key}`;
  return key === '' ? 'A new resource group' : `Resource group ${key}`;
}

/** Key of a selector: its id if the table has ids, else the id of its group and its index in the group. */
export function selectorKey(selectors: readonly SelectorView[], selector: SelectorView): string {
  const { id, resourceGroupId } = selector;
  if (id !== undefined) return String(id);
  const own = selectors.filter((each) => each.resourceGroupId === resourceGroupId);
  return `${resourceGroupId}.${own.indexOf(selector) + 1}`;
}

/** @param edited null: a new group */
function groupForm(
  groups: readonly ResourceGroupView[],
  edited: ResourceGroupView | null,
  begin: Partial<ResourceGroupView>,
  declarations: Declarations,
): GroupsForm {
  const { resourceGroupId: id, parent, jmxExport, ...rest } = begin;
  const own = edited === null ? {} : { resourceGroupId: edited.resourceGroupId };
  return {
    title: edited === null ? 'Add a resource group' : `Edit ${edited.name}`,
    fields: groupFields(groups, edited),
    values: { ...rest, parent: parent ?? null, jmxExport: jmxExport === undefined ? null : String(jmxExport) },
    // A new record would belong to the resource of its parent group.
    declared: declarations.ofGroup(id ?? parent),
    done: ({ name }) => `${name} is ${edited === null ? 'created' : 'changed'}`,
    changeOf: ({ parent: above, jmxExport: isExported, ...values }) => ({
      path: edited === null ? 'saveResourceGroup' : 'updateResourceGroup',
      data: {
        ...{ ...values, ...own },
        parent: above == null ? null : Number(above),
        jmxExport: isExported == null ? null : isExported === 'true',
      },
    }),
  };
}

function groupFields(groups: readonly ResourceGroupView[], edited: ResourceGroupView | null): readonly Field[] {
  const below = edited === null ? new Set<number>() : descendants(groups, edited.resourceGroupId);
  const parents = groups.filter(({ resourceGroupId: id }) => id !== edited?.resourceGroupId && !below.has(id));
  const size = 'A percentage such as 80%, or a size such as 5GB';
  const cpu = 'A duration such as 30m, of the quota period';
  return [
    { ...text('name', 'Name', 'Without dots'), required: true },
    { ...choice('parent', 'Parent', groupChoices(parents)), description: 'None: a root group' },
    { ...text('softMemoryLimit', 'Soft memory limit', size), required: true },
    { ...number('maxQueued', 'Queries that may wait'), required: true },
    { ...number('hardConcurrencyLimit', 'Queries that may run'), required: true },
    number('softConcurrencyLimit', 'Soft limit of running queries', 'Beyond it the group yields to others'),
    choice('schedulingPolicy', 'Scheduling policy', choices(['fair', 'weighted', 'weighted_fair', 'query_priority'])),
    number('schedulingWeight', 'Scheduling weight'),
    text('softCpuLimit', 'Soft CPU limit', cpu),
    text('hardCpuLimit', 'Hard CPU limit', cpu),
    choice('jmxExport', 'Shown by JMX', choices(['true', 'false'])),
    text('environment', 'Environment', "The engine's node.environment"),
  ];
}

export const queryTypeChoices = choices(
  'SELECT EXPLAIN DESCRIBE INSERT UPDATE DELETE MERGE ANALYZE ALTER_TABLE_EXECUTE DATA_DEFINITION'.split(' '),
);

/** @param edited null: a new selector */
function selectorForm(
  { groups, selectors }: ResourceGroups,
  edited: SelectorView | null,
  { id: _, ...values }: Partial<SelectorView>,
  declarations: Declarations,
): GroupsForm {
  // True if the engine's own migrations have added the newer columns.
  const isMigrated = selectors.some(({ id }) => id !== undefined);
  return {
    title: edited === null ? 'Add a selector' : 'Edit the selector',
    fields: selectorFields(groups, isMigrated),
    values,
    declared: declarations.ofGroup(values.resourceGroupId),
    done: () => `The selector is ${edited === null ? 'created' : 'changed'}`,
    changeOf: ({ resourceGroupId, ...texts }) => ({
      path: edited === null ? 'saveSelector' : 'updateSelector',
      data: { ...texts, resourceGroupId: resourceGroupId == null ? null : Number(resourceGroupId) },
      ...(edited === null ? {} : { oldData: edited }),
    }),
  };
}

function selectorFields(groups: readonly ResourceGroupView[], isMigrated: boolean): readonly Field[] {
  const regex = "A regular expression in Java's syntax that must match whole";
  const newer = [
    text('userGroupRegex', 'User group', regex),
    text('originalUserRegex', 'Original user', regex),
    text('authenticatedUserRegex', 'Authenticated user', regex),
  ];
  return [
    { ...choice('resourceGroupId', 'Resource group', groupChoices(groups)), required: true },
    number('priority', 'Priority', 'The highest that matches is taken'),
    text('userRegex', 'User', regex),
    text('sourceRegex', 'Source', regex),
    choice('queryType', 'Query type', queryTypeChoices),
    text('clientTags', 'Client tags', 'A JSON list such as ["a", "b"]'),
    text('selectorResourceEstimate', 'Resource estimate', 'A JSON object, e.g. {"cpuTime": {"max": "1h"}}'),
    ...(isMigrated ? newer : []),
  ];
}

const CPU_QUOTA_PERIOD = 'cpu_quota_period';

const propertyFields: readonly Field[] = [
  { ...choice('name', 'Name', choices([CPU_QUOTA_PERIOD])), required: true },
  { ...text('value', 'Value', 'A duration such as 1h'), required: true },
];
