import { expect, test } from 'vitest';
import type { OutcomeView, QueryDecision, WholeQuery } from '../../../src/ui/client/types.ts';
import { describeDecision } from '../../../src/ui/pages/query/decisionTexts.ts';

test.each([
  ['rule', 'The rule nightly chose the routing group etl. engine-1 was active and healthy, and took the query.'],
  [
    'oracle',
    'The routing group etl was decided by "oracle", which this version does not know. engine-1 was active and healthy, and took the query.',
  ],
  [
    'constructor',
    'The routing group etl was decided by "constructor", which this version does not know. engine-1 was active and healthy, and took the query.',
  ],
])('a decision by %s as text', (decidedBy, text) => {
  const decision = { decidedBy, group: 'etl', cluster: 'engine-1', rule: 'nightly' } as unknown as QueryDecision;
  expect(describeDecision(decision, { cluster: 'engine-1', backendUrl: 'http://one' } as WholeQuery)).toBe(text);
});

const by = 'The rule nightly chose the routing group etl.';

test.each([
  ['REFUSED', '', 'No room.', `${by} No backend took the query, as the gateway refused it: No room.`],
  ['REFUSED', '', null, `${by} No backend took the query, as the gateway refused it.`],
  [
    'REFUSED',
    'engine-1',
    'Its headers are too large',
    `${by} engine-1 was chosen, but the gateway refused the query, or the backend's answer to it: Its headers are too large.`,
  ],
  ['CANCELLED', '', 'Dropped', `${by} No backend took the query, as it ended while it waited: Dropped.`],
  ['ABANDONED', '', null, `${by} No backend took the query, as it ended while it waited.`],
] as const)('a decision of a query that no cluster took: %s, %s, %s', (state, cluster, errorMessage, text) => {
  const decision: QueryDecision = { decidedBy: 'rule', group: 'etl', cluster, rule: 'nightly' };
  const outcome: OutcomeView = { state, errorMessage };
  expect(describeDecision(decision, { cluster, backendUrl: '', outcome } as WholeQuery)).toBe(text);
});
