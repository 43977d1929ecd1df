import type { RESOURCE_GROUP_CONFIGURATION } from '../../../kinds/resourceGroupConfiguration/spec.ts';
import type { DeclaredGroups } from '../../client/types.ts';
import { managersText } from '../../components/managers.ts';

export const groupsKind: typeof RESOURCE_GROUP_CONFIGURATION = 'ResourceGroupConfiguration';

export interface Declarations {
  readonly all: readonly DeclaredGroups[];
  /** The resource of a group and its selectors, or null. */
  ofGroup(resourceGroupId: number | undefined): DeclaredGroups | null;
  /** The resource of a global property, or null. */
  ofProperty(name: string): DeclaredGroups | null;
}

export function declarationsOf(all: readonly DeclaredGroups[]): Declarations {
  const ofGroup = new Map(all.flatMap((each) => each.resourceGroupIds.map((id) => [id, each] as const)));
  const ofProperty = new Map(all.flatMap((each) => each.properties.map((name) => [name, each] as const)));
  return {
    all,
    ofGroup: (id) => (id === undefined ? null : (ofGroup.get(id) ?? null)),
    ofProperty: (name) => ofProperty.get(name) ?? null,
  };
}

export const nameOf = ({ namespace, name }: DeclaredGroups): string => `${namespace}/${name}`;

export function declaredText(declared: DeclaredGroups): string {
  const managers = managersText(declared.resource?.managers ?? []);
  return managers === '' ? nameOf(declared) : `${nameOf(declared)} by ${managers}`;
}

export interface Trouble {
  readonly label: string;
  readonly message: string;
}

/** Problems of a resource, worst first; empty if the tables match its declaration. */
export function troublesOf({ resource, drift }: DeclaredGroups): readonly Trouble[] {
  if (resource === null) return [{ label: 'deleted', message: 'The resource was deleted: its rows go with it.' }];
  const { conditions, paused } = resource;
  const [ready, drifted] = ['Ready', 'Drift'].map((type) => conditions.find((condition) => condition.type === type));
  const troubles: Trouble[] = [];
  if (ready !== undefined && ready.status !== 'True') {
    troubles.push({ label: 'not ready', message: `${ready.reason}: ${ready.message}` });
  }
  if (drift?.repaired === false) {
    const listed = `Somebody else changed it: ${drift.differences.join('; ')}.`;
    troubles.push({ label: 'drifted', message: drifted?.status === 'True' ? drifted.message : listed });
  }
  if (paused) troubles.push({ label: 'paused', message: 'Nothing of it is written while it is paused.' });
  return troubles;
}
