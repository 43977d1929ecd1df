import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decisionText } from '../../../src/gateway/exchanges/decisionText.ts';
import type { GroupDecision } from '../../../src/routing/groupDecision.ts';
import { type DecisionTrace, noTrace } from '../../../src/rules/decision.ts';

const fired: DecisionTrace = {
  rules: [],
  stored: '[{"rule":"etl","origin":"file","priority":1,"outcome":"fired"}]',
};
const few = fc.constantFrom('etl', 'adhoc', 'a"b\\c', '');

const decision: fc.Arbitrary<GroupDecision> = fc.record({
  group: few,
  cluster: fc.option(few, { nil: null }),
  rule: fc.option(few, { nil: null }),
  decidedBy: fc.constantFrom('rule' as const, 'header' as const, 'default' as const),
  onUnavailable: fc.constant('fallback' as const),
  trace: fc.constantFrom(fired, noTrace),
});
const way = fc.record({
  cluster: few,
  fallback: fc.boolean(),
  steps: fc.option(
    fc.constant([
      { group: 'etl', outcome: 'full' as const, text: 'group etl: no cluster has room (e1 is full)' },
      { group: 'spill', outcome: 'serves' as const, text: 'fallback spill: s1' },
    ]),
    { nil: null },
  ),
  attempts: fc.option(fc.constant([{ cluster: 'down', error: 'refused' }]), { nil: null }),
});

test('the text of a decision holds what was decided and how the query got to its cluster', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(decision, way), { minLength: 1, maxLength: 60 }), (queries) => {
      for (const [decided, taken] of queries) {
        expect(JSON.parse(decisionText(decided, taken))).toEqual({
          group: decided.group,
          decidedBy: decided.decidedBy,
          ...(decided.rule === null ? {} : { rule: decided.rule }),
          ...(decided.cluster === null ? {} : { pinned: decided.cluster }),
          cluster: taken.cluster,
          ...(taken.fallback ? { fallback: true } : {}),
          ...(taken.steps === null
            ? {}
            : { steps: ['group etl: no cluster has room (e1 is full)', 'fallback spill: s1'] }),
          ...(taken.attempts === null ? {} : { attempts: taken.attempts }),
          ...(decided.trace.stored === null ? {} : { rules: JSON.parse(decided.trace.stored) }),
        });
      }
    }),
  );
});

test('what the external rules service said is reported each time, without values of header lines', () => {
  const texts = ['first', 'second'].map((group) =>
    decisionText(
      {
        group,
        cluster: null,
        rule: null,
        decidedBy: 'external',
        onUnavailable: 'fallback',
        trace: noTrace,
        external: { outcome: 'answered', routingGroup: group, headers: { 'X-Token': 'secret' } },
      },
      { cluster: 'one', fallback: false, steps: null, attempts: null },
    ),
  );
  expect(texts.map((text) => JSON.parse(text))).toEqual(
    ['first', 'second'].map((group) => ({
      group,
      decidedBy: 'external',
      external: { outcome: 'answered', routingGroup: group, setHeaders: ['X-Token'] },
      cluster: 'one',
    })),
  );
});
