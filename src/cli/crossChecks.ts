import { ENGINE_CLUSTER } from '../kinds/engineCluster/spec.ts';
import { QUERY_LIMIT } from '../kinds/queryLimit/spec.ts';
import { resourceKinds } from '../kinds/registry.ts';
import { ROUTING_GROUP } from '../kinds/routingGroup/spec.ts';
import { ROUTING_RULE } from '../kinds/routingRule/spec.ts';
import { gatewayClassOf } from '../model/gatewayClass.ts';
import { claimNames } from '../model/nameClaims.ts';
import { isRecord } from '../model/record.ts';
import { keyOf, keyText, type Resource } from '../model/resource.ts';
import { registryNameOf } from '../model/resourceName.ts';
import { PATTERN_MARK } from '../rules/textMatcher.ts';
import type { Finding } from './manifestCheck.ts';

type NamedResource = Pick<Resource, 'kind' | 'metadata'> & { readonly spec: object };

export interface NamedPlace {
  readonly path: string;
  readonly document: number;
  readonly line: number;
  readonly column: number;
  readonly name: string;
  /** Null: a rule of a rules file. */
  readonly resource: NamedResource | null;
}

/** Finds resources that occur twice, registry names with two claims, and rules with the name of another one. */
export function duplicates(places: readonly NamedPlace[]) {
  const resources = places.filter((place) => place.resource !== null) as readonly Claiming[];
  const kinds = new Set(resources.map(({ resource }) => resource.kind));
  return {
    problems: [...kinds].flatMap((kind) => conflicts(resources.filter(({ resource }) => resource.kind === kind))),
    warnings: sameRules(places.filter(({ resource }) => resource === null || resource.kind === ROUTING_RULE)),
  };
}

type Claiming = NamedPlace & { readonly resource: NamedResource };

function conflicts(places: readonly Claiming[]): readonly Finding[] {
  const findings: Finding[] = [];
  const byKey = new Map<string, Claiming>();
  const add = (place: NamedPlace, message: string) => findings.push(finding(place, message));
  for (const place of places) {
    const { kind, metadata } = place.resource;
    const key = keyText(keyOf(place.resource));
    const before = byKey.get(key);
    const what = `${kind} ${metadata.namespace}/${metadata.name}`;
    if (before === undefined) byKey.set(key, place);
    else add(place, `${what} is in ${where(before)} too; delete one of the two, or set another metadata.name`);
  }
  // Gateways of different classes do not see each other's resources.
  const byClass = Map.groupBy(byKey.values(), ({ resource }) => gatewayClassOf(resource.spec));
  const holders = new Map(
    [...byClass].map(([gatewayClass, ofClass]) => [gatewayClass, claimNames(ofClass.map(({ resource }) => resource))]),
  );
  for (const place of byKey.values()) {
    const { resource } = place;
    if (resourceKinds.find(resource.kind)?.hasUniqueNames === false) continue;
    const holder = holders.get(gatewayClassOf(resource.spec))?.get(registryNameOf(resource));
    if (holder === undefined || holder === resource) continue;
    const { namespace, name } = holder.metadata;
    const at = byKey.get(keyText(keyOf(holder)));
    const owner = `${holder.kind} ${namespace}/${name}${at === undefined ? '' : ` in ${where(at)}`}`;
    const fix = 'this one gets NameConflict unless it is the older one; set another spec.name';
    add(place, `the name ${place.name} belongs to ${owner}: ${fix}`);
  }
  return findings;
}

/** Rules of a rules file with the name of another rule: both are evaluated. */
function sameRules(places: readonly NamedPlace[]): readonly Finding[] {
  const findings: Finding[] = [];
  const first = new Map<string, NamedPlace>();
  for (const place of places) {
    const before = first.get(place.name);
    if (before === undefined) first.set(place.name, place);
    else if (before.resource === null || place.resource === null) {
      const message = `the rule ${where(before)} has this name too: both are asked, REST changes neither, and traces and metrics show them as one; give one another name`;
      findings.push(finding(place, message));
    }
  }
  return findings;
}

function where({ path, line }: NamedPlace): string {
  return `${path}:${line}`;
}

function finding({ path, document, line, column, name }: NamedPlace, message: string): Finding {
  return { path, document, line, column, rule: name, message };
}

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

function absent(place: NamedPlace, field: string, group: string): Finding {
  const problem = `no cluster of these files belongs to the routing group ${group}`;
  return finding(place, `${field}: ${problem}; correct the name, or add one`);
}

function specOf({ resource }: NamedPlace): Readonly<Record<string, unknown>> {
  return (resource?.spec ?? {}) as Readonly<Record<string, unknown>>;
}

function texts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}
