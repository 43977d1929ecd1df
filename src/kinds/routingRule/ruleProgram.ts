import { isDeepStrictEqual } from 'node:util';
import { areAlike } from '../../model/record.ts';
import { keyTextOf, type Resource } from '../../model/resource.ts';
import type { CompiledRules } from '../../rules/ruleCompiler.ts';
import { type RuleRights, ruleRights } from '../../rules/tenancy.ts';
import type { KindProgram, ProgramSettings, RoutingDraft } from '../kindProgram.ts';
import { liveOf } from '../outcome.ts';
import { type RuleOutcome, type RuleTargets, ruleOutcome, ruleTargets } from './ruleOutcome.ts';
import type { RoutingRule } from './spec.ts';

/** Compiles the rules of resources together with those of the rules file. */
export class RuleProgram implements KindProgram {
  readonly #settings: ProgramSettings;
  #compiled: CompiledRules | null = null;
  #outcomes = new Map<string, RuleOutcome>();
  /** Version of the rights and rules file of the last compilation. */
  #inputs: readonly unknown[] = [];
  #targets: RuleTargets | null = null;
  #rules: readonly Resource[] = [];

  constructor(settings: ProgramSettings) {
    this.#settings = settings;
  }

  restore(): void {
    // The compiler remembers the last versions that compiled.
  }

  refresh(resources: readonly Resource[], draft: RoutingDraft): ReadonlyMap<string, RuleOutcome> {
    const { defaultRoutingGroup } = this.#settings;
    const rules = liveOf(resources);
    const compiled = this.#compile(rules, ruleRights(draft.tenancy, draft.clusters, defaultRoutingGroup));
    const targets = ruleTargets(draft.clusters, draft.admission, defaultRoutingGroup);
    const isRetargeted = !isDeepStrictEqual(targets, this.#targets);
    const isIncremental = compiled.reports === this.#compiled?.reports && !isRetargeted;
    const isInPlace = isIncremental && areAlike(rules, this.#rules, isSameResource);
    const before = this.#outcomes;
    if (!isInPlace) this.#outcomes = new Map();
    for (const rule of isInPlace ? rules.filter((each, index) => each !== this.#rules[index]) : rules) {
      const key = keyTextOf(rule);
      this.#outcomes.set(key, ruleOutcome(rule, compiled, targets, before.get(key), isRetargeted));
    }
    this.#targets = targets;
    this.#rules = rules;
    this.#compiled = compiled;
    draft.rules = compiled;
    return this.#outcomes;
  }

  /** Thousands of rules take a while to compile: only if one of them, the file, or a right is another than last time. */
  #compile(rules: readonly Resource[], rights: RuleRights | null): CompiledRules {
    const { compiler, rulesFile } = this.#settings;
    const file = rulesFile();
    const inputs = [rights?.version, file];
    const isSame = isDeepStrictEqual(inputs, this.#inputs) && areAlike(rules, this.#rules, isSameRule);
    if (isSame && this.#compiled !== null) return this.#compiled;
    this.#inputs = inputs;
    return compiler.compile(rules as readonly RoutingRule[], file, rights);
  }
}

const isSameResource = (a: Resource, b: Resource): boolean => a.metadata.uid === b.metadata.uid;
/** A resource with a new status is another object with the same spec and metadata. */
const isSameRule = (a: Resource, b: Resource): boolean => a.spec === b.spec && a.metadata === b.metadata;
