import type { CompiledRule } from '../compile/compiledRule.ts';
import type { RuleListeners } from '../ruleCompiler.ts';

const DEFAULT_INTERVAL_MS = 10_000;

/** Reports failing rules at most once per rule and interval, so that a broken rule does not fill the log. */
export class RuleFailureReports {
  readonly #listeners: RuleListeners;
  readonly #byRule = new WeakMap<CompiledRule, { reportedAt: number; since: number }>();

  constructor(listeners: RuleListeners) {
    this.#listeners = listeners;
  }

  /** Counts a failure of a rule that was skipped because the decision's time was used up. */
  count({ definition: { name, origin } }: CompiledRule): void {
    this.#listeners.countFailure?.(name, origin);
  }

  /** Reports a query that several tenants would decide. */
  conflict(tenants: readonly string[]): void {
    this.#listeners.onTenantConflict?.(tenants);
  }

  report(rule: CompiledRule, message: string): void {
    this.count(rule);
    const { onRuleFailure, failureIntervalMs = DEFAULT_INTERVAL_MS, monotonic } = this.#listeners;
    if (onRuleFailure === undefined) return;
    const now = monotonic();
    const entry = this.#byRule.get(rule);
    if (entry !== undefined && now - entry.reportedAt < failureIntervalMs) {
      entry.since += 1;
      return;
    }
    const count = (entry?.since ?? 0) + 1;
    this.#byRule.set(rule, { reportedAt: now, since: 0 });
    const { name, origin } = rule.definition;
    onRuleFailure({ rule: name, origin, message, count });
  }
}
