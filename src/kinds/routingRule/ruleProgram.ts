import { isDeepStrictEqual } from 'node:util';
import { keyTextOf, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import { notInForce } from '../../rules/compiler.ts';
import { type RouteRights, routeRights } from '../../rules/routeRights.ts';
import type { CompiledRules, RulesFile } from '../../rules/ruleCompiler.ts';
import type { ClusterPolicy } from '../engineCluster/clusterPolicy.ts';
import type { KindProgram, ProgramSettings, RoutingDraft } from '../kindProgram.ts';
import { liveOf } from '../outcome.ts';
import { type RuleOutcome, type RuleTargets, ruleOutcomes, ruleTargets } from './ruleOutcome.ts';
import type { RoutingRule } from './spec.ts';

/** Compiles the rules of resources together with those of the rules file. */
export class RuleProgram implements KindProgram {
  readonly #settings: ProgramSettings;
  #compiled: CompiledRules | null = null;
  #lastCompile: {
    readonly rules: readonly Resource[];
    readonly file: RulesFile | null;
    readonly rights: string | null;
  } | null = null;
  #outcomes: ReadonlyMap<string, RuleOutcome> = new Map();
  #targets: RuleTargets | null = null;
  #rules: readonly Resource[] = [];

  constructor(settings: ProgramSettings) {
    this.#settings = settings;
  }

  restore(): void {
    // The compiler remembers the last versions that compiled.
  }

  refresh(resources: readonly Resource[], draft: RoutingDraft): ReadonlyMap<string, RuleOutcome> {
    const { defaultRoutingGroup, policy } = this.#settings;
    const { groups, trust } = policy;
    const rules = liveOf(resources);
    const compiled = this.#compile(rules, routeRights(groups, draft.clusters, defaultRoutingGroup), trust);
    const targets = ruleTargets(draft.clusters, draft.admission, defaultRoutingGroup);
    const isRetargeted = !isDeepStrictEqual(targets, this.#targets);
    if (isRetargeted || compiled !== this.#compiled || !sameElements(rules, this.#rules)) {
      this.#outcomes = ruleOutcomes(rules, compiled, targets, this.#outcomes, isRetargeted);
    }
    this.#targets = targets;
    this.#rules = rules;
    this.#compiled = compiled;
    draft.rules = compiled;
    return this.#outcomes;
  }

  /** Thousands of rules take a while to compile: only when one of them, the file, or a right is another than last time. */
  #compile(rules: readonly Resource[], rights: RouteRights | null, trust: ClusterPolicy['trust']): CompiledRules {
    const { compiler, rulesFile } = this.#settings;
    const file = rulesFile();
    const last = this.#lastCompile;
    const version = rights?.version ?? null;
    const same =
      last !== null && last.rights === version && sameRules(last.rules, rules) && isDeepStrictEqual(last.file, file);
    if (same && this.#compiled !== null) return this.#compiled;
    this.#lastCompile = { rules, file, rights: version };
    const refusalOf = ({ metadata }: Resource): string | null => trust?.rejection(metadata.namespace) ?? null;
    const trusted: readonly Resource[] = rules.filter((rule) => refusalOf(rule) === null);
    const compiled = compiler.compile(trusted as readonly RoutingRule[], file, rights);
    const reports = new Map(compiled.reports);
    for (const rule of rules) {
      const refusal = refusalOf(rule);
      if (refusal === null) continue;
      reports.set(keyTextOf(rule), notInForce(registryNameOf(rule), 'NamespaceNotTrusted', refusal));
    }
    return { ...compiled, reports };
  }
}

function sameElements(a: readonly Resource[], b: readonly Resource[]): boolean {
  return a.length === b.length && a.every((element, index) => element === b[index]);
}

/**
 * True if rules say the same: a resource whose status was written is another object with the same spec and metadata.
 */
function sameRules(a: readonly Resource[], b: readonly Resource[]): boolean {
  const same = (one: Resource, other: Resource | undefined) =>
    one === other || (one.spec === other?.spec && one.metadata === other.metadata);
  return a.length === b.length && a.every((rule, index) => same(rule, b[index]));
}
