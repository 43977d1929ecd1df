import { describe, expect, test } from 'vitest';
import type {
  Admission,
  AdmissionAnswer,
  AdmissionRequest,
  AdmissionWait,
  QuerySlots,
} from '../../../src/gateway/admission/admission.ts';
import { AdmissionChain } from '../../../src/gateway/admission/admissionChain.ts';
import { ClusterWait } from '../../../src/gateway/admission/clusterWait.ts';
import { QueueCounts } from '../../../src/gateway/admission/queueCounts.ts';
import type { GroupDecision } from '../../../src/routing/groupDecision.ts';
import type { Refusal } from '../../../src/routing/refusal.ts';
import { neverChecked } from '../../../src/routing/routingTable.ts';
import { RoutingTableHolder } from '../../../src/routing/tableHolder.ts';
import { noTrace } from '../../../src/rules/decision.ts';
import { groupPolicy, groupsOf } from '../../support/groupPolicy.ts';
import { clusterAt } from '../../support/routableCluster.ts';

/** There is no other replica. */
const uncounted = { noteRefused: () => undefined };
const lonely = { setWaiting: () => {}, waitingElsewhere: () => 0 };

const request = (more: Partial<GroupDecision> = {}): AdmissionRequest => ({
  decision: {
    group: 'night',
    cluster: null,
    rule: null,
    decidedBy: 'header',
    onUnavailable: 'fallback',
    trace: noTrace,
    ...more,
  },
  user: { user: 'alice', userInfo: null },
  headers: [],
});

const spare = { fallbacks: ['spare'], queue: { whenUnavailable: 'wait', maxQueued: 2, maxWaitMs: 60_000 } } as const;

/** A wait before sleeping clusters of the groups night and spare; adhoc is awake. */
function sleeping(policy = groupPolicy('night', spare)) {
  const table = new RoutingTableHolder();
  const urls = { n1: 'night', s1: 'spare', a1: 'adhoc' };
  const setStatus = (name: string, status: 'HEALTHY' | 'UNHEALTHY') =>
    table.setHealth(name, `http://${name}`, { ...neverChecked, status, checkedAt: 1 });
  table.setInputs({
    clusters: Object.entries(urls).map(([name, routingGroup]) => clusterAt(name, `http://${name}`, { routingGroup })),
    admission: { groups: groupsOf(policy), limits: [] },
  });
  setStatus('a1', 'HEALTHY');
  const wait = new ClusterWait({
    table,
    queueCounts: new QueueCounts(lonely),
    counts: uncounted,
    defaultGroup: 'adhoc',
  });
  return { table, wait, setStatus };
}

function begun(answer: AdmissionAnswer, signal = new AbortController().signal): Promise<Refusal | null> {
  if (answer.answer !== 'wait') throw new Error(`it answered ${answer.answer}`);
  return answer.begin(signal);
}

/** Whether a promise has settled by now. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const open = Symbol();
  return (await Promise.race([promise, Promise.resolve().then(() => open)])) !== open;
}

describe('waiting for a cluster', () => {
  test.each([
    ['another group', sleeping, { group: 'adhoc' }, 'now'],
    ['a group that nobody declared', sleeping, { group: 'unknown' }, 'now'],
    ['a pinned cluster', sleeping, { cluster: 'n1' }, 'now'],
    ['a group that refuses', () => sleeping(groupPolicy('night')), {}, 'now'],
    ['a sleeping group', sleeping, {}, 'wait'],
    ['a sleeping group of a rule that rejects', sleeping, { onUnavailable: 'reject' }, 'wait'],
  ] as const)('%s: %s', (_what, make, decision, answer) => {
    expect(make().wait.admit(request(decision))).toMatchObject({ answer });
  });

  test.each(['n1', 's1'])('ends with the table in which %s is healthy, for all at once', async (name) => {
    const { wait, setStatus } = sleeping();
    const waits = [begun(wait.admit(request())), begun(wait.admit(request()))];
    setStatus('n1', 'UNHEALTHY');
    expect(await isSettled(Promise.race(waits))).toBe(false);
    setStatus(name, 'HEALTHY');
    expect(await Promise.all(waits)).toEqual([null, null]);
    expect(wait.admit(request())).toEqual({ answer: 'now' });
  });

  test('a fallback does not end the wait of a rule that rejects', async () => {
    const { wait, setStatus } = sleeping();
    const rejecting = begun(wait.admit(request({ onUnavailable: 'reject' })));
    setStatus('s1', 'HEALTHY');
    expect(await isSettled(rejecting)).toBe(false);
    setStatus('n1', 'HEALTHY');
    expect(await rejecting).toBeNull();
  });

  test('ends when the group does not let queries wait any more', async () => {
    const { wait, table } = sleeping();
    const one = begun(wait.admit(request()));
    table.setInputs({ admission: { groups: new Map(), limits: [] } });
    expect(await one).toBeNull();
  });

  test('a change between the answer and the wait is not missed', async () => {
    const { wait, setStatus } = sleeping();
    const answer = wait.admit(request());
    setStatus('n1', 'HEALTHY');
    expect(await begun(answer)).toBeNull();
  });

  test('maxQueued may wait; a place that is given up is free again', async () => {
    const { wait } = sleeping();
    const giveUp = new AbortController();
    const first = begun(wait.admit(request()), giveUp.signal);
    void begun(wait.admit(request()));
    expect(wait.admit(request())).toMatchObject({
      answer: 'refuse',
      refusal: {
        reason: 'queue_full',
        message:
          'No cluster of routing group "night" is available, and 2 queries wait for one already (queue.maxQueued); send the query again later.',
      },
    });
    giveUp.abort();
    await first;
    expect(wait.admit(request())).toMatchObject({
      answer: 'wait',
      atMost: 60_000,
      late: {
        reason: 'queue_timeout',
        message:
          'No cluster of routing group "night" became available within 1.00m (queue.maxWait); send the query again later.',
      },
    });
  });
});

describe('a chain of admissions', () => {
  const refusal: Refusal = { reason: 'denied', message: 'no', queryId: null };
  const late: Refusal = { reason: 'queue_timeout', message: 'late', queryId: null };
  const saying = (answer: AdmissionAnswer): Admission => ({ admit: () => answer });
  const waiting = (end: Refusal | null, atMost = 1_000): Admission =>
    saying({ answer: 'wait', atMost, late, begin: () => Promise.resolve(end) });
  const never = (atMost: number): Admission =>
    saying({ answer: 'wait', atMost, late, begin: () => new Promise(() => undefined) });
  const now = saying({ answer: 'now' });
  const refusing = saying({ answer: 'refuse', refusal });

  test.each<[string, readonly Admission[], AdmissionAnswer['answer'], Refusal | null]>([
    ['nobody', [], 'now', null],
    ['all say now', [now, now], 'now', null],
    ['the first refusal', [now, refusing, waiting(null)], 'refuse', null],
    ['a wait', [now, waiting(null)], 'wait', null],
    ['a wait, then a refusal', [waiting(null), now, refusing], 'wait', refusal],
    ['a wait that is refused', [waiting(refusal), now], 'wait', refusal],
    ['two waits', [waiting(null), waiting(null), now], 'wait', null],
    ['a second wait that takes longer than it may', [waiting(null), never(1)], 'wait', late],
  ])('%s', async (_what, admissions, answer, end) => {
    const admitted = new AdmissionChain(admissions, () => 0).admit(request());
    expect(admitted.answer).toBe(answer);
    if (admitted.answer === 'wait') expect(await begun(admitted)).toBe(end);
  });

  test('a wait after a wait: the trace has both, and what was moved first is moved in the second as well', async () => {
    let now = 0;
    const nothing = saying({ answer: 'now' });
    const moves: string[] = [];
    const placeOf = (why: string) => ({ why: () => why, position: () => null, moveFirst: () => void moves.push(why) });
    const slots: QuerySlots = {
      note: 'full; waited 1.0 s',
      beginChoice: () => undefined,
      takeCluster: () => null,
      bind: () => undefined,
      release: () => undefined,
    };
    const first = saying({
      answer: 'wait',
      atMost: 9_999,
      late,
      place: placeOf('asleep'),
      begin: async () => {
        now += 2_500;
        return null;
      },
    });
    const second = (more: object): Admission =>
      saying({ answer: 'wait', atMost: 9_999, late, place: placeOf('full'), begin: async () => null, ...more });
    const answer = new AdmissionChain([first, second({ slots })], () => now).admit(request()) as AdmissionWait;
    answer.place?.moveFirst();
    expect([answer.place?.why(), answer.slots?.note]).toEqual(['asleep', 'asleep; waited 0.0 s']);
    await begun(answer);
    expect([answer.place?.why(), answer.slots?.note]).toEqual([
      'full',
      'asleep; waited 2.5 s; then full; waited 1.0 s',
    ]);
    expect(moves).toEqual(['asleep', 'full']);
    const alone = new AdmissionChain([first, nothing], () => now).admit(request()) as AdmissionWait;
    await begun(alone);
    alone.slots?.takeCluster({ name: 'night-1' } as never);
    expect(alone.slots?.note).toBe('asleep; waited 2.5 s; admitted to night-1');
  });

  test('the wait that is given up reaches the admission that lets it wait', async () => {
    const signals: AbortSignal[] = [];
    const last: Admission = saying({
      answer: 'wait',
      atMost: 60_000,
      late,
      begin: (signal) => {
        signals.push(signal);
        return new Promise((resolve) => signal.addEventListener('abort', () => resolve(null)));
      },
    });
    const giveUp = new AbortController();
    const end = begun(new AdmissionChain([waiting(null), last], () => 0).admit(request()), giveUp.signal);
    await Promise.resolve().then(() => Promise.resolve());
    giveUp.abort();
    await end;
    expect(signals[0]?.aborted ?? true).toBe(true);
  });
});
