import type { RuleTrace } from './decision.ts';

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
