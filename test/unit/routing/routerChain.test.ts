import { describe, expect, test } from 'vitest';
import type { Refusal } from '../../../src/routing/refusal.ts';
import { DefaultGroupRouter } from '../../../src/routing/routers/defaultGroupRouter.ts';
import { nothing, type Router, type RouterAnswer } from '../../../src/routing/routers/router.ts';
import { RouterChain } from '../../../src/routing/routers/routerChain.ts';
import type { RouterStep } from '../../../src/routing/routers/routerNames.ts';
import { emptyTable } from '../../../src/routing/routingTable.ts';
import { noTrace } from '../../../src/rules/decision.ts';
import { sampleRequest } from '../../support/ruleAttempt.ts';

const table = { ...emptyTable, version: 1 };
const trace = { rules: [], stored: '{}' };
const external = { outcome: 'failed', reason: 'why' } as const;
const refusal: Refusal = { reason: 'denied', message: 'no', queryId: null };
const group = (name: string): RouterAnswer & { says: 'group' } => ({
  says: 'group',
  choice: { group: name, cluster: null, rule: null, onUnavailable: 'fallback' },
  findings: null,
});
const refused = (instead: (RouterAnswer & { says: 'group' | 'nothing' }) | null = null): RouterAnswer => ({
  says: 'refusal',
  refusal,
  rule: 'r',
  instead: instead ?? nothing,
});
const later = (answer: RouterAnswer) => Promise.resolve(answer);

/** A chain of a router for rules, one that asks a service, and the default group, with the names of the called ones. */
function chainOf(
  first: RouterAnswer | Promise<RouterAnswer>,
  second: RouterAnswer | Promise<RouterAnswer> = nothing,
  more: Partial<Router> = {},
) {
  const called: string[] = [];
  const router = (
    name: 'rule' | 'external',
    step: RouterStep,
    answer: RouterAnswer | Promise<RouterAnswer>,
  ): Router => ({
    name,
    step,
    isAsked: () => true,
    needsAnalysis: () => false,
    route: () => {
      called.push(name);
      return answer;
    },
  });
  const routers = [{ ...router('rule', 'rules', first), ...more }, router('external', 'rules service', second)];
  return { chain: new RouterChain(routers, new DefaultGroupRouter('adhoc')), called };
}

describe('the first router that says something decides', () => {
  test.each<[string, RouterAnswer, RouterAnswer, object, readonly string[]]>([
    ['a group', group('a'), group('b'), { group: 'a', decidedBy: 'rule' }, ['rule']],
    ['nothing, then a group', nothing, group('b'), { group: 'b', decidedBy: 'external' }, ['rule', 'external']],
    ['nothing at all', nothing, nothing, { group: 'adhoc', decidedBy: 'default' }, ['rule', 'external']],
    [
      'nothing, and only the last is asked',
      { ...nothing, asks: 'last' },
      group('b'),
      { group: 'adhoc', decidedBy: 'default' },
      ['rule'],
    ],
    [
      'what each found is kept, whichever decides',
      { ...nothing, findings: { trace } },
      { ...nothing, findings: { external } },
      { decidedBy: 'default', trace, external },
      ['rule', 'external'],
    ],
    ['nothing found', nothing, group('b'), { trace: noTrace }, ['rule', 'external']],
  ])('%s', async (_what, first, second, decision, names) => {
    for (const waits of [false, true]) {
      const { chain, called } = chainOf(waits ? later(first) : first, waits ? later(second) : second);
      const routed = chain.decide(sampleRequest, table);
      expect(routed instanceof Promise).toBe(waits);
      expect(await routed).toMatchObject({ refusal: null, decision });
      expect(called).toEqual(names);
    }
  });
});

test('a refusal ends the asking; what would be decided otherwise is found out when somebody wants to know', async () => {
  const { chain, called } = chainOf(refused({ ...nothing, findings: { trace } }), group('b'));
  const routed = await chain.decide(sampleRequest, table);
  expect(routed).toMatchObject({ refusal, rule: 'r' });
  expect(called).toEqual(['rule']);
  if (routed.refusal === null) throw new Error('not refused');
  expect(await routed.otherwise()).toMatchObject({ decision: { group: 'b', decidedBy: 'external', trace } });
  const other = await chainOf(refused(group('a')), group('b')).chain.decide(sampleRequest, table);
  expect(other.refusal !== null && (await other.otherwise())).toMatchObject({ decision: { group: 'a' } });
});

test('steps are noted as they begin; a router that takes no part is left out', async () => {
  const steps: string[] = [];
  const notes = { step: (name: string) => void steps.push(name) };
  await chainOf(nothing, later(nothing)).chain.decide(sampleRequest, table, notes);
  const { chain, called } = chainOf(group('a'), group('b'), { isAsked: () => false });
  expect(await chain.decide(sampleRequest, table, notes)).toMatchObject({ decision: { group: 'b' } });
  expect(called).toEqual(['external']);
  expect(steps).toEqual(['rules', 'rules service', 'rules service']);
});

test('requests are analysed where one router reads that', () => {
  expect(chainOf(nothing).chain.needsAnalysis(table)).toBe(false);
  expect(chainOf(nothing, nothing, { needsAnalysis: () => true }).chain.needsAnalysis(table)).toBe(true);
});
