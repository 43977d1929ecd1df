import { expect, test } from 'vitest';
import type { QueryDecision } from '../../../src/ui/client/types.ts';
import { decisionText } from '../../../src/ui/pages/query/decisionTexts.ts';

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
  expect(decisionText(decision)).toBe(text);
});
