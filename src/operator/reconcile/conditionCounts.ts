import type { Kind, Resource } from '../../model/resource.ts';

/** Most types of conditions that are counted for a kind: those of others are theirs to choose. */
const MAX_TYPES = 32;

export interface ConditionCount {
  readonly kind: Kind;
  readonly condition: string;
  readonly status: string;
  readonly count: number;
}

const statuses = ['True', 'False', 'Unknown'];

const MAX_UNREADY = 200;
/** Conditions of a resource that are listed: those of others are theirs to choose. */
const MAX_CONDITIONS = 16;

/** A condition of a resource that is not ready, as labels of a metric. */
export interface UnreadyCondition {
  readonly kind: Kind;
  readonly resource_namespace: string;
  readonly resource_name: string;
  readonly condition: string;
  readonly status: string;
}

/** Returns the conditions of the resources of which `Ready` is not True. */
export function unreadyConditions(kind: Kind, resources: readonly Resource[]): readonly UnreadyCondition[] {
  const unready = resources.filter(({ status }) =>
    status?.conditions?.some(({ type, status: truth }) => type === 'Ready' && truth !== 'True'),
  );
  return unready.slice(0, MAX_UNREADY).flatMap(({ metadata, status }) =>
    (status?.conditions ?? []).slice(0, MAX_CONDITIONS).map((condition) => ({
      ...{ kind, resource_namespace: metadata.namespace, resource_name: metadata.name },
      ...{ condition: condition.type, status: condition.status },
    })),
  );
}

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
