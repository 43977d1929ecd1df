import { ENGINE_CLUSTER } from '../kinds/engineCluster/spec.ts';
import { QUERY_LIMIT } from '../kinds/queryLimit/spec.ts';
import { ROUTING_GROUP } from '../kinds/routingGroup/spec.ts';
import { ROUTING_RULE } from '../kinds/routingRule/spec.ts';
import { gatewayClassOf } from '../model/gatewayClass.ts';
import { isRecord } from '../model/record.ts';
import { PATTERN_MARK } from '../rules/textMatcher.ts';
import type { NamedPlace } from './duplicates.ts';
import type { Finding } from './manifestCheck.ts';

interface Groups {
  readonly withClusters: ReadonlySet<string>;
  readonly fallbacks: ReadonlyMap<string, readonly string[]>;
}

/**
 * Finds routing groups that resources name and that have no cluster. Empty if no file has a cluster: they are declared
 * elsewhere.
 */
export function groupReferenceFindings(places: readonly NamedPlace[]): readonly Finding[] {
  // Gateways of different classes do not see each other's resources.
  const byClass = Map.groupBy(
    places.filter(({ resource }) => resource !== null),
    ({ resource }) => gatewayClassOf(resource?.spec ?? {}),
  );
  return [...byClass.values()].flatMap((ofClass) => {
    const groups = declaredGroups(ofClass);
    return groups.withClusters.size === 0 ? [] : ofClass.flatMap((place) => absentGroups(place, groups));
  });
}

function declaredGroups(places: readonly NamedPlace[]): Groups {
  const withClusters = new Set<string>();
  const fallbacks = new Map<string, readonly string[]>();
  for (const place of places) {
    const { resource, name } = place;
    const spec = specOf(place);
    if (resource?.kind === ENGINE_CLUSTER && typeof spec.routingGroup === 'string') withClusters.add(spec.routingGroup);
    if (resource?.kind === ROUTING_GROUP) fallbacks.set(name, texts(spec.fallbacks));
  }
  return { withClusters, fallbacks };
}

function absentGroups(place: NamedPlace, { withClusters, fallbacks }: Groups): readonly Finding[] {
  const isServed = (group: string): boolean =>
    // Surrounding white space is reported as a mistake of the name.
    group !== group.trim() ||
    withClusters.has(group) ||
    (fallbacks.get(group) ?? []).some((fallback) => withClusters.has(fallback));
  const spec = specOf(place);
  switch (place.resource?.kind) {
    case ROUTING_GROUP: {
      const ofFallbacks = texts(spec.fallbacks).flatMap((group, index) =>
        withClusters.has(group) ? [] : [absent(place, `spec.fallbacks[${index}]`, group)],
      );
      return isServed(place.name) || ofFallbacks.length > 0 ? ofFallbacks : [absent(place, 'spec', place.name)];
    }
    case QUERY_LIMIT:
      return texts(isRecord(spec.match) ? spec.match.routingGroups : []).flatMap((group, index) =>
        group.startsWith(PATTERN_MARK) || isServed(group)
          ? []
          : [absent(place, `spec.match.routingGroups[${index}]`, group)],
      );
    case ROUTING_RULE: {
      const group = isRecord(spec.routeTo) ? spec.routeTo.routingGroup : undefined;
      return typeof group !== 'string' || isServed(group) ? [] : [absent(place, 'spec.routeTo.routingGroup', group)];
    }
    default:
      return [];
  }
}

function absent({ path, document, line, column, name }: NamedPlace, field: string, group: string): Finding {
  const message = `${field}: no cluster of these files belongs to the routing group ${group}; correct the name, or add one`;
  return { path, document, line, column, rule: name, message };
}

function specOf({ resource }: NamedPlace): Readonly<Record<string, unknown>> {
  return (resource?.spec ?? {}) as Readonly<Record<string, unknown>>;
}

function texts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}
