import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readTrace, type StoredTrace, storedTrace } from '../../../src/rules/decide/trace.ts';
import type { RuleTrace } from '../../../src/rules/decision.ts';

const rule = fc.record({
  rule: fc.string(),
  origin: fc.constantFrom('file', 'resource'),
  priority: fc.integer(),
});
/**
 * Results that a rule put: any keys but those that end with a backslash. `JSON.parse` of V8 14.6 reads `{"a":1,"\\"":2}` as if
 * its second key were a backslash, once it has read an object with that key in the same place.
 */
const results = fc.dictionary(
  fc.string().filter((key) => !key.endsWith('\\')),
  fc.string(),
);
const outcome = fc.oneof(
  { weight: 3, arbitrary: fc.constant({ outcome: 'not-matched' }) },
  { weight: 1, arbitrary: fc.constant({ outcome: 'skipped' }) },
  { weight: 1, arbitrary: fc.record({ outcome: fc.constant('fired'), put: results }) },
  { weight: 1, arbitrary: fc.record({ outcome: fc.constant('failed'), error: fc.string() }) },
);
const traces = (constraints: fc.ArrayConstraints): fc.Arbitrary<RuleTrace[]> =>
  fc.array(
    fc.tuple(rule, outcome).map(([one, other]) => ({ ...one, ...other }) as RuleTrace),
    constraints,
  );
const kept = (trace: readonly RuleTrace[]): readonly RuleTrace[] =>
  readTrace(JSON.parse(JSON.stringify(storedTrace(trace))) as StoredTrace);

describe('traces in the history', () => {
  test('of up to fifty rules are read as they were', () => {
    fc.assert(fc.property(traces({ maxLength: 50 }), (trace) => void expect(kept(trace)).toEqual(trace)));
  });

  test('of more rules are kept without those that did not match', () => {
    fc.assert(
      fc.property(
        traces({ minLength: 51, maxLength: 80, size: 'max' }),
        (trace) => void expect(kept(trace)).toEqual(trace.filter((each) => each.outcome !== 'not-matched')),
      ),
    );
  });

  test('rules that did not match take few bytes', () => {
    const trace = Array.from({ length: 10 }, (_, priority) => ({
      ...{ rule: `rule ${priority}`, origin: 'file', priority, outcome: 'not-matched' },
    })) as RuleTrace[];
    expect(JSON.stringify(storedTrace(trace))).toBe(
      '[{"origin":"file","notMatched":["rule 0",0,"rule 1",1,"rule 2",2,"rule 3",3,"rule 4",4,"rule 5",5,"rule 6",6,"rule 7",7,"rule 8",8,"rule 9",9]}]',
    );
  });
});
