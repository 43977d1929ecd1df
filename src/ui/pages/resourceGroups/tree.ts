import type { ResourceGroupView } from '../../client/types.ts';

export interface GroupNode {
  readonly group: ResourceGroupView;
  readonly children: readonly GroupNode[];
}

/** Groups as trees by name; a group with a missing parent or in a cycle stands at the top. */
export function groupTree(groups: readonly ResourceGroupView[]): readonly GroupNode[] {
  const byParent = new Map<number | null, ResourceGroupView[]>();
  const ids = new Set(groups.map(({ resourceGroupId }) => resourceGroupId));
  for (const group of [...groups].sort((a, b) => a.name.localeCompare(b.name))) {
    const parent = group.parent !== undefined && ids.has(group.parent) ? group.parent : null;
    byParent.set(parent, [...(byParent.get(parent) ?? []), group]);
  }
  const placed = new Set<number>();
  const nodeOf = (group: ResourceGroupView): GroupNode => {
    placed.add(group.resourceGroupId);
    const below = byParent.get(group.resourceGroupId) ?? [];
    return { group, children: below.filter(({ resourceGroupId }) => !placed.has(resourceGroupId)).map(nodeOf) };
  };
  const roots = (byParent.get(null) ?? []).map(nodeOf);
  const circles = groups.flatMap((group) => (placed.has(group.resourceGroupId) ? [] : [nodeOf(group)]));
  return [...roots, ...circles];
}

export function descendants(groups: readonly ResourceGroupView[], id: number): ReadonlySet<number> {
  const ids = new Set<number>();
  const look = (parent: number): void => {
    for (const group of groups) {
      if (group.parent !== parent || ids.has(group.resourceGroupId)) continue;
      ids.add(group.resourceGroupId);
      look(group.resourceGroupId);
    }
  };
  look(id);
  return ids;
}
