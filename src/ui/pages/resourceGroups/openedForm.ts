import type { ResourceGroups } from '../../client/resources.ts';
import type { PropertyView, ResourceGroupView, SelectorView } from '../../client/types.ts';
import type { OpenInAddress } from '../../components/addressState.ts';

/**
 * Forms by address parameter: `group` contains the group's id, `newGroup` the id of its parent or nothing, `selector`
 * its key, `newSelector` the id of its group, `property` its name.
 */
export const forms = ['group', 'newGroup', 'selector', 'newSelector', 'property', 'newProperty'] as const;
export type FormName = (typeof forms)[number];

/** Subject of a form. A new record has initial values. */
export type Edits =
  | { readonly kind: 'group'; readonly edited: ResourceGroupView | null; readonly begin: Partial<ResourceGroupView> }
  | { readonly kind: 'selector'; readonly edited: SelectorView | null; readonly begin: Partial<SelectorView> }
  | { readonly kind: 'property'; readonly edited: PropertyView | null };

const newGroup = { maxQueued: 100, hardConcurrencyLimit: 10, softMemoryLimit: '80%' };

/** Finds the subject of the form in an address; null if it does not exist. */
export function editsOf(
  { kind, key }: OpenInAddress<FormName>,
  { groups, selectors, properties }: Pick<ResourceGroups, 'groups' | 'selectors' | 'properties'>,
): Edits | null {
  const group = groups.find(({ resourceGroupId }) => String(resourceGroupId) === key);
  switch (kind) {
    case 'group':
      return group === undefined ? null : { kind, edited: group, begin: group };
    case 'newGroup': {
      if (key === '') return { kind: 'group', edited: null, begin: newGroup };
      if (group === undefined) return null;
      const { resourceGroupId: parent, environment } = group;
      const begin = { ...newGroup, parent, ...(environment === undefined ? {} : { environment }) };
      return { kind: 'group', edited: null, begin };
    }
    case 'selector': {
      const selector = selectors.find((each) => selectorKey(selectors, each) === key);
      return selector === undefined ? null : { kind, edited: selector, begin: selector };
    }
    case 'newSelector': {
      if (group === undefined) return null;
      return { kind: 'selector', edited: null, begin: { resourceGroupId: group.resourceGroupId, priority: 1 } };
    }
    case 'property': {
      const property = properties.find(({ name }) => name === key);
      return property === undefined ? null : { kind, edited: property };
    }
    case 'newProperty':
      return { kind: 'property', edited: null };
  }
}

/** Key of a selector: its id if the table has ids, else the id of its group and its index in the group. */
export function selectorKey(selectors: readonly SelectorView[], selector: SelectorView): string {
  const { id, resourceGroupId } = selector;
  if (id !== undefined) return String(id);
  const own = selectors.filter((each) => each.resourceGroupId === resourceGroupId);
  return `${resourceGroupId}.${own.indexOf(selector) + 1}`;
}

export function formTitle({ kind, key }: OpenInAddress<FormName>, edits: Edits | null): string {
  switch (kind) {
    case 'group':
      return edits?.kind === 'group' && edits.edited !== null ? edits.edited.name : `Resource group ${key}`;
    case 'newGroup':
    case 'newSelector':
      return key === '' ? 'A new resource group' : `Resource group ${key}`;
    case 'selector':
      return `Selector ${key}`;
    case 'property':
    case 'newProperty':
      return key === '' ? 'A global property' : `Global property ${key}`;
  }
}
