import type { Kind, Resource } from '../model/resource.ts';
import type { AdmissionPolicy } from '../routing/admissionPolicy.ts';
import type { RoutableCluster } from '../routing/routingTable.ts';
import type { CompiledRules, RuleCompiler, RulesFile } from '../rules/ruleCompiler.ts';
import type { Tenancy } from '../rules/tenancy.ts';
import type { BackendRow } from '../store/store.ts';
import type { ClusterPolicy } from './engineCluster/clusterPolicy.ts';
import type { ResourceOutcome, State } from './outcome.ts';
import type { ServiceLookup } from './serviceLookup.ts';

/** Inputs of outcomes in addition to the resources. */
export interface ProgramSettings {
  readonly compiler: RuleCompiler;
  /** The rules file as it was last read; null when none is configured. */
  readonly rulesFile: () => RulesFile | null;
  readonly services: ServiceLookup;
  readonly allowedServiceNamespaces: readonly string[];
  readonly defaultRoutingGroup: string;
  readonly policy: ClusterPolicy;
  /** Absent: every namespace is the platform's, also with tenants. */
  readonly platform?: Platform | undefined;
  /** Results of discoveries; absent without Kubernetes. */
  readonly discoveries?: DiscoveryReports | undefined;
  /** Name of the gateway's own database on its server; left out, it is not known. */
  readonly ownDatabase?: string | null;
}

/** Namespace of the platform, which operates the gateway (docs/resources.md#tenants). */
export interface Platform {
  readonly namespace: string;
  /** True if resources of several namespaces are read, so that others need a tenant. */
  readonly areSeveral: boolean;
}

/** The routing table while the kinds build it one after the other: each may read what those before it added. */
export interface RoutingDraft {
  /** Rows of Trino Gateway, which no resource has adopted. */
  readonly rows: readonly BackendRow[];
  /** All resources. */
  readonly resources: ReadonlyMap<Kind, readonly Resource[]>;
  tenancy: Tenancy;
  clusters: readonly RoutableCluster[];
  admission: AdmissionPolicy;
  /** Null until a kind has compiled them. */
  rules: CompiledRules | null;
}

/** Works out what the resources of a kind mean, and remembers what it needs for that. Synchronous and without I/O. */
export interface KindProgram {
  /**
   * Takes over what was active before a restart, for resources that are not valid or are suspended now.
   * @param resources the database's copy of the kind's resources
   * @param rows every row of `gateway_backend`
   */
  restore(resources: readonly Resource[], rows: readonly BackendRow[]): void;
  /**
   * Works the outcomes out and adds to the draft what they mean for routing. Outcomes that did not change stay the same
   * objects where that is known cheaply: there may be thousands.
   * @param resources all of the kind
   * @returns by `keyText`
   */
  refresh(resources: readonly Resource[], draft: RoutingDraft): ReadonlyMap<string, ResourceOutcome>;
}

/** Result of a discovery's last scan at its replica. */
export interface DiscoveryReport {
  /** Fields of the status. */
  readonly counts: Readonly<Record<'services' | 'clusters' | 'conflicts', number>>;
  /** Condition `ResolvedRefs`: its namespaces may be looked at, and their Services can be read. */
  readonly references: State;
  readonly discovered: State;
}

export interface DiscoveryReports {
  /** Null: it has not been looked at yet. @param uid of the discovery */
  report(uid: string): DiscoveryReport | null;
}
