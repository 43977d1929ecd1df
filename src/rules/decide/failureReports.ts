import type { CompiledRule } from '../compile/compiledRule.ts';
import type { RuleCompilerOptions, RuleFailure } from '../ruleCompiler.ts';

const DEFAULT_INTERVAL_MS = 10_000;

/** Reports failing rules at most once per rule and interval, so that a broken rule does not fill the log. */
export class RuleFailureReports {
  readonly #report: ((failure: RuleFailure) => void) | undefined;
  readonly #count: RuleCompilerOptions['countFailure'];
  readonly #interval: number;
  readonly #monotonic: () => number;
  readonly #byRule = new WeakMap<CompiledRule, { reportedAt: number; since: number }>();

  constructor(
    options: Pick<RuleCompilerOptions, 'onRuleFailure' | 'countFailure' | 'failureIntervalMs' | 'monotonic'>,
  ) {
    this.#report = options.onRuleFailure;
    this.#count = options.countFailure;
    this.#interval = options.failureIntervalMs ?? DEFAULT_INTERVAL_MS;
    this.#monotonic = options.monotonic;
  }

  count({ definition: { name, origin } }: CompiledRule): void {
    this.#count?.(name, origin);
  }

  report(rule: CompiledRule, message: string): void {
    this.count(rule);
    if (this.#report === undefined) return;
    const now = this.#monotonic();
    const entry = this.#byRule.get(rule);
    if (entry !== undefined && now - entry.reportedAt < this.#interval) {
      entry.since += 1;
      return;
    }
    const count = (entry?.since ?? 0) + 1;
    this.#byRule.set(rule, { reportedAt: now, since: 0 });
    const { name, origin } = rule.definition;
    this.#report({ rule: name, origin, message, count });
  }
}
