import type { RoutingRule } from '../kinds/routingRule/spec.ts';
import type { PlacedProblem } from '../model/errors.ts';
import type { ProductNames } from '../model/names.ts';
import type { RuleDraft } from './compile/ruleDraft.ts';
import type { RuleSet } from './decision.ts';
import type { Sources } from './evaluation.ts';
import type { EditedRules, RuleEdit } from './replay/editedRules.ts';
import type { RouteRights } from './routeRights.ts';

/** The rules file as it was last read. */
export interface RulesFile {
  /** Path for messages. */
  readonly path: string;
  /** Its text; null when it is missing or cannot be read. */
  readonly text: string | null;
  /** Why it cannot be read, for messages; only with `text: null`. */
  readonly error?: string;
  /**
   * Priority of its rules that have none (`routingRules.defaultPriority`); 2147483647 by default. Where it is given, nothing
   * is said of rules that have none.
   */
  readonly defaultPriority?: number | undefined;
}

/**
 * What a mistake of the rules file does: no rule of the file is in force, its rule alone is left out, or nothing, as the
 * rule runs but perhaps not as it was meant (docs/rules.md#rules-that-cannot-run).
 */
export type ProblemEffect = 'fileNotLoaded' | 'ruleLeftOut' | 'warning';

/** A mistake in the rules file, with its place. */
export interface RulesFileProblem {
  readonly effect: ProblemEffect;
  readonly path: string;
  /** Document of the file, counted from 1; null when the mistake is not within one. */
  readonly document: number | null;
  /** Line and column of the file, counted from 1. */
  readonly line: number;
  readonly column: number;
  /** Name of the rule, where it is known. */
  readonly rule: string | null;
  readonly message: string;
}

/** What became of one RoutingRule resource: the text of its conditions `Accepted` and `Programmed`. */
export interface RuleReport {
  /** Name of the rule: `spec.name`, or `metadata.name`. */
  readonly rule: string;
  /** False: the rule as it is now is not used. */
  readonly accepted: boolean;
  /** CamelCase reason of `Accepted`. */
  readonly acceptedReason:
    | 'Accepted'
    | 'InvalidSpec'
    | 'CompileError'
    | 'AnalysisDisabled'
    | 'NameConflict'
    | 'GroupNotAllowed'
    | 'NamespaceNotTrusted';
  /** Sentence for people; for a compile error with field, line and column. */
  readonly message: string;
  /** Version that decides requests: `previous` is the last one that compiled, `none` nothing. */
  readonly inForce: 'current' | 'previous' | 'none';
  /** Whether it takes part in decisions. */
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

/** All rules of the moment, compiled: swapped into the routing table whole. */
export interface CompiledRules {
  /** Null: no rules engine, the header decides (`RoutingInputs.rules`). */
  readonly ruleSet: RuleSet | null;
  /** One report a resource, by `keyText(keyOf(resource))`. */
  readonly reports: ReadonlyMap<string, RuleReport>;
  /**
   * Mistakes of the rules file that keep all of its rules out of force (or the last good ones in force: `onFileError`), or
   * one of them.
   */
  readonly fileProblems: readonly RulesFileProblem[];
  /** What in the rules file may not be meant as it runs. */
  readonly fileWarnings: readonly RulesFileProblem[];
  /** Whether the file's rules in force are those of its current text. */
  readonly fileState: 'absent' | 'loaded' | 'failed' | 'keptLast';
  /** Rules in the order in which they are asked. */
  readonly order: readonly { readonly rule: string; readonly origin: 'file' | 'resource'; readonly priority: number }[];
  /** What of rules in force may not be meant as it runs, with places in their texts; by `origin/name`. */
  readonly ruleWarnings: ReadonlyMap<string, readonly PlacedProblem[]>;
  /** Routing groups that actions of rules in force name by a literal; by `origin/name`, rules without any left out. */
  readonly namedGroups: ReadonlyMap<string, readonly string[]>;
}

/** A failure of a rule at evaluation; at most one a rule and interval is reported. */
export interface RuleFailure {
  readonly rule: string;
  readonly origin: 'file' | 'resource';
  /** Error text with field, line and column. */
  readonly message: string;
  /** Failures of this rule since the last report, this one included. */
  readonly count: number;
}

/** The rules in force with a draft among them, or why the draft does not compile. */
export type TriedRule = { readonly ruleSet: RuleSet } | { readonly problems: readonly PlacedProblem[] };

/** A mistake in one of several edits. */
export interface EditProblem extends PlacedProblem {
  /** Position of the edit, from 0. */
  readonly edit: number;
}

/** Budgets of one request's evaluation: a rule that exceeds one fails. */
export interface RuleLimits {
  /** Steps (calls, loop rounds, elements) that all rules of a request may take together. */
  readonly steps: number;
  /** Longest string in UTF-16 units. */
  readonly stringLength: number;
  /** Most elements of one list, set, map or array. */
  readonly elements: number;
  /** UTF-16 units of strings plus elements that all rules of a request may make together. */
  readonly memory: number;
  /** Milliseconds of processor time that all rules of a request may take together. */
  readonly time: number;
}

/** Settings of the rules engine that may change while it runs. */
export type LiveRuleSettings = Pick<RuleCompilerOptions, 'onRuleError' | 'onFileError' | 'limits'>;

/** Settings of the rules engine (`routingRules`, docs/rules.md). */
export interface RuleCompilerOptions {
  readonly names: ProductNames;
  /** Undefined: on as soon as there is a rules file or a RoutingRule. */
  readonly rulesEngineEnabled: boolean | undefined;
  readonly rulesType: 'FILE' | 'EXTERNAL';
  readonly analyzeRequest: boolean;
  /** Whether to warn of what means something else in the reference gateway; true by default. */
  readonly differenceWarnings?: boolean;
  readonly onRuleError: 'skip' | 'reject';
  readonly onFileError: 'header' | 'keepLast';
  /** Defaults: see `defaultRuleLimits` in limits.ts. */
  readonly limits?: Partial<RuleLimits>;
  /** Settings that may change while running, as they are at the next `compile`; in place of those above. */
  readonly live?: () => LiveRuleSettings;
  /** Called for every failure, for counting. Must not throw. */
  readonly countFailure?: (rule: string, origin: RuleFailure['origin']) => void;
  /** Called at most once a rule and `failureIntervalMs` (10 s by default). Must not throw. */
  readonly onRuleFailure?: (failure: RuleFailure) => void;
  /** Called once for each version of a resource's rules of which something is to be said. Must not throw. */
  readonly onRuleWarnings?: (
    rules: readonly { readonly rule: string; readonly warnings: readonly PlacedProblem[] }[],
  ) => void;
  readonly failureIntervalMs?: number;
  /** Monotonic milliseconds, for that interval. */
  readonly monotonic: () => number;
  /** Clocks and random numbers of the rules; those of the machine by default. */
  readonly sources?: Sources;
}

/**
 * Compiles rules of resources and of the rules file into one rule set. Holds what compiled last, so that a resource
 * that does not compile keeps its last good version in force, and so that unchanged rules are not compiled again.
 */
export interface RuleCompiler {
  /**
   * @param resources every RoutingRule there is, valid or not; order does not matter
   * @param file the rules file as last read; null when none is configured
   * @param rights where rules of a namespace may route to; null or left out: everywhere
   */
  compile(resources: readonly RoutingRule[], file: RulesFile | null, rights?: RouteRights | null): CompiledRules;
  /**
   * Compiles a rules file in turns of the event loop, for the next `compile` with it; changes nothing that is in force.
   * @returns its mistakes and warnings
   */
  prepareFile(file: RulesFile): Promise<readonly RulesFileProblem[]>;
  /**
   * A rule set of the rules in force with one more: in place of the rule of its name, or added. Nothing of it is kept,
   * and its failures are reported nowhere.
   * @returns null where rules are not asked at all (`rulesEngineEnabled: false`); mistakes with places in the draft's texts
   */
  tryRule(draft: RuleDraft): TriedRule | null;
  /**
   * The rules in force and the same after some edits, to be replayed; nothing of it is kept. A rule that is edited is replaced,
   * added or left out, as `tryRule` does.
   * @returns null where rules are not asked at all; mistakes with the position of the edit and places in its texts
   */
  edited(edits: readonly RuleEdit[]): EditedRules | { readonly problems: readonly EditProblem[] } | null;
}
