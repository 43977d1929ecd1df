import { isDeepStrictEqual } from 'node:util';
import type { KindProgram, RoutingDraft } from '../../kinds/kindProgram.ts';
import { isSameOutcome, type ResourceOutcome } from '../../kinds/outcome.ts';
import type { ResourceKind } from '../../kinds/resourceKind.ts';
import type { Kind, Resource } from '../../model/resource.ts';
import { type AdmissionPolicy, noPolicy } from '../../routing/admissionPolicy.ts';
import type { RoutableCluster } from '../../routing/routingTable.ts';
import type { CompiledRules } from '../../rules/ruleCompiler.ts';
import type { BackendRow, StoredResource } from '../../store/store.ts';
import { resourceOfStored } from '../sources/storedResource.ts';
import type { ControllerOptions } from './controller.ts';

export type ResourceLists = ReadonlyMap<Kind, readonly Resource[]>;

/**
 * Works out from all resources what is routed, and hands it to the routing table. Synchronous and without I/O: the
 * table follows the source immediately, whatever the database does.
 */
export class RoutingState {
  readonly #options: ControllerOptions;
  readonly #programs: readonly { readonly kind: ResourceKind; readonly program: KindProgram }[];
  /** By `keyText`. */
  outcomes: ReadonlyMap<string, ResourceOutcome> = new Map();
  compiled: CompiledRules | null = null;
  #clusters: readonly RoutableCluster[] = [];
  #admission: AdmissionPolicy = noPolicy;
  /** Rows of Trino Gateway, which no resource has adopted. Take effect with the next refresh. */
  rows: readonly BackendRow[] = [];

  constructor(options: ControllerOptions) {
    this.#options = options;
    this.#programs = options.kinds.all.map((kind) => ({ kind, program: kind.program(options) }));
  }

  /**
   * Takes from the database's copy what was routed before a restart, for resources that are not valid or are
   * suspended now.
   */
  restore(stored: readonly StoredResource[], rows: readonly BackendRow[]): void {
    const byKind = Map.groupBy(stored, ({ kind }) => kind);
    for (const { kind, program } of this.#programs) {
      program.restore((byKind.get(kind.kind) ?? []).map(resourceOfStored), rows);
    }
  }

  /**
   * Makes the table say what the resources say.
   * @returns keys whose outcome changed, came or went
   */
  refresh(resources: ResourceLists): readonly string[] {
    const draft: RoutingDraft = { rows: this.rows, clusters: [], admission: noPolicy, rules: null };
    const before = this.outcomes;
    const outcomes = new Map<string, ResourceOutcome>();
    for (const { kind, program } of this.#programs) {
      for (const [key, outcome] of program.refresh(resources.get(kind.kind) ?? [], draft)) outcomes.set(key, outcome);
    }
    this.outcomes = outcomes;
    const { clusters, admission, rules } = draft;
    const rulesChanged = rules !== null && this.compiled?.ruleSet !== rules.ruleSet;
    const clustersChanged = !sameClusters(this.#clusters, clusters);
    const admissionChanged = !samePolicy(this.#admission, admission);
    this.compiled = rules;
    this.#clusters = clusters;
    if (admissionChanged) this.#admission = admission;
    if (rulesChanged || clustersChanged || admissionChanged) {
      this.#options.table.setInputs({
        ...(clustersChanged ? { clusters } : {}),
        ...(rulesChanged ? { rules: rules.ruleSet } : {}),
        ...(admissionChanged ? { admission } : {}),
      });
    }
    return this.#changedKeys(before);
  }

  #changedKeys(before: ReadonlyMap<string, ResourceOutcome>): readonly string[] {
    const changed = [...before.keys()].filter((key) => !this.outcomes.has(key));
    for (const [key, outcome] of this.outcomes) {
      const last = before.get(key);
      if (last === outcome) continue;
      const isSame = last !== undefined && isSameOutcome(last, outcome);
      if (!isSame) changed.push(key);
    }
    return changed;
  }
}

function sameClusters(a: readonly RoutableCluster[], b: readonly RoutableCluster[]): boolean {
  return a.length === b.length && a.every((each, index) => each === b[index] || isDeepStrictEqual(each, b[index]));
}

/** True if two policies hold the same; programs give the same objects for what did not change. */
function samePolicy(a: AdmissionPolicy, b: AdmissionPolicy): boolean {
  const sameLimits = a.limits.length === b.limits.length && a.limits.every((limit, index) => limit === b.limits[index]);
  if (!sameLimits || a.groups.size !== b.groups.size) return false;
  return a.groups.entries().every(([name, group]) => b.groups.get(name) === group);
}
