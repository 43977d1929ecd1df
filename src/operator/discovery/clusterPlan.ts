import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { type DiscoveryContext, discoveredCluster } from '../../kinds/engineClusterDiscovery/discoveredCluster.ts';
import {
  DISCOVERY_LABEL,
  discoveryOwner,
  MAX_CLUSTERS,
  SERVICE_ANNOTATION,
} from '../../kinds/engineClusterDiscovery/spec.ts';
import type { DiscoveryFinding } from '../../kinds/kindProgram.ts';
import type { KnownService } from '../../kinds/serviceLookup.ts';
import { isRecord } from '../../model/record.ts';
import { API_GROUP, type Resource } from '../../model/resource.ts';

/** Annotation of a discovered cluster: a digest of what its discovery made of the Service. */
const DIGEST_ANNOTATION = `${API_GROUP}/discovery-digest`;

/** A Service of a discovery; `service` null: all that is known of it is its cluster, which stays as it is. */
export interface PlannedService {
  /** `namespace/name` */
  readonly key: string;
  readonly service: KnownService | null;
}

export interface WantedCluster {
  readonly name: string;
  readonly spec: Readonly<Record<string, unknown>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** The cluster as it is, or null. */
  readonly present: Resource | null;
}

export interface ClusterPlan {
  readonly write: readonly WantedCluster[];
  readonly remove: readonly Resource[];
  /** Clusters that are as they should be, or stay as they are. */
  readonly settled: number;
  readonly conflicts: readonly DiscoveryFinding[];
  readonly refusals: readonly DiscoveryFinding[];
}

export interface PlanInput {
  readonly services: readonly PlannedService[];
  readonly discovery: Resource;
  readonly context: DiscoveryContext;
  readonly owned: readonly Resource[];
  /** Owner of a cluster's name as text; null: free, or the discovery itself. */
  readonly holder: (name: string) => string | null;
}

/** Works out which clusters a discovery writes and removes: never one that it does not own. Pure. */
export function clusterPlan({ services, discovery, context, owned, holder }: PlanInput): ClusterPlan {
  const byName = new Map(owned.map((cluster) => [cluster.metadata.name, cluster]));
  const byService = new Map(owned.map((cluster) => [discoveryOwner(cluster)?.service ?? '', cluster]));
  const wanted = new Map<string, WantedCluster & { readonly service: string }>();
  const unchanged = new Map<string, string>();
  const conflicts: DiscoveryFinding[] = [];
  const refusals: DiscoveryFinding[] = [];
  let left = 0;
  for (const { key, service } of inOrder(services, byService)) {
    const finding = (reason: string, message: string): DiscoveryFinding => ({ service: key, reason, message });
    if (service === null) {
      const present = byService.get(key);
      if (present !== undefined) unchanged.set(present.metadata.name, key);
      continue;
    }
    const cluster = discoveredCluster(service, context);
    if (cluster.kind === 'refused') {
      refusals.push(finding(cluster.reason, cluster.message));
      continue;
    }
    const { name, spec } = cluster;
    const other = wanted.get(name)?.service ?? unchanged.get(name);
    const taken = other === undefined ? holder(name) : `the Service ${other}`;
    if (taken !== null) conflicts.push(finding('NameConflict', `the name ${name} is that of ${taken}`));
    else if (wanted.size >= MAX_CLUSTERS) left += 1;
    else {
      const labels = { [DISCOVERY_LABEL]: discovery.metadata.name };
      const annotations = { [SERVICE_ANNOTATION]: key, [DIGEST_ANNOTATION]: digestOf(spec) };
      wanted.set(name, { name, spec, labels, annotations, present: byName.get(name) ?? null, service: key });
    }
  }
  if (left > 0) {
    const message = `${left} more Services match than the ${MAX_CLUSTERS} of which clusters are made; narrow the selector, or use another discovery`;
    refusals.push({ service: '…', reason: 'TooManyServices', message });
  }
  const write = [...wanted.values()].filter((each) => !isAsWanted(each));
  const remove = owned.filter(({ metadata: { name } }) => !wanted.has(name) && !unchanged.has(name));
  return { write, remove, settled: wanted.size - write.length + unchanged.size, conflicts, refusals };
}

/** Those that have a cluster first: who comes later takes no name, and no place, from them. */
function inOrder(
  services: readonly PlannedService[],
  byService: ReadonlyMap<string, Resource>,
): readonly PlannedService[] {
  const age = ({ key, service }: PlannedService): string => `${service?.creationTimestamp ?? ''} ${key}`;
  return services.toSorted((a, b) => {
    const [hasA, hasB] = [byService.has(a.key), byService.has(b.key)];
    if (hasA !== hasB) return hasA ? -1 : 1;
    return age(a) < age(b) ? -1 : 1;
  });
}

function isAsWanted({ spec, labels, annotations, present }: WantedCluster): boolean {
  return (
    present !== null &&
    holds(present.metadata.labels, labels) &&
    holds(present.metadata.annotations, annotations) &&
    holds(present.spec, spec)
  );
}

/** True if a value has all that is wanted; more of it may be a default, or another user's. */
function holds(present: unknown, wanted: unknown): boolean {
  if (!isRecord(wanted)) return isDeepStrictEqual(present, wanted);
  return isRecord(present) && Object.entries(wanted).every(([field, value]) => holds(present[field], value));
}

function digestOf(spec: Readonly<Record<string, unknown>>): string {
  return createHash('sha256').update(JSON.stringify(spec)).digest('base64url').slice(0, 16);
}
