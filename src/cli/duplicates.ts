import { resourceKinds } from '../kinds/registry.ts';
import { ROUTING_RULE } from '../kinds/routingRule/spec.ts';
import { gatewayClassOf } from '../model/gatewayClass.ts';
import { claimNames } from '../model/nameClaims.ts';
import { keyOf, keyText, type Resource } from '../model/resource.ts';
import { registryNameOf } from '../model/resourceName.ts';
import type { Finding } from './manifestCheck.ts';

export type NamedResource = Pick<Resource, 'kind' | 'metadata'> & { readonly spec: object };

export interface NamedPlace {
  readonly path: string;
  readonly document: number;
  readonly line: number;
  readonly column: number;
  readonly name: string;
  /** Null: a rule of a rules file. */
  readonly resource: NamedResource | null;
}

export interface Duplicates {
  readonly problems: readonly Finding[];
  readonly warnings: readonly Finding[];
}

/** Finds resources that occur twice, registry names with two claims, and rules with the name of another one. */
export function duplicates(places: readonly NamedPlace[]): Duplicates {
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
  for (const place of places) {
    const { kind, metadata } = place.resource;
    const key = keyText(keyOf(place.resource));
    const before = byKey.get(key);
    if (before === undefined) byKey.set(key, place);
    else
      findings.push(
        finding(
          place,
          `${kind} ${metadata.namespace}/${metadata.name} is in ${where(before)} too; delete one of the two, or set another metadata.name`,
        ),
      );
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
    findings.push(
      finding(
        place,
        `the name ${place.name} belongs to ${holder.kind} ${namespace}/${name}${at === undefined ? '' : ` in ${where(at)}`}: this one gets NameConflict unless it is the older one; set another spec.name`,
      ),
    );
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
