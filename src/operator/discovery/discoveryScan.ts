import { isDeepStrictEqual } from 'node:util';
import type { DiscoveryOutcome } from '../../kinds/engineClusterDiscovery/discoveryProgram.ts';
import type { DiscoveryReport } from '../../kinds/engineClusterDiscovery/discoveryReport.ts';
import { discoveryOwner } from '../../kinds/engineClusterDiscovery/ownership.ts';
import type { EngineClusterDiscoverySpec } from '../../kinds/engineClusterDiscovery/spec.ts';
import { type KnownService, SERVICE, type ServiceLists } from '../../kinds/serviceLookup.ts';
import type { GroupBindings } from '../../model/groupBindings.ts';
import { API_GROUP_VERSION, keyOfText, keyTextOf, type Resource } from '../../model/resource.ts';
import { DeletionGuard, type DeletionGuardOptions, type HeldDeletions } from '../reconcile/deletionGuard.ts';
import { type ClusterPlan, clusterPlan, type PlannedService } from './clusterPlan.ts';
import { matchingServices } from './matchingServices.ts';

/** What a discovery is looked at with. */
export interface ScanInput {
  readonly outcome: DiscoveryOutcome & { readonly spec: EngineClusterDiscoverySpec };
  readonly lists: ServiceLists;
  /** `resources.discovery.namespaces` */
  readonly allowed: readonly string[];
  readonly groups: GroupBindings;
  /** Clusters that the discovery owns. */
  readonly owned: readonly Resource[];
  /** Who has the name of a cluster in the discovery's namespace; null: nobody, or the discovery itself. */
  readonly holder: (name: string) => string | null;
}

/**
 * One discovery over time: its Services, and those of them that were lost with most others, whose clusters stay until that is
 * confirmed (docs/reliability.md#a-source-that-loses-most-of-its-resources).
 */
export class DiscoveryScan {
  readonly #guard: DeletionGuard;
  #isFirst = true;
  #report: DiscoveryReport | null = null;

  constructor(options: Omit<DeletionGuardOptions, 'kind' | 'isOfAnother' | 'isForgiving'>) {
    this.#guard = new DeletionGuard({ ...options, kind: SERVICE, isOfAnother: () => false, isForgiving: false });
  }

  /** What became of it at the last look; null before the first. */
  get report(): DiscoveryReport | null {
    return this.#report;
  }

  get held(): HeldDeletions | null {
    return this.#guard.held;
  }

  /** Takes what is lost for meant. */
  confirm(): void {
    this.#guard.confirm();
  }

  stop(): void {
    this.#guard.stop();
  }

  /** What is to be written and removed now. @param failure why clusters could not be written the last time */
  look(input: ScanInput, failure: string | null): ClusterPlan {
    const { outcome, lists, allowed, groups, owned, holder } = input;
    const { resource, spec } = outcome;
    const { namespace } = resource.metadata;
    const matching = matchingServices(lists, { spec, namespace, allowed });
    const ofClusters = owned.flatMap((cluster) => {
      const service = discoveryOwner(cluster)?.service ?? null;
      return service === null ? [] : [stored(service, null)];
    });
    if (this.#isFirst) this.#guard.restore(ofClusters);
    this.#isFirst = false;
    // A namespace that is no longer looked at is left on purpose; one that cannot be read says nothing.
    for (const each of ofClusters) {
      if (!matching.isInScope(each.metadata.namespace)) this.#guard.expect(keyTextOf(each));
    }
    const unread = ofClusters.filter(
      ({ metadata }) => matching.isInScope(metadata.namespace) && !matching.isRead(metadata.namespace),
    );
    const present = matching.services.map((service) => stored(`${service.namespace}/${service.name}`, service));
    const read = new Set(present.map(keyTextOf));
    const served = this.#guard.serve([...present, ...unread.filter((each) => !read.has(keyTextOf(each)))]);
    const services = served
      .filter(({ metadata }) => matching.isInScope(metadata.namespace))
      .map(
        (each): PlannedService => ({
          key: `${each.metadata.namespace}/${each.metadata.name}`,
          service: serviceOf(each),
        }),
      );
    const plan = clusterPlan({ services, discovery: resource, context: { spec, namespace, groups }, owned, holder });
    const report: DiscoveryReport = {
      services: services.length,
      clusters: plan.settled,
      references: matching.references,
      conflicts: plan.conflicts,
      refusals: plan.refusals,
      held: this.#guard.held?.held ?? 0,
      failure,
    };
    if (!isDeepStrictEqual(report, this.#report)) this.#report = report;
    return plan;
  }
}

/** A Service in the form in which losses are looked at. @param key `namespace/name` */
function stored(key: string, service: KnownService | null): Resource {
  const { namespace, name } = keyOfText(`${SERVICE}/${key}`);
  const metadata = {
    namespace,
    name,
    uid: service?.uid ?? '',
    resourceVersion: '',
    generation: 0,
    creationTimestamp: service?.creationTimestamp ?? '',
  };
  return { apiVersion: API_GROUP_VERSION, kind: SERVICE, metadata, spec: { service } };
}

function serviceOf({ spec }: Resource): KnownService | null {
  return spec.service as KnownService | null;
}
