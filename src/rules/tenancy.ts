import { createHash } from 'node:crypto';
import {
  DEFAULT_NAMES,
  type Decides,
  ENGINE_TENANT,
  type EngineTenantSpec,
  NAMESPACE_PLACEHOLDER,
} from '../kinds/engineTenant/spec.ts';
import type { StringMatch } from '../kinds/fields/spec.ts';
import type { ResourceGroupConfigurationSpec as GroupsSpec } from '../kinds/resourceGroupConfiguration/spec.ts';
import { hostMatches, hostOf } from '../model/hostPattern.ts';
import type { RequestUser } from '../model/requestUser.ts';
import type { Resource } from '../model/resource.ts';
import { registryNameOf } from '../model/resource.ts';
import type { RuleDefinition } from './compile/definition.ts';
import { type TextMatcher, validMatcher } from './textMatcher.ts';

/** A tenant with the namespaces that are its own. */
export interface TenantGrants {
  readonly name: string;
  readonly namespaces: readonly string[];
  readonly spec: EngineTenantSpec;
}

/** Tenants as plain data, e.g. for another thread. */
export interface TenancyData {
  /** Namespace of the platform; null: every namespace is the platform's. */
  readonly platform: string | null;
  readonly tenants: readonly TenantGrants[];
}

/** Reason that a namespace may not declare something. */
export interface GrantRejection {
  /** Reason of the condition `Accepted`. */
  readonly reason: string;
  /** Field of the spec, without `spec.`; null: no field is to be corrected. */
  readonly field: string | null;
  /** A sentence with the missing grant and where to add it. */
  readonly message: string;
}

/** Returns a rejection as a message of a condition. */
export function grantText({ field, message }: GrantRejection): string {
  return field === null ? message : `spec.${field}: ${message}`;
}

/** True if a rejected resource may not have its registry name, so that the name stays free for others. */
export function withholdsName(reason: string | undefined): boolean {
  return reason === 'NoTenant' || reason === 'NameNotGranted';
}

/** The tenant whose rules decide a query. */
export interface Decider {
  readonly tenant: string | null;
  /** Tenants that match the query where they are several: none of them decides. */
  readonly conflict: readonly string[];
}

export const noDecider: Decider = { tenant: null, conflict: [] };

class Tenant {
  readonly grants: TenantGrants;
  readonly isGroupGranted: TextMatcher;
  readonly isRootGranted: TextMatcher;
  readonly decides: Readonly<Record<keyof Decides, TextMatcher | undefined>> | undefined;
  /** By namespace. */
  readonly #names = new Map<string, TextMatcher>();

  constructor(grants: TenantGrants) {
    const { routingGroups, resourceGroups, decides } = grants.spec;
    this.grants = grants;
    this.isGroupGranted = validMatcher(routingGroups ?? [], false);
    this.isRootGranted = validMatcher(resourceGroups?.rootGroups ?? [], false);
    const optional = (values: readonly StringMatch[] | undefined) => values && validMatcher(values, false);
    this.decides = decides && {
      ...{ users: optional(decides.users), userGroups: optional(decides.userGroups) },
      sources: optional(decides.sources),
    };
  }

  isNameGranted(namespace: string, name: string): boolean {
    const names = this.grants.spec.names ?? DEFAULT_NAMES;
    const matches = this.#names.getOrInsertComputed(namespace, () => validMatcher(namesIn(names, namespace), false));
    return matches(name);
  }

  matches(user: string, groups: readonly string[], source: string): boolean {
    if (this.decides === undefined) return false;
    const { users, userGroups, sources } = this.decides;
    if (users !== undefined && (user === '' || !users(user))) return false;
    return (userGroups === undefined || groups.some(userGroups)) && (sources === undefined || sources(source));
  }

  missing(reason: string, grant: string, field: string | null, what: string): GrantRejection {
    const { name } = this.grants;
    const message = `${what} is not granted to the tenant ${name}; choose another, or have it added to spec.${grant} of the ${ENGINE_TENANT} ${name}`;
    return { reason, field, message };
  }
}

/** Matches of names for the resources of a namespace. */
export function namesIn(names: readonly StringMatch[], namespace: string): readonly StringMatch[] {
  return names.map(({ type = 'Exact', value }) => ({
    type,
    value: value.replaceAll(NAMESPACE_PLACEHOLDER, namespace),
  }));
}

/** Rights of namespaces by tenants (docs/resources.md#tenants). Immutable. */
export class Tenancy {
  readonly data: TenancyData;
  /** Equal for equal rights. */
  readonly key: string;
  readonly #byNamespace: ReadonlyMap<string, Tenant>;
  readonly #deciders: readonly Tenant[];
  /** Namespaces of other tenants that begin with a namespace and a dash, by namespace: most have none. */
  readonly #longer = new Map<string, readonly string[]>();

  constructor(data: TenancyData) {
    this.data = data;
    this.key = createHash('sha256').update(JSON.stringify(data)).digest('base64url');
    const tenants = data.tenants.map((grants) => new Tenant(grants));
    this.#byNamespace = new Map(tenants.flatMap((each) => each.grants.namespaces.map((name) => [name, each])));
    this.#deciders = tenants.filter(({ decides }) => decides !== undefined);
  }

  /** True if every namespace may declare everything. */
  get isOpen(): boolean {
    return this.data.platform === null;
  }

  /** Namespaces of the platform and of tenants; none while every namespace may declare everything. */
  get namespaces(): readonly string[] {
    return this.data.platform === null ? [] : [this.data.platform, ...this.#byNamespace.keys()];
  }

  isPlatform(namespace: string | null): boolean {
    return namespace === null || this.isOpen || namespace === this.data.platform;
  }

  /** Name of a namespace's tenant; null: the platform's, or no tenant's. */
  tenantOf(namespace: string | null): string | null {
    return this.isPlatform(namespace) ? null : (this.#byNamespace.get(namespace ?? '')?.grants.name ?? null);
  }

  /** Returns the reason that a namespace may declare nothing; null if it is the platform's or a tenant's. */
  namespaceRejection(namespace: string): GrantRejection | null {
    if (this.isPlatform(namespace) || this.#byNamespace.has(namespace)) return null;
    const message = `namespace ${namespace} belongs to no active ${ENGINE_TENANT}; have it added to spec.namespaces of one`;
    return { reason: 'NoTenant', field: null, message };
  }

  /** Returns the reason that a resource may not have a registry name, or null. */
  nameRejection(namespace: string, name: string): GrantRejection | null {
    return this.#rejection(namespace, (tenant) => {
      const isGranted = tenant.isNameGranted(namespace, name) && !this.#isOfLonger(namespace, name);
      return isGranted ? null : tenant.missing('NameNotGranted', 'names', 'name', `the name ${name}`);
    });
  }

  /** As `nameRejection`, for the registry name of a resource. */
  nameRejectionOf(resource: Resource): GrantRejection | null {
    return this.nameRejection(resource.metadata.namespace, registryNameOf(resource));
  }

  /** True for a name such as `team-a-1` in the namespace `team`, where another tenant has the namespace `team-a`. */
  #isOfLonger(namespace: string, name: string): boolean {
    const longer = this.#longer.getOrInsertComputed(namespace, () => {
      const isOther = (each: string) => this.#byNamespace.get(each) !== this.#byNamespace.get(namespace);
      return [...this.#byNamespace.keys()].filter((each) => each.startsWith(`${namespace}-`) && isOther(each));
    });
    return longer.some(
      (each) => name.startsWith(`${each}-`) && this.#byNamespace.get(each)?.isNameGranted(each, name) === true,
    );
  }

  /** Returns the reason that a resource may not name a routing group, or null. */
  groupRejection(namespace: string, field: string, group: string): GrantRejection | null {
    return this.#rejection(namespace, (tenant) =>
      tenant.isGroupGranted(group)
        ? null
        : tenant.missing('RoutingGroupNotGranted', 'routingGroups', field, `the routing group ${group}`),
    );
  }

  /** Returns the reason that a discovery may make no cluster of a Service, or null. @param own namespace of the discovery */
  serviceRejection(own: string, namespace: string, name: string, group: string): GrantRejection | null {
    const tenant = this.tenantOf(namespace);
    if (!this.isPlatform(own) && tenant !== this.tenantOf(own)) {
      const message = `namespace ${namespace} is not one of the tenant of ${own}`;
      return { reason: 'NamespaceNotGranted', field: null, message };
    }
    // Services of a tenant join no other group than it may.
    const ofTenant = tenant === null ? null : this.groupRejection(namespace, 'routingGroup', group);
    return this.groupRejection(own, 'routingGroup', group) ?? ofTenant ?? this.nameRejection(own, name);
  }

  /** Returns the reason that a namespace decides and limits no queries, or null. */
  decidesRejection(namespace: string): GrantRejection | null {
    return this.#rejection(namespace, ({ decides, grants: { name } }) => {
      if (decides !== undefined) return null;
      const message = `the tenant ${name} decides no queries; have spec.decides added to the ${ENGINE_TENANT} ${name}`;
      return { reason: 'DecidesNotGranted', field: null, message };
    });
  }

  /**
   * Returns the reason that a namespace may not declare resource groups of engines, or null.
   * @param databases null: the gateway's own
   */
  resourceGroupsRejection(namespace: string, spec: GroupsSpec, databases: readonly (string | null)[]) {
    return this.#rejection(namespace, (tenant) => groupsRejection(tenant, spec, databases));
  }

  /** Priority of the first selector of a namespace's resources: the top of its tenant's band; of the platform, above all bands. */
  firstPriority(namespace: string, selectors: number): number {
    const grants = this.isPlatform(namespace) ? undefined : this.#byNamespace.get(namespace)?.grants;
    const bands = this.data.tenants.map(({ spec }) => spec.resourceGroups?.priorities.to ?? 0);
    return grants?.spec.resourceGroups?.priorities.to ?? Math.max(0, ...bands) + selectors;
  }

  /** Returns the reason that Secrets of a namespace may not be sent to a URL, or null. */
  hostRejection(namespace: string, url: string): string | null {
    const granted = this.#byNamespace.get(namespace)?.grants.spec.credentialsHosts ?? [];
    if (this.isPlatform(namespace) || hostMatches([...servicesOf(namespace), ...granted], url)) return null;
    return `Secrets of namespace ${namespace} may not be sent to ${hostOf(url)}; have the host added to spec.credentialsHosts of its ${ENGINE_TENANT}`;
  }

  /** Returns the tenant whose rules and limits apply to a query. */
  decider(user: RequestUser | null | undefined, source: string): Decider {
    const groups = user?.membership?.groups ?? [];
    return this.deciderOf(user?.user ?? '', groups, source);
  }

  /** @param user empty: unknown */
  deciderOf(user: string, groups: readonly string[], source: string): Decider {
    if (this.#deciders.length === 0) return noDecider;
    const names = this.#deciders.filter((each) => each.matches(user, groups, source)).map(({ grants }) => grants.name);
    return names.length > 1 ? { tenant: null, conflict: names } : { tenant: names[0] ?? null, conflict: [] };
  }

  #rejection(namespace: string, of: (tenant: Tenant) => GrantRejection | null): GrantRejection | null {
    if (this.isPlatform(namespace)) return null;
    const tenant = this.#byNamespace.get(namespace);
    return tenant === undefined ? this.namespaceRejection(namespace) : of(tenant);
  }
}

/** The tenancy without tenants: every namespace may declare everything. */
export const openTenancy = new Tenancy({ platform: null, tenants: [] });

/** Patterns of the hosts of a namespace's Services. */
export function servicesOf(namespace: string): readonly string[] {
  return [`*.${namespace}.svc`, `*.${namespace}.svc.cluster.local`];
}

function groupsRejection(
  tenant: Tenant,
  { environment, rootGroups, selectors, prune = false, cpuQuotaPeriod }: GroupsSpec,
  wanted: readonly (string | null)[],
): GrantRejection | null {
  const {
    environments = [],
    databases = [],
    priorities: { from, to } = noPriorities,
  } = tenant.grants.spec.resourceGroups ?? {};
  const missing = (reason: string, grant: string, what: string, field = grant) =>
    tenant.missing(`${reason}NotGranted`, `resourceGroups.${grant}`, field, what);
  if (!environments.includes(environment))
    return missing('Environment', 'environments', `the environment ${environment}`, 'environment');
  const database = wanted.find((each) => each !== null && !databases.includes(each));
  if (database) return missing('Database', 'databases', `the database ${database}`);
  const root = rootGroups.find(({ name }) => !tenant.isRootGranted(name));
  if (root !== undefined) return missing('ResourceGroup', 'rootGroups', `the root group ${root.name}`);
  const field = prune ? 'prune' : 'cpuQuotaPeriod';
  const message = `is the platform's, not a tenant's; leave ${field} out`;
  if (prune || cpuQuotaPeriod !== undefined) return { reason: 'ResourceGroupNotGranted', field, message };
  if (selectors.length <= to - from + 1) return null;
  return missing('Priorities', 'priorities', `more selectors than priorities from ${from} to ${to}`, 'selectors');
}

const noPriorities = { from: 1, to: 0 };

/** Stages of rules, in their order: the platform's, the tenants', the platform's final ones. */
export type Stage = 0 | 1 | 2;

/** Rights of rules by their namespaces. */
export class RuleRights {
  readonly tenancy: Tenancy;
  /** Changes whenever a result may change; contains all data. */
  readonly version: string;
  readonly #groupOf: ReadonlyMap<string, string>;
  readonly #defaultGroup: string;

  /**
   * @param groupOf routing groups of the clusters, by registry name
   * @param defaultGroup the group of queries for which no rule chooses
   */
  constructor(tenancy: Tenancy, groupOf: ReadonlyMap<string, string>, defaultGroup: string) {
    this.tenancy = tenancy;
    this.#groupOf = groupOf;
    this.#defaultGroup = defaultGroup;
    this.version = JSON.stringify([tenancy.data, defaultGroup, [...groupOf].sort(([a], [b]) => (a < b ? -1 : 1))]);
  }

  /** Returns the reason that a rule may not be asked; null if it may. Targets of actions are known only at evaluation. */
  ruleRejection({ namespace, name, stage, routeTo }: RuleDefinition): GrantRejection | null {
    const { tenancy } = this;
    if (namespace === null || tenancy.isPlatform(namespace)) return null;
    const rejection = tenancy.nameRejection(namespace, name) ?? tenancy.decidesRejection(namespace);
    if (rejection !== null) return rejection;
    if (stage === 'Final') {
      const message = `the stage Final is for rules of the platform; set stage: First, or declare the rule in the namespace ${tenancy.data.platform}`;
      return { reason: 'StageNotGranted', field: 'stage', message };
    }
    const { routingGroup, cluster } = routeTo ?? {};
    if (routingGroup !== undefined) return tenancy.groupRejection(namespace, 'routeTo.routingGroup', routingGroup);
    const group = cluster === undefined ? undefined : this.#groupOf.get(cluster);
    return group === undefined ? null : tenancy.groupRejection(namespace, 'routeTo.cluster', group);
  }

  /** Returns the reason that a rule may not choose a group, or null. @param group null: the default group */
  chosenRejection(namespace: string | null, group: string | null): string | null {
    if (namespace === null) return null;
    return this.tenancy.groupRejection(namespace, 'actions', group ?? this.#defaultGroup)?.message ?? null;
  }
}

/** Returns the rights of rules for the routed clusters; null if every rule may route everywhere. */
export function ruleRights(
  tenancy: Tenancy,
  clusters: readonly { readonly name: string; readonly routingGroup: string }[],
  defaultGroup: string,
): RuleRights | null {
  if (tenancy.isOpen) return null;
  return new RuleRights(tenancy, new Map(clusters.map((each) => [each.name, each.routingGroup])), defaultGroup);
}

/** Restores rights from their version, for another thread. */
export function rightsOfVersion(version: string): RuleRights {
  const [data, defaultGroup, groupOf] = JSON.parse(version) as [TenancyData, string, [string, string][]];
  return new RuleRights(new Tenancy(data), new Map(groupOf), defaultGroup);
}

/** Returns the stage in which a rule is asked. */
export function stageOf({ namespace, stage }: RuleDefinition, rights: RuleRights | null): Stage {
  if (rights !== null && !rights.tenancy.isPlatform(namespace)) return 1;
  return stage === 'Final' ? 2 : 0;
}
