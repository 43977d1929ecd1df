import { isDeepStrictEqual } from 'node:util';
import { isSameOutcome, type ResourceOutcome } from '../../kinds/outcome.ts';
import { type KindProgram, type ResourceKind, type RoutingDraft, rejectionBy } from '../../kinds/resourceKind.ts';
import { unreadServices } from '../../kinds/serviceLookup.ts';
import { areAlike } from '../../model/record.ts';
import type { ConditionDraft } from '../../model/resource.ts';
import { type Kind, keyTextOf, type Resource, registryNameOf } from '../../model/resource.ts';
import { type AdmissionPolicy, noPolicy } from '../../routing/admissionPolicy.ts';
import type { RoutableCluster } from '../../routing/routingTable.ts';
import type { CompiledRules } from '../../rules/ruleCompiler.ts';
import { openTenancy } from '../../rules/tenancy.ts';
import type { BackendRow, StoredResource } from '../../store/store.ts';
import { resourceOfStored } from '../sources/source.ts';
import type { ControllerContext } from './controller.ts';

export type ResourceLists = ReadonlyMap<Kind, readonly Resource[]>;

/**
 * Works out from all resources what is routed, and hands it to the routing table. Synchronous and without I/O: the
 * table follows the source immediately, whatever the database does.
 */
export class RoutingState {
  readonly #options: ControllerContext;
  readonly #programs: readonly { readonly kind: ResourceKind; readonly program: KindProgram }[];
  /** By `keyText`. A change of one resource changes one entry: there may be thousands. */
  readonly outcomes = new Map<string, ResourceOutcome>();
  readonly #lists = new Map<Kind, readonly ResourceOutcome[]>();
  compiled: CompiledRules | null = null;
  tenancy = openTenancy;
  #clusters: readonly RoutableCluster[] = [];
  #admission: AdmissionPolicy = noPolicy;
  /** Rows of Trino Gateway, which no resource has adopted. Take effect with the next refresh. */
  rows: readonly BackendRow[] = [];

  constructor(options: ControllerContext) {
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
    const draft: RoutingDraft = {
      ...{ rows: this.rows, resources, tenancy: openTenancy },
      ...{ clusters: [], admission: noPolicy, rules: null },
    };
    const changed: string[] = [];
    for (const { kind, program } of this.#programs) {
      const ofKind = resources.get(kind.kind) ?? [];
      if (!kind.worksWithoutResources && ofKind.length + this.of(kind.kind).length === 0) continue;
      this.#take(kind.kind, program.refresh(ofKind, draft), changed);
    }
    this.tenancy = draft.tenancy;
    const { clusters, admission, rules } = draft;
    const rulesChanged = rules !== null && this.compiled?.ruleSet !== rules.ruleSet;
    const clustersChanged = !areAlike(this.#clusters, clusters, isDeepStrictEqual);
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
    return changed;
  }

  /** The reason that a resource would not be accepted if it were declared now; undefined: none is known. Changes nothing. */
  rejection(resource: Resource): ConditionDraft | undefined {
    const { kinds, source, services, rules } = this.#options;
    const kind = kinds.of(resource.kind);
    const [key, name] = [keyTextOf(resource), registryNameOf(resource)];
    const isOther = (each: Resource) =>
      keyTextOf(each) !== key && (!kind.hasUniqueNames || registryNameOf(each) === name);
    const program = kind.program({
      ...this.#options,
      ...{ services: unreadServices(services), rules: { compiler: rules.compiler.fresh(), file: null } },
    });
    const draft: RoutingDraft = {
      ...{ rows: [], resources: new Map(), tenancy: this.tenancy },
      ...{ clusters: this.#clusters, admission: this.#admission, rules: null },
    };
    const outcome = program.refresh([...source.list(kind.kind).filter(isOther), resource], draft).get(key);
    return outcome === undefined ? undefined : rejectionBy(kind, outcome);
  }

  /** Outcomes of a kind: the same list while they are the same objects. */
  of(kind: Kind): readonly ResourceOutcome[] {
    return this.#lists.get(kind) ?? [];
  }

  /** Takes over the outcomes of a kind. @param changed gets the keys of those that changed, came or went */
  #take(kind: Kind, outcomes: ReadonlyMap<string, ResourceOutcome>, changed: string[]): void {
    const list = [...outcomes.values()];
    const before = this.of(kind);
    if (areAlike(list, before)) return;
    this.#lists.set(kind, list);
    let added = 0;
    for (const [key, outcome] of outcomes) {
      const last = this.outcomes.get(key);
      if (last === outcome) continue;
      this.outcomes.set(key, outcome);
      if (last === undefined) added += 1;
      if (last === undefined || !isSameOutcome(last, outcome)) changed.push(key);
    }
    if (before.length + added === outcomes.size) return;
    for (const { resource } of before) {
      const key = keyTextOf(resource);
      if (outcomes.has(key) || !this.outcomes.delete(key)) continue;
      this.#options.findings.forget(key);
      changed.push(key);
    }
  }
}

/** True if two policies hold the same; programs give the same objects for what did not change. */
function samePolicy(a: AdmissionPolicy, b: AdmissionPolicy): boolean {
  if (!areAlike(a.limits, b.limits) || a.groups.size !== b.groups.size) return false;
  return a.groups.entries().every(([name, group]) => b.groups.get(name) === group);
}
