import type { RuleDefinition } from '../compile/definition.ts';
import type { RuleDraft } from '../compile/ruleDraft.ts';
import type { RuleLimits } from '../ruleCompiler.ts';

export interface RuleEdit {
  readonly name: string;
  /** The edited rule; null deletes it. */
  readonly rule: RuleDraft | null;
}

/** Active rules and edited rules, in a form that can be sent to another thread. */
export interface EditedRules {
  readonly definitions: readonly RuleDefinition[];
  /** Indexes of the active rules, in firing order; null: there are no rules, the header decides. */
  readonly before: readonly number[] | null;
  readonly after: readonly number[] | null;
  readonly settings: EditedRulesSettings;
}

export interface EditedRulesSettings {
  readonly onRuleError: 'skip' | 'reject';
  readonly limits: RuleLimits;
  readonly fileFailed: boolean;
  readonly isExternal: boolean;
  /** `RouteRights.version`; null: rules may route everywhere. */
  readonly rights: string | null;
}
