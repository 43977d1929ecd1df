import type { RoutingRule } from '../kinds/routingRule/spec.ts';
import type { PlacedProblem } from '../model/errors.ts';
import type { ProductNames } from '../model/names.ts';
import type { RuleDraft } from './compile/ruleDraft.ts';
import type { RuleSet } from './decision.ts';
import type { Sources } from './evaluation.ts';
import type { EditedRules, RuleEdit } from './replay/recordedRequest.ts';
import type { RuleRights } from './tenancy.ts';

export interface RulesFile {
  readonly path: string;
  /** Its text; null if it is missing or cannot be read. */
  readonly text: string | null;
  /** Read error for messages; only with `text: null`. */
  readonly error?: string;
  /**
   * Priority of rules without one (`routingRules.defaultPriority`); default: 2147483647. If set, missing priorities
   * cause no warnings.
   */
  readonly defaultPriority?: number | undefined;
}

/**
 * Effect of a mistake in the rules file: no rule of the file is active, only its rule is left out, or none, as the rule
 * runs but perhaps not as intended (docs/rules.md#rules-that-cannot-run).
 */
export type ProblemEffect = 'fileNotLoaded' | 'ruleLeftOut' | 'warning';

export interface RulesFileProblem {
  readonly effect: ProblemEffect;
  readonly path: string;
  /** Document of the file, counted from 1; null for a mistake outside of documents. */
  readonly document: number | null;
  /** Line and column of the file, counted from 1. */
  readonly line: number;
  readonly column: number;
  readonly rule: string | null;
  readonly message: string;
}

/** Status of one RoutingRule resource: the text of its conditions `Accepted` and `Programmed`. */
export interface RuleReport {
  /** Name of the rule: `spec.name`, or `metadata.name`. */
  readonly rule: string;
  /** False: the current version of the rule is not used. */
  readonly accepted: boolean;
  readonly acceptedReason: string;
  /** Sentence for users; for a compile error with field, line and column. */
  readonly message: string;
  /** Active version: `previous` is the last one that compiled, `none` nothing. */
  readonly inForce: 'current' | 'previous' | 'none';
  readonly programmed: boolean;
  readonly programmedReason:
    | 'Programmed'
    | 'PreviousVersion'
    | 'NotAccepted'
    | 'Suspended'
    | 'RulesEngineDisabled'
    | 'ExternalRules';
  readonly programmedMessage: string;
}

/** All current rules, compiled: swapped into the routing table as a whole. */
export interface CompiledRules {
  /** Null: no rules engine, the header decides (`RoutingInputs.rules`). */
  readonly ruleSet: RuleSet | null;
  /**
   * One report per resource, by `keyText(keyOf(resource))`. The same map as before: reports of resources that did not change are the same.
   */
  readonly reports: ReadonlyMap<string, RuleReport>;
  /**
   * Mistakes of the rules file that deactivate all of its rules (or keep the last good ones: `onFileError`), or one of
   * them.
   */
  readonly fileProblems: readonly RulesFileProblem[];
  /** Code of the rules file that may behave differently than intended. */
  readonly fileWarnings: readonly RulesFileProblem[];
  /** State of the file's active rules, compared with its current text. */
  readonly fileState: 'absent' | 'loaded' | 'failed' | 'keptLast';
  /** Rules in firing order. */
  readonly order: readonly { readonly rule: string; readonly origin: 'file' | 'resource'; readonly priority: number }[];
  /** Warnings of active rules, with positions in their texts; by `origin/name`. */
  readonly ruleWarnings: ReadonlyMap<string, readonly PlacedProblem[]>;
  /** Routing groups that actions of active rules name by a literal; by `origin/name`, without empty entries. */
  readonly namedGroups: ReadonlyMap<string, readonly string[]>;
}

/** A failure of a rule at evaluation; at most one per rule and interval is reported. */
export interface RuleFailure {
  readonly rule: string;
  readonly origin: 'file' | 'resource';
  /** Error text with field, line and column. */
  readonly message: string;
  /** Failures of this rule since the last report, including this one. */
  readonly count: number;
}

/** The active rules with a draft, or the draft's compile errors. */
export type TriedRule = { readonly ruleSet: RuleSet } | { readonly problems: readonly PlacedProblem[] };

export interface EditProblem extends PlacedProblem {
  /** Position of the edit, from 0. */
  readonly edit: number;
}

/** Budgets of one request's evaluation: a rule that exceeds one fails. */
export interface RuleLimits {
  /** Maximum number of steps (calls, loop rounds, elements) of all rules of a request. */
  readonly steps: number;
  /** Maximum length of a string in UTF-16 units. */
  readonly stringLength: number;
  readonly elements: number;
  /** Maximum total of UTF-16 units of strings plus elements that the rules of a request create. */
  readonly memory: number;
  /** Maximum processor time of all rules of a request in milliseconds. */
  readonly time: number;
}

/** Settings of the rules engine (`routingRules`, docs/rules.md). */
export interface RuleSettings {
  readonly names: ProductNames;
  /** Undefined: enabled if there is a rules file or a RoutingRule. */
  readonly rulesEngineEnabled: boolean | undefined;
  readonly rulesType: 'FILE' | 'EXTERNAL';
  readonly analyzeRequest: boolean;
  /** True enables warnings about differences from Trino Gateway (default). */
  readonly differenceWarnings?: boolean;
  readonly onRuleError: 'skip' | 'reject';
  readonly onFileError: 'header' | 'keepLast';
  /** Defaults: see `defaultRuleLimits` in limits.ts. */
  readonly limits?: Partial<RuleLimits>;
}

/** Listeners of a compiler and of its rule sets. */
export interface RuleListeners {
  /** Called for every failure. Must not throw. */
  readonly countFailure?: (rule: string, origin: RuleFailure['origin']) => void;
  /** Called at most once per rule and `failureIntervalMs` (default: 10 s). Must not throw. */
  readonly onRuleFailure?: (failure: RuleFailure) => void;
  /** Called for each query that several tenants would decide. Must not throw. */
  readonly onTenantConflict?: (tenants: readonly string[]) => void;
  /** Called once for each version of a resource's rules with warnings. Must not throw. */
  readonly onRuleWarnings?: (
    rules: readonly { readonly rule: string; readonly warnings: readonly PlacedProblem[] }[],
  ) => void;
  readonly failureIntervalMs?: number;
  /** Monotonic milliseconds, for that interval. */
  readonly monotonic: () => number;
}

export interface RuleCompilerOptions extends RuleSettings, RuleListeners {
  /** Clocks and random numbers of the rules; default: of the machine. */
  readonly sources?: Sources;
}

/**
 * Compiles rules of resources and of the rules file into one rule set. Caches the last compilations, so that an invalid
 * resource keeps its last good version, and unchanged rules are not compiled again.
 */
export interface RuleCompiler {
  /**
   * @param resources all RoutingRules, including invalid ones; order does not matter
   * @param file the latest rules file; null if not configured
   * @param rights rights of rules by namespace; null or absent: unrestricted
   */
  compile(resources: readonly RoutingRule[], file: RulesFile | null, rights?: RuleRights | null): CompiledRules;
  /**
   * Compiles a rules file in multiple turns of the event loop, for the next `compile` with it; does not change active
   * rules.
   * @returns its mistakes and warnings
   */
  prepareFile(file: RulesFile): Promise<readonly RulesFileProblem[]>;
  /**
   * Returns a rule set of the active rules with one more: replaces the rule with its name, or is added. Stores nothing,
   * and does not report failures.
   * @returns null if rules are disabled (`rulesEngineEnabled: false`); mistakes with positions in the draft's texts
   */
  tryRule(draft: RuleDraft): TriedRule | null;
  /**
   * Returns the active rules before and after some edits, for a replay; stores nothing. An edited rule is replaced,
   * added or removed, as in `tryRule`.
   * @returns null if rules are disabled; mistakes with the index of the edit and positions in its texts
   */
  edited(edits: readonly RuleEdit[]): EditedRules | { readonly problems: readonly EditProblem[] } | null;
  /** Returns a compiler with the same settings that remembers no rules. */
  fresh(): RuleCompiler;
}
