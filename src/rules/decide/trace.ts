import type { CompiledRule } from '../compile/compiledRule.ts';
import type { DecisionTrace, RuleTrace } from '../decision.ts';
import type { Decider, Stage } from '../tenancy.ts';

/** Stage and tenant of a rule. */
export interface RulePlace {
  readonly stage: Stage;
  readonly tenant: string | null;
}

/** Effects of rules on it; those without a match are implicit. */
export class Trace implements DecisionTrace {
  readonly #all: readonly CompiledRule[];
  /** Null: all are in the first stage. */
  readonly #places: readonly RulePlace[] | null;
  readonly #decider: Decider;
  readonly #noted: (readonly [number: number, entry: RuleTrace])[] = [];
  /** Rules after a number are not asked before a stage. */
  readonly #ends: { readonly after: number; readonly before: number }[] = [];

  /**
   * @param all all rules in firing order
   * @param places of all rules; null: the first stage
   */
  constructor(all: readonly CompiledRule[], places: readonly RulePlace[] | null, decider: Decider) {
    this.#all = all;
    this.#places = places;
    this.#decider = decider;
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
        ...{ rule, origin, priority, ...this.#placeOf(number), outcome },
        ...(put === undefined ? {} : { put }),
        ...(error === undefined ? {} : { error }),
      },
    ]);
  }

  /** Rules after this one are skipped before a stage. */
  endAt(after: number, before: number): void {
    this.#ends.push({ after, before });
  }

  get rules(): readonly RuleTrace[] {
    const rules = this.#all.map(({ notMatched, skipped }, number) => {
      if (this.#places === null) return this.#isSkipped(number) ? skipped : notMatched;
      const place = this.#placeOf(number);
      const error = this.#reasonOf(number);
      if (error !== null) return { ...skipped, ...place, error };
      return { ...(this.#isSkipped(number) ? skipped : notMatched), ...place };
    });
    for (const [number, entry] of this.#noted) rules[number] = entry;
    return rules;
  }

  get stored(): string | null {
    const rules = this.#all.length > MAX_WHOLE_TRACE ? this.#matched : storedTrace(this.rules);
    const value = this.#all.length === 0 ? null : JSON.stringify(rules);
    Object.defineProperty(this, 'stored', { value });
    return value;
  }

  /** Omits rules without a match, and those of tenants that do not decide: there may be thousands. */
  get #matched(): readonly RuleTrace[] {
    if (this.#ends.length === 0) return this.#noted.map(([, entry]) => entry);
    return this.rules.filter(({ outcome }, number) => outcome !== 'not-matched' && this.#reasonOf(number) === null);
  }

  #isSkipped(number: number): boolean {
    const stage = this.#places?.[number]?.stage ?? 0;
    return this.#ends.some(({ after, before }) => number > after && stage < before);
  }

  #placeOf(number: number): Pick<RuleTrace, 'stage' | 'tenant'> {
    const { stage = 0, tenant = null } = this.#places?.[number] ?? {};
    if (tenant !== null) return { stage: 'tenant', tenant };
    return stage === 2 ? { stage: 'final' } : {};
  }

  /** Reason that a tenant's rule is not asked; null if it is. */
  #reasonOf(number: number): string | null {
    const owner = this.#places?.[number]?.tenant ?? null;
    const { tenant, conflict } = this.#decider;
    if (owner === null || owner === tenant) return null;
    if (conflict.length > 0) return `the tenants ${conflict.join(', ')} decide this query, so that none of them does`;
    return tenant === null ? 'no tenant decides this query' : `the tenant ${tenant} decides this query`;
  }
}

/** Traces of more rules are stored without rules that did not match: they are stored for every query. */
export const MAX_WHOLE_TRACE = 50;

/** Consecutive rules of one origin that did not match: name and priority of each in turn. */
interface NotMatched {
  readonly origin: RuleTrace['origin'];
  readonly notMatched: (string | number)[];
}

/** A trace as stored with each query of the history: most rules do not match, and take few bytes. */
export type StoredTrace = readonly (RuleTrace | NotMatched)[];

export function storedTrace(trace: readonly RuleTrace[]): StoredTrace {
  if (trace.length > MAX_WHOLE_TRACE) return trace.filter(({ outcome }) => outcome !== 'not-matched');
  const stored: (RuleTrace | NotMatched)[] = [];
  let run: NotMatched | null = null;
  for (const each of trace) {
    if (each.outcome !== 'not-matched' || each.stage !== undefined) {
      stored.push(each);
      run = null;
    } else if (run !== null && run.origin === each.origin) run.notMatched.push(each.rule, each.priority);
    else {
      run = { origin: each.origin, notMatched: [each.rule, each.priority] };
      stored.push(run);
    }
  }
  return stored;
}

/** Restores a stored trace, rule by rule. */
export function readTrace(stored: StoredTrace): readonly RuleTrace[] {
  return stored.flatMap((each) => {
    if (!('notMatched' in each)) return [each];
    const { origin, notMatched } = each;
    const rules: RuleTrace[] = [];
    for (let index = 0; index < notMatched.length; index += 2) {
      const [rule, priority] = [String(notMatched[index]), Number(notMatched[index + 1])];
      rules.push({ rule, origin, priority, outcome: 'not-matched' });
    }
    return rules;
  });
}
