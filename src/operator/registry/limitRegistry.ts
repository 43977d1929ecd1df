import type { Acceptance } from '../../kinds/outcome.ts';
import { isLimitOutcome, type LimitOutcome, queryLimit } from '../../kinds/queryLimit/kind.ts';
import { QUERY_LIMIT, type QueryLimitSpec } from '../../kinds/queryLimit/spec.ts';
import { type GroupOutcome, groupRejection, isGroupOutcome, routingGroup } from '../../kinds/routingGroup/kind.ts';
import { ROUTING_GROUP, type RoutingGroupSpec } from '../../kinds/routingGroup/spec.ts';
import { GatewayError } from '../../model/errors.ts';
import { keyOf, keyText } from '../../model/resource.ts';
import type { AdmissionCount, AdmissionCounts } from '../../routing/admissionCounts.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import {
  ChangeCount,
  type DeclaredResource,
  declaredResource,
  mustBeGranted,
  type ResourceWrites,
  type SpecWrite,
  type SpecWriteContext,
  specVersion,
} from './resourceWrites.ts';

export interface DeclaredLimits {
  readonly spec: Readonly<Record<string, unknown>>;
  readonly acceptance: Acceptance;
  /** True if it, or its last good version, is active. */
  readonly isInForce: boolean;
  readonly version: string;
  readonly resource: DeclaredResource;
}

/** A routing group: its clusters, and what is declared of it. */
export interface InventoryGroup {
  readonly name: string;
  readonly clusters: readonly ClusterEntry[];
  /** Null: no resource declares anything. */
  readonly declared: DeclaredLimits | null;
  /** Null: not counted. */
  readonly count: AdmissionCount | null;
}

export interface InventoryLimit {
  readonly namespace: string;
  readonly name: string;
  readonly declared: DeclaredLimits;
  readonly count: AdmissionCount | null;
}

/** Routing groups and query limits as REST lists and changes them (docs/rest-api.md#groups-and-limits). */
export class LimitRegistry {
  readonly #writes: ResourceWrites;
  readonly #counts: AdmissionCounts;
  readonly #versions = new ChangeCount();

  constructor(writes: ResourceWrites, counts: AdmissionCounts) {
    this.#writes = writes;
    this.#counts = counts;
  }

  /** Every routing group that has clusters or a resource, by name; one whose name another resource holds comes after it. */
  groups(): readonly InventoryGroup[] {
    const declared = [...this.#writes.controller.outcomes.values()].filter(isGroupOutcome);
    const names = new Set(declared.map(({ registryName }) => registryName));
    const bare = [...this.#writes.table.current.groups.keys()].filter((name) => !names.has(name));
    return [...declared.map((outcome) => this.#group(outcome)), ...bare.map((name) => this.#bareGroup(name))].sort(
      (a, b) => (a.name === b.name ? rank(a) - rank(b) : a.name < b.name ? -1 : 1),
    );
  }

  /** Grows whenever `groups` or `limits` may respond something else. */
  version(): number {
    return this.#versions.of(this.#versionParts());
  }

  *#versionParts(): Iterable<unknown> {
    const { source } = this.#writes;
    const counts = this.#counts;
    const countsOf = (count: AdmissionCount | null) => [count?.running, count?.waiting, count?.refused];
    for (const outcome of this.#writes.controller.outcomes.values()) {
      if (!isGroupOutcome(outcome) && !isLimitOutcome(outcome)) continue;
      const key = keyOf(outcome.resource);
      yield* [outcome, source.get(key), source.provenance(key)?.place];
      if (isLimitOutcome(outcome)) yield* countsOf(counts.limit(`${key.namespace}/${key.name}`));
    }
    for (const [name, clusters] of this.#writes.table.current.groups) {
      yield name;
      yield* countsOf(counts.group(name));
      for (const cluster of clusters) {
        yield* [cluster.name, cluster.active, cluster.health.status, cluster.maxRunningQueries];
      }
    }
  }

  /** The routing group of a name; null: it has neither clusters nor a resource. */
  group(name: string): InventoryGroup | null {
    const holder = this.#writes.holder(name, isGroupOutcome);
    if (holder !== null) return this.#group(holder);
    return this.#writes.table.current.groups.has(name) ? this.#bareGroup(name) : null;
  }

  limits(): readonly InventoryLimit[] {
    return [...this.#writes.controller.outcomes.values()]
      .filter(isLimitOutcome)
      .map((outcome) => this.#limit(outcome))
      .sort((a, b) => (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1));
  }

  /** A query limit, or null. */
  limit(namespace: string, name: string): InventoryLimit | null {
    const outcome = this.#writes.controller.outcomes.get(keyText({ kind: QUERY_LIMIT, namespace, name }));
    return outcome === undefined || !isLimitOutcome(outcome) ? null : this.#limit(outcome);
  }

  /** Declares what holds for a routing group, where its resource is, or in a new one. @param spec valid */
  async putGroup(name: string, spec: RoutingGroupSpec, context: SpecWriteContext): Promise<SpecWrite> {
    this.#writes.controller.refreshNow();
    const holder = this.#writes.holder(name, isGroupOutcome);
    const key = holder === null ? this.#writes.newKey(ROUTING_GROUP, name, context.namespace) : holder.key;
    const { tenancy } = this.#writes.controller;
    mustBeGranted(groupRejection(tenancy, key.namespace, { name, fallbacks: spec.fallbacks ?? [] }, spec.survival?.to));
    return await this.#writes.put(routingGroup, key, key.name === name ? spec : { name, ...spec }, context);
  }

  async deleteGroup(name: string, version: string | undefined): Promise<SpecWrite> {
    this.#writes.controller.refreshNow();
    const holder = this.#writes.holder(name, isGroupOutcome);
    if (holder === null) {
      const message = `there is no ${ROUTING_GROUP} of the routing group ${name}`;
      throw new GatewayError('EG_NOT_FOUND', message, { field: 'name' });
    }
    return await this.#writes.delete(routingGroup, holder.key, version);
  }

  /** Declares a query limit. @param spec valid */
  async putLimit(namespace: string, name: string, spec: QueryLimitSpec, context: SpecWriteContext): Promise<SpecWrite> {
    this.#writes.controller.refreshNow();
    mustBeGranted(this.#writes.controller.tenancy.decidesRejection(namespace));
    return await this.#writes.put(queryLimit, { kind: QUERY_LIMIT, namespace, name }, spec, context);
  }

  async deleteLimit(namespace: string, name: string, version: string | undefined): Promise<SpecWrite> {
    return await this.#writes.delete(queryLimit, { kind: QUERY_LIMIT, namespace, name }, version);
  }

  #group(outcome: GroupOutcome): InventoryGroup {
    const { registryName: name, policy } = outcome;
    return { ...this.#bareGroup(name), declared: this.#declared(outcome, policy !== null) };
  }

  #bareGroup(name: string): InventoryGroup {
    const clusters = this.#writes.table.current.groups.get(name) ?? [];
    return { name, clusters, declared: null, count: this.#counts.group(name) };
  }

  #limit(outcome: LimitOutcome): InventoryLimit {
    const { namespace, name } = outcome.key;
    const count = this.#counts.limit(`${namespace}/${name}`);
    return { namespace, name, declared: this.#declared(outcome, outcome.policy !== null), count };
  }

  #declared(outcome: GroupOutcome | LimitOutcome, isInForce: boolean): DeclaredLimits {
    const { resource, acceptance } = outcome;
    const { name: _name, gatewayClassName: _class, ...spec } = resource.spec;
    return {
      spec,
      acceptance,
      isInForce,
      version: specVersion(this.#writes.source.get(keyOf(resource)) ?? resource),
      resource: declaredResource(outcome, this.#writes.source),
    };
  }
}

function rank({ declared }: InventoryGroup): number {
  return declared?.acceptance.reason === 'NameConflict' ? 1 : 0;
}
