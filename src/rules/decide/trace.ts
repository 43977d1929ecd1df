import type { CompiledRule } from '../compile/compiledRule.ts';
import type { DecisionTrace, RuleTrace } from '../decision.ts';
import { MAX_WHOLE_TRACE, storedTrace } from '../storedTrace.ts';

/** Effects of the rules on one request; rules without a match are implicit. */
export class Trace implements DecisionTrace {
  readonly #all: readonly CompiledRule[];
  readonly #noted: (readonly [number: number, entry: RuleTrace])[] = [];
  #last = Number.POSITIVE_INFINITY;
  #stored: string | null = null;

  /** @param all all rules in firing order */
  constructor(all: readonly CompiledRule[]) {
    this.#all = all;
  }

  /** Records the effect of a rule. @param details its entries and error, if any */
  note(
    number: number,
    outcome: RuleTrace['outcome'],
    { put, error }: { readonly put?: RuleTrace['put'] | undefined; readonly error?: string | undefined } = {},
  ): void {
    const { rule, origin, priority } = (this.#all[number] as CompiledRule).notMatched;
    this.#noted.push([
      number,
      {
        ...{ rule, origin, priority, outcome },
        ...(put === undefined ? {} : { put }),
        ...(error === undefined ? {} : { error }),
      },
    ]);
  }

  endAt(number: number): void {
    this.#last = number;
  }

  get rules(): readonly RuleTrace[] {
    const rules = this.#all.map(({ notMatched, skipped }, number) => (number > this.#last ? skipped : notMatched));
    for (const [number, entry] of this.#noted) rules[number] = entry;
    return rules;
  }

  get stored(): string | null {
    if (this.#all.length === 0) return null;
    this.#stored ??= JSON.stringify(this.#all.length > MAX_WHOLE_TRACE ? this.#matched : storedTrace(this.rules));
    return this.#stored;
  }

  /** Omits rules without a match: there may be thousands. */
  get #matched(): readonly RuleTrace[] {
    const skipped = this.#all.slice(Math.min(this.#last + 1, this.#all.length)).map((rule) => rule.skipped);
    return [...this.#noted.map(([, entry]) => entry), ...skipped];
  }
}
