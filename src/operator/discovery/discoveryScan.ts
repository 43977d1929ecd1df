import { isDeepStrictEqual } from 'node:util';
import { discoveryOwner } from '../../kinds/engineClusterDiscovery/spec.ts';
import type { DiscoveryReport } from '../../kinds/kindProgram.ts';
import { type KnownService, SERVICE, type ServiceLists } from '../../kinds/serviceLookup.ts';
import type { Clock } from '../../model/clock.ts';
import { API_GROUP_VERSION, keyOfText, keyTextOf, type Resource } from '../../model/resource.ts';
import { DeletionGuard, type DeletionGuardOptions } from '../reconcile/deletionGuard.ts';
import { type ClusterPlan, clusterPlan, type PlanInput } from './clusterPlan.ts';
import { matchingServices } from './matchingServices.ts';

/** Input of a scan of a discovery. */
export interface ScanInput extends Omit<PlanInput, 'services'> {
  readonly lists: ServiceLists;
  /** `resources.discovery.namespaces` */
  readonly allowed: readonly string[];
}

/**
 * One discovery over time. If it loses most of its Services, their clusters stay until that is confirmed
 * (docs/reliability.md#a-source-that-loses-most-of-its-resources).
 */
export class DiscoveryScan {
  readonly guard: DeletionGuard;
  readonly #clock: Clock;
  /** Result of the last look; null before the first. */
  report: DiscoveryReport | null = null;
  /** Reason why clusters could not be written the last time; null: they were. */
  failure: string | null = null;

  constructor(options: Omit<DeletionGuardOptions, 'kind' | 'isOfAnother'>) {
    this.guard = new DeletionGuard({ ...options, kind: SERVICE, isOfAnother: () => false });
    this.#clock = options.clock;
  }

  /** Plans the clusters to be written and removed now. */
  look({ lists, allowed, ...input }: ScanInput): ClusterPlan {
    const { owned, context } = input;
    const { spec, namespace } = context;
    const matching = matchingServices(lists, { spec, namespace, allowed });
    const ofClusters = owned.flatMap((cluster) => {
      const service = discoveryOwner(cluster)?.service ?? null;
      return service === null ? [] : [serviceResource(service, null)];
    });
    if (this.report === null) this.guard.restore(ofClusters);
    const present = matching.services.map((service) =>
      serviceResource(`${service.namespace}/${service.name}`, service),
    );
    const read = new Set(present.map(keyTextOf));
    const unread: Resource[] = [];
    for (const each of ofClusters) {
      const { metadata } = each;
      // A namespace that is no longer looked at is left on purpose; nothing is known of one that cannot be read.
      if (!matching.isInScope(metadata.namespace)) this.guard.expect(keyTextOf(each));
      else if (!matching.isRead(metadata.namespace) && !read.has(keyTextOf(each))) unread.push(each);
    }
    const served = this.guard.serve([...present, ...unread]);
    // No call deletes Services.
    this.guard.forgive(new Set(), this.#clock.monotonic());
    const services = served
      .filter(({ metadata }) => matching.isInScope(metadata.namespace))
      .map(({ metadata, spec: { service } }) => ({
        key: `${metadata.namespace}/${metadata.name}`,
        service: service as KnownService | null,
      }));
    const plan = clusterPlan({ ...input, services });
    const { settled: clusters, conflicts, refusals } = plan;
    const { references } = matching;
    const loss = this.guard.held.reduce((sum, { held }) => sum + held, 0);
    const report = {
      services: services.length,
      clusters,
      references,
      conflicts,
      refusals,
      held: loss,
      failure: this.failure,
    };
    if (!isDeepStrictEqual(report, this.report)) this.report = report;
    return plan;
  }
}

/** A Service as a resource, as `DeletionGuard` takes it. @param key `namespace/name` */
function serviceResource(key: string, service: KnownService | null): Resource {
  const { namespace, name } = keyOfText(`${SERVICE}/${key}`);
  const { uid = '', creationTimestamp = '' } = service ?? {};
  const metadata = { namespace, name, uid, creationTimestamp, resourceVersion: '', generation: 0 };
  return { apiVersion: API_GROUP_VERSION, kind: SERVICE, metadata, spec: { service } };
}
