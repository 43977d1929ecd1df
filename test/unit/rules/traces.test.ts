import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { RoutingRuleSpec } from '../../../src/kinds/routingRule/spec.ts';
import type { RuleRequest, RuleSet, RuleTrace } from '../../../src/rules/decision.ts';
import { readTrace, type StoredTrace } from '../../../src/rules/storedTrace.ts';
import { defaultRuleCompiler, resourceRule } from '../../support/resourceRules.ts';
import { sampleRequest } from '../../support/ruleAttempt.ts';

/** Rules whose traces differ by request: what they put, that they fail, deny, stop, or are skipped. */
const specs: readonly Partial<RoutingRuleSpec>[] = [
  { condition: 'request.getHeader("X-Tag") == "a"', actions: ['result.put("routingGroup", "fixed")'] },
  {
    condition: 'request.getHeader("X-Tag") != null',
    actions: ['result.put("routingGroup", request.getHeader("X-Tag"))'],
  },
  { condition: 'request.getHeader("X-Tag") == "b"', actions: ['state.put("seen", true)'] },
  {
    condition: 'state.get("seen") == true',
    actions: ['result.put("b", "2")', 'result.put(request.getHeader("X-Source") + "", "1")', 'result.put("c", null)'],
  },
  { condition: 'request.getHeader("X-Source").length() > 1', actions: ['result.put("long", true)'] },
  { condition: 'request.getHeader("X-Tag") == "c"', deny: { message: 'no' } },
  { condition: 'request.getHeader("X-Source").length() > 2', deny: { message: 'no', onError: 'deny' } },
  { condition: 'request.getHeader("X-Tag") == "stop"', stop: true, routeTo: { routingGroup: 'last' } },
];

const rules = fc.array(fc.constantFrom(...specs), { minLength: 1, maxLength: 40 });
const requests = fc.array(
  fc.record({
    isSubmission: fc.boolean(),
    tag: fc.option(fc.constantFrom('a', 'b', 'c', 'stop', 'other'), { nil: null }),
    source: fc.option(fc.constantFrom('', 'x', 'long'), { nil: null }),
  }),
  { minLength: 1, maxLength: 20 },
);

function compile(chosen: readonly Partial<RoutingRuleSpec>[]): RuleSet {
  const resources = chosen.map((spec, index) => resourceRule(`r${String(index).padStart(2, '0')}`, spec));
  const { ruleSet } = defaultRuleCompiler().compile(resources, null);
  if (ruleSet === null) throw new Error('there is no rule set');
  return ruleSet;
}

test('a request gets the same decision and trace whatever requests came before it', () => {
  fc.assert(
    fc.property(rules, requests, (chosen, asked) => {
      const used = compile(chosen);
      const kept: [readonly RuleTrace[], string][] = [];
      for (const { isSubmission, tag, source } of asked) {
        const headers = [...(tag === null ? [] : ['X-Tag', tag]), ...(source === null ? [] : ['X-Source', source])];
        const request: RuleRequest = { ...sampleRequest, headers, isSubmission };
        const [decision, expected] = [used.decide(request), compile(chosen).decide(request)];
        expect({ ...decision, trace: decision.trace.rules }).toEqual({ ...expected, trace: expected.trace.rules });
        expect(decision.trace.rules).toHaveLength(chosen.length);
        kept.push([decision.trace.rules, JSON.stringify(decision.trace.rules)]);
        const stored = readTrace(JSON.parse(decision.trace.stored ?? '[]') as StoredTrace);
        expect(stored).toEqual(decision.trace.rules);
      }
      // Later requests changed nothing of earlier traces.
      for (const [trace, before] of kept) expect(JSON.stringify(trace)).toBe(before);
    }),
    { numRuns: 100 },
  );
});
