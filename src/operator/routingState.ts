import { isDeepStrictEqual } from 'node:util';
import { type ClusterOutcome, clusterOutcomes, rowCluster } from '../kinds/engineCluster/clusterOutcome.ts';
import { type ClusterPolicy, openPolicy } from '../kinds/engineCluster/clusterPolicy.ts';
import type { ServiceLookup } from '../kinds/engineCluster/dereference.ts';
import { isSameOutcome, type ResourceOutcome } from '../kinds/outcome.ts';
import { isPaused } from '../kinds/paused.ts';
import { routeRights } from '../kinds/routingRule/routeRights.ts';
import { type RuleOutcome, type RuleTargets, ruleOutcomes } from '../kinds/routingRule/ruleOutcome.ts';
import type { RoutingRule } from '../kinds/routingRule/spec.ts';
import type { Resource } from '../model/resource.ts';
import type { RoutableCluster } from '../routing/routingTable.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import type { RouteRights } from '../rules/routeRights.ts';
import type { CompiledRules, RuleCompiler, RulesFile } from '../rules/ruleCompiler.ts';
import type { BackendRow, StoredResource } from '../store/store.ts';
import { resourceOfStored } from './storedResource.ts';

/** Options of a routing state. */
export interface RoutingStateOptions {
  readonly table: RoutingTableHolder;
  readonly compiler: RuleCompiler;
  /** The rules file as it was last read; null when none is configured. */
  readonly rulesFile: () => RulesFile | null;
  readonly services: ServiceLookup;
  readonly allowedServiceNamespaces: () => readonly string[];
  readonly defaultRoutingGroup: () => string;
  /** Left out: the open policy. */
  readonly policy?: () => ClusterPolicy;
}

/** Resources of both kinds. */
export interface ResourceLists {
  readonly clusters: readonly Resource[];
  readonly rules: readonly Resource[];
}

/**
 * Works out from all resources what is routed, and hands it to the routing table. Synchronous and without I/O: the
 * table follows the source at once, whatever the database does.
 */
export class RoutingState {
  readonly #options: RoutingStateOptions;
  /** What was routed last, by uid. */
  readonly #lastGood = new Map<string, RoutableCluster>();
  /** Rules as they were before they were paused. */
  readonly #ruleVersions = new Map<string, Resource>();
  #outcomes: ReadonlyMap<string, ResourceOutcome> = new Map();
  #compiled: CompiledRules | null = null;
  #lastCompile: {
    readonly rules: readonly Resource[];
    readonly file: RulesFile | null;
    readonly rights: string | null;
  } | null = null;
  #ruleOutcomes: ReadonlyMap<string, RuleOutcome> = new Map();
  #targets: RuleTargets | null = null;
  #rules: readonly Resource[] = [];
  #clusters: readonly RoutableCluster[] = [];
  #rows: readonly BackendRow[] = [];

  constructor(options: RoutingStateOptions) {
    this.#options = options;
  }

  /** By `keyText`. */
  get outcomes(): ReadonlyMap<string, ResourceOutcome> {
    return this.#outcomes;
  }

  get compiled(): CompiledRules | null {
    return this.#compiled;
  }

  /** Rows of a gateway that ran before, which no resource has adopted. Takes effect with the next refresh. */
  setRows(rows: readonly BackendRow[]): void {
    this.#rows = rows;
  }

  /** Forgets the row of a cluster that was deleted. Takes effect with the next refresh. */
  dropRow(name: string): void {
    this.#rows = this.#rows.filter((row) => row.name !== name);
  }

  /**
   * Takes from the database's projection what was routed before a restart, for resources that are not valid or are
   * paused now.
   */
  restore(stored: readonly StoredResource[], rows: readonly BackendRow[]): void {
    const byName = new Map(rows.map((row) => [row.name, row]));
    for (const resource of stored) {
      const row = resource.kind === 'EngineCluster' ? byName.get(resource.registryName) : undefined;
      if (row !== undefined && !this.#lastGood.has(resource.uid)) {
        this.#lastGood.set(resource.uid, { ...rowCluster(row), origin: 'resource', uid: resource.uid });
      }
      if (resource.kind === 'RoutingRule') this.#ruleVersions.set(resource.uid, resourceOfStored(resource));
    }
  }

  /**
   * Makes the table say what the resources say.
   * @returns keys whose outcome changed, came or went
   */
  refresh(resources: ResourceLists): readonly string[] {
    const { table, services, allowedServiceNamespaces, defaultRoutingGroup } = this.#options;
    const policy = this.#options.policy?.() ?? openPolicy;
    const clusters = clusterOutcomes(resources.clusters, {
      services,
      allowedServiceNamespaces: allowedServiceNamespaces(),
      policy,
      lastGood: this.#lastGood,
    });
    this.#remember(clusters);
    const routable = this.#withRows(clusters);
    const rules = resources.rules.filter((rule) => rule.metadata.deletionTimestamp === undefined);
    const compiled = this.#compile(
      rules.map((rule) => this.#ruleInForce(rule)),
      routeRights(policy.groups, routable),
    );
    const ruleUids = new Set(rules.map((rule) => rule.metadata.uid));
    for (const uid of this.#ruleVersions.keys()) if (!ruleUids.has(uid)) this.#ruleVersions.delete(uid);
    const targets = {
      groups: new Set([defaultRoutingGroup(), ...routable.map((cluster) => cluster.routingGroup)]),
      clusters: new Set(routable.map((cluster) => cluster.name)),
    };
    const unchanged = compiled === this.#compiled && isDeepStrictEqual(targets, this.#targets);
    if (!unchanged || !sameElements(rules, this.#rules))
      this.#ruleOutcomes = ruleOutcomes(rules, compiled, targets, this.#ruleOutcomes);
    this.#targets = targets;
    this.#rules = rules;
    const before = this.#outcomes;
    this.#outcomes = new Map<string, ResourceOutcome>([...clusters, ...this.#ruleOutcomes]);
    const rulesChanged = this.#compiled?.ruleSet !== compiled.ruleSet;
    const clustersChanged = !sameClusters(this.#clusters, routable);
    this.#compiled = compiled;
    this.#clusters = routable;
    if (rulesChanged || clustersChanged) {
      table.setInputs({
        ...(clustersChanged ? { clusters: routable } : {}),
        ...(rulesChanged ? { rules: compiled.ruleSet } : {}),
      });
    }
    return changedKeys(before, this.#outcomes);
  }

  /** Thousands of rules take a while to compile: only when one of them, the file, or a right is another than last time. */
  #compile(rules: readonly Resource[], rights: RouteRights | null): CompiledRules {
    const { compiler, rulesFile } = this.#options;
    const file = rulesFile();
    const last = this.#lastCompile;
    const version = rights?.version ?? null;
    const same =
      last !== null && last.rights === version && sameRules(last.rules, rules) && isDeepStrictEqual(last.file, file);
    if (same && this.#compiled !== null) return this.#compiled;
    this.#lastCompile = { rules, file, rights: version };
    return compiler.compile(rules as readonly RoutingRule[], file, rights);
  }

  /** Has the next refresh compile whatever changed or not: a setting that rules depend on did. */
  recompile(): void {
    this.#lastCompile = null;
  }

  #remember(outcomes: ReadonlyMap<string, ClusterOutcome>): void {
    const live = new Set<string>();
    for (const { resource, routable } of outcomes.values()) {
      live.add(resource.metadata.uid);
      if (routable !== null) this.#lastGood.set(resource.metadata.uid, routable);
    }
    for (const uid of this.#lastGood.keys()) if (!live.has(uid)) this.#lastGood.delete(uid);
  }

  #withRows(outcomes: ReadonlyMap<string, ClusterOutcome>): readonly RoutableCluster[] {
    const routable = outcomes
      .values()
      .map((outcome) => outcome.routable)
      .filter((cluster) => cluster !== null)
      .toArray();
    const claimed = new Set(outcomes.values().map((outcome) => outcome.registryName));
    return [...routable, ...this.#rows.filter((row) => !claimed.has(row.name)).map(rowCluster)];
  }

  #ruleInForce(rule: Resource): Resource {
    const { uid } = rule.metadata;
    const held = this.#ruleVersions.get(uid);
    if (isPaused(rule) && held !== undefined) return held;
    this.#ruleVersions.set(uid, rule);
    return rule;
  }
}

function sameElements(a: readonly Resource[], b: readonly Resource[]): boolean {
  return a.length === b.length && a.every((element, index) => element === b[index]);
}

/** Whether rules say the same: a resource whose status was written is another object with the same spec and metadata. */
function sameRules(a: readonly Resource[], b: readonly Resource[]): boolean {
  const same = (one: Resource, other: Resource | undefined) =>
    one === other || (one.spec === other?.spec && one.metadata === other.metadata);
  return a.length === b.length && a.every((rule, index) => same(rule, b[index]));
}

function sameClusters(a: readonly RoutableCluster[], b: readonly RoutableCluster[]): boolean {
  return a.length === b.length && a.every((each, index) => each === b[index] || isDeepStrictEqual(each, b[index]));
}

function changedKeys(
  before: ReadonlyMap<string, ResourceOutcome>,
  after: ReadonlyMap<string, ResourceOutcome>,
): readonly string[] {
  const changed = [...before.keys()].filter((key) => !after.has(key));
  for (const [key, outcome] of after) {
    const last = before.get(key);
    if (last === undefined || !isSameOutcome(last, outcome)) changed.push(key);
  }
  return changed;
}
