import type { RuleTrace } from './decision.ts';

/** Traces of more rules than this are stored without those that did not match: they are stored for every query. */
export const LONGEST_WHOLE_TRACE = 50;

/** Rules of one origin, one after the other, that did not match: name and priority of each in turn. */
interface NotMatched {
  readonly origin: RuleTrace['origin'];
  readonly notMatched: (string | number)[];
}

/** A trace as it is stored with each query of the history: most rules do not match, and are kept in few bytes. */
export type StoredTrace = readonly (RuleTrace | NotMatched)[];

/** The part of a trace that is worth keeping with a query. */
export function storedTrace(trace: readonly RuleTrace[]): StoredTrace {
  if (trace.length > LONGEST_WHOLE_TRACE) return trace.filter(({ outcome }) => outcome !== 'not-matched');
  const stored: (RuleTrace | NotMatched)[] = [];
  let run: NotMatched | null = null;
  for (const each of trace) {
    if (each.outcome !== 'not-matched') {
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

/** What was kept of a trace, rule by rule. Takes traces of before, too, which were stored that way. */
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
