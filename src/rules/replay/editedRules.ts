import type { RuleDefinition } from '../compile/definition.ts';
import type { RuleDraft } from '../compile/ruleDraft.ts';
import type { RuleLimits } from '../ruleCompiler.ts';

/** A change of one rule that is not made yet. */
export interface RuleEdit {
  readonly name: string;
  /** The rule as it would be; null: it would be deleted. */
  readonly rule: RuleDraft | null;
}

/** Rules in force and the same after some edits, in a form that can be sent to another thread. */
export interface EditedRules {
  /** Each rule of either once. */
  readonly definitions: readonly RuleDefinition[];
  /** Positions of the rules in force, in the order in which they are asked; null: there are no rules, the header decides. */
  readonly before: readonly number[] | null;
  readonly after: readonly number[] | null;
  readonly settings: EditedRulesSettings;
}

/** How both are asked. */
export interface EditedRulesSettings {
  readonly onRuleError: 'skip' | 'reject';
  readonly limits: RuleLimits;
  /** The rules file did not load. */
  readonly fileFailed: boolean;
  readonly isExternal: boolean;
  /** `RouteRights.version`; null: rules may route everywhere. */
  readonly rights: string | null;
}
