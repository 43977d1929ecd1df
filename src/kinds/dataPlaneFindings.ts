import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../model/clock.ts';
import { type Kind, keyText } from '../model/resource.ts';
import type { Observation, ReplicaObservation } from '../store/store.ts';
import { ENGINE_CLUSTER } from './engineCluster/spec.ts';
import type { ResourceOutcome } from './outcome.ts';
import { ReplicaObservations } from './replicaObservations.ts';
import { ROUTING_RULE } from './routingRule/spec.ts';

/** Types of conditions that say what replicas observed while they served requests. */
export const observedConditions = ['Failing', 'ForwardedHeaders'] as const;

/** What the data plane saw of a cluster's handling of forwarded headers. */
export interface ForwardedHeadersFinding {
  readonly ok: boolean;
  readonly message: string;
}

/** Why a check's credentials are not sent to a cluster. */
export interface CredentialsFinding {
  /** CamelCase. */
  readonly reason: string;
  readonly message: string;
}

/** What resources mean, by `keyText`. */
type Outcomes = ReadonlyMap<string, ResourceOutcome>;

/** What follows from an observation of this replica. */
export interface NotedObservation {
  /** For the other replicas, one for each resource that it is about. */
  readonly observations: readonly Observation[];
  /** Keys of the resources whose status may change by it. */
  readonly changed: readonly string[];
}

/**
 * What the data plane observed of clusters and rules while it served requests, on this replica and on the others, for
 * their statuses. Of several replicas the latest observation is what holds.
 */
export class DataPlaneFindings {
  readonly #clock: Clock;
  /** By `keyText`: the last failure of a rule at evaluation, and the generation that failed. */
  readonly #ruleFailures = new Map<
    string,
    { readonly generation: number; readonly message: string; readonly at: number }
  >();
  /** By registry name, with monotonic milliseconds. */
  readonly #forwardedHeaders = new Map<string, { readonly finding: ForwardedHeadersFinding; readonly at: number }>();
  /** By registry name. */
  readonly #credentials = new Map<string, CredentialsFinding>();
  readonly #others = new ReplicaObservations();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes how a cluster handles forwarded headers, as a request through this replica showed. */
  noteForwardedHeaders(cluster: string, finding: ForwardedHeadersFinding, outcomes: Outcomes): NotedObservation {
    const before = this.#forwardedHeaders.get(cluster);
    this.#forwardedHeaders.set(cluster, { finding, at: this.#clock.monotonic() });
    const keys = keysOfCluster(outcomes, cluster);
    const observations = keys.flatMap((key) => observationOf(outcomes, key, 'ForwardedHeaders', finding));
    // Made again, it holds against what another replica observed in between.
    const isLatest = keys.some((key) => this.#isOverruled(outcomes.get(key), before?.at));
    return { observations, changed: isLatest || !isDeepStrictEqual(before?.finding, finding) ? keys : [] };
  }

  /** How a cluster handles forwarded headers; null while no query has shown it. */
  forwardedHeaders({ registryName, resource }: ResourceOutcome): ForwardedHeadersFinding | null {
    const own = this.#forwardedHeaders.get(registryName);
    const other = this.#others.latest('ForwardedHeaders', resource, null);
    if (other !== null && other.at > (own?.at ?? Number.NEGATIVE_INFINITY)) {
      return { ok: other.ok, message: other.message };
    }
    return own?.finding ?? null;
  }

  /**
   * Notes why credentials are not sent to a cluster; null forgets it.
   * @returns keys of the resources whose status that changes
   */
  noteCredentials(cluster: string, finding: CredentialsFinding | null, outcomes: Outcomes): readonly string[] {
    if (isDeepStrictEqual(this.#credentials.get(cluster) ?? null, finding)) return [];
    if (finding === null) this.#credentials.delete(cluster);
    else this.#credentials.set(cluster, finding);
    return keysOfCluster(outcomes, cluster);
  }

  /** Why credentials are not sent to a cluster; null when nothing is wrong. */
  credentials(cluster: string): CredentialsFinding | null {
    return this.#credentials.get(cluster) ?? null;
  }

  /** Notes that a rule as it is now failed for a request through this replica. */
  noteRuleFailure(rule: string, message: string, outcomes: Outcomes): NotedObservation {
    const changed: string[] = [];
    const observations: Observation[] = [];
    for (const key of keysOf(outcomes, ROUTING_RULE, rule)) {
      const generation = outcomes.get(key)?.resource.metadata.generation ?? 0;
      const before = this.#ruleFailures.get(key);
      this.#ruleFailures.set(key, { generation, message, at: this.#clock.monotonic() });
      observations.push(...observationOf(outcomes, key, 'Failing', { ok: false, message }));
      if (before?.generation !== generation || before.message !== message) changed.push(key);
    }
    return { observations, changed };
  }

  /** How a rule failed last, as it is now; null when it has not, or was changed since. */
  ruleFailure({ key, resource }: ResourceOutcome): string | null {
    const { generation } = resource.metadata;
    const own = this.#ruleFailures.get(keyText(key));
    const isOwn = own?.generation === generation;
    const other = this.#others.latest('Failing', resource, generation);
    if (other === null) return isOwn ? own.message : null;
    return isOwn && own.at >= other.at ? own.message : other.message;
  }

  /**
   * Takes what other replicas observed, and drops what is over.
   * @returns keys of the resources whose status may change by it
   */
  takeOthers(observations: readonly ReplicaObservation[]): readonly string[] {
    const now = this.#clock.monotonic();
    return [...this.#others.expire(now), ...this.#others.take(observations, now)];
  }

  /** Drops the findings of a resource that was deleted. @param key as `keyText` has it */
  forget(key: string): void {
    this.#ruleFailures.delete(key);
    this.#others.forget(key);
  }

  /** Whether another replica observed something of a cluster since this one did. */
  #isOverruled(outcome: ResourceOutcome | undefined, ownAt = Number.NEGATIVE_INFINITY): boolean {
    const other = outcome === undefined ? null : this.#others.latest('ForwardedHeaders', outcome.resource, null);
    return other !== null && other.at > ownAt;
  }
}

function observationOf(
  outcomes: Outcomes,
  key: string,
  type: (typeof observedConditions)[number],
  { ok, message }: ForwardedHeadersFinding,
): readonly Observation[] {
  const outcome = outcomes.get(key);
  if (outcome === undefined) return [];
  const { uid, generation } = outcome.resource.metadata;
  return [{ key: outcome.key, type, uid, generation, ok, message }];
}

/** Keys of the resources whose status depends on a cluster, by its registry name. */
export function keysOfCluster(outcomes: Outcomes, cluster: string): string[] {
  return keysOf(outcomes, ENGINE_CLUSTER, cluster);
}

/** Keys of the resources of a kind that have a name in the registry. */
function keysOf(outcomes: Outcomes, kind: Kind, registryName: string): string[] {
  const keys: string[] = [];
  for (const [key, outcome] of outcomes) {
    if (outcome.key.kind === kind && outcome.registryName === registryName) keys.push(key);
  }
  return keys;
}
