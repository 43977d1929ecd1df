import type { Kind, Resource } from '../../model/resource.ts';

/** Most types of conditions that are counted for a kind: those of others are theirs to choose. */
const MAX_TYPES = 32;

/** How many resources have a condition with a status. */
export interface ConditionCount {
  readonly kind: Kind;
  readonly condition: string;
  readonly status: string;
  readonly count: number;
}

const statuses = ['True', 'False', 'Unknown'];

/** Counts the resources of a kind by the status of each of their conditions; each type has all three statuses. */
export function conditionCounts(kind: Kind, resources: readonly Resource[]): readonly ConditionCount[] {
  const counts = new Map<string, Map<string, number>>();
  for (const { status } of resources) {
    for (const { type, status: truth } of status?.conditions ?? []) {
      let ofType = counts.get(type);
      if (ofType === undefined) {
        if (counts.size >= MAX_TYPES) continue;
        ofType = new Map(statuses.map((each) => [each, 0]));
        counts.set(type, ofType);
      }
      const count = ofType.get(truth);
      if (count !== undefined) ofType.set(truth, count + 1);
    }
  }
  return [...counts].flatMap(([condition, ofType]) =>
    [...ofType].map(([status, count]) => ({ kind, condition, status, count })),
  );
}
