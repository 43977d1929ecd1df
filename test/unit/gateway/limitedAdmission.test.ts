import { pino } from 'pino';
import { Registry } from 'prom-client';
import { describe, expect, test } from 'vitest';
import { LeasedSlots } from '../../../src/admission/leasedSlots.ts';
import type { AdmissionAnswer, AdmissionWait, QuerySlots } from '../../../src/gateway/admission/admission.ts';
import { AdmissionMetrics } from '../../../src/gateway/admission/admissionMetrics.ts';
import { FairAdmissionQueue } from '../../../src/gateway/admission/fairAdmissionQueue.ts';
import { LimitedAdmission } from '../../../src/gateway/admission/limitedAdmission.ts';
import { QueueCounts } from '../../../src/gateway/admission/queueCounts.ts';
import { RunningSlots } from '../../../src/gateway/admission/runningSlots.ts';
import { productNames } from '../../../src/model/names.ts';
import type { GroupPolicy, LimitPolicy } from '../../../src/routing/admissionPolicy.ts';
import { neverChecked, type RoutableCluster } from '../../../src/routing/routingTable.ts';
import { RoutingTableHolder } from '../../../src/routing/tableHolder.ts';
import { noTrace } from '../../../src/rules/decision.ts';
import type { LockedCounter, SlotQuery } from '../../../src/store/store.ts';
import { groupPolicy, groupsOf } from '../../support/groupPolicy.ts';
import { limit } from '../../support/limitPolicy.ts';
import { clusterAt } from '../../support/routableCluster.ts';

interface World {
  readonly limits?: readonly LimitPolicy[];
  readonly groups?: readonly GroupPolicy[];
  readonly clusters?: readonly RoutableCluster[];
  readonly onDatabaseUnavailable?: 'refuse' | 'admit';
  /** Whether submissions wait for as long as their group says. */
  readonly isKeeping?: boolean;
}

/** Limits of one replica whose beats the test runs. */
function world({ limits = [], groups = [], clusters, onDatabaseUnavailable = 'refuse', isKeeping = false }: World) {
  const state = { now: 1_000_000, isDatabaseAway: false };
  const clock = { now: () => state.now, monotonic: () => state.now };
  const table = new RoutingTableHolder();
  const given = clusters ?? [clusterAt('one', 'http://one:8080')];
  table.setInputs({ clusters: given, rules: null, admission: { groups: groupsOf(...groups), limits } });
  for (const { name, proxyTo } of given) table.setHealth(name, proxyTo, { ...neverChecked, status: 'HEALTHY' });
  const ledger = new LeasedSlots({ replica: 'r', clock, random: () => 0 });
  const seen = new Map<string, number>();
  const elsewhere: string[] = [];
  const stored: string[] = [];
  const refused: string[][] = [];
  const noted: SlotQuery[] = [];
  const running = new RunningSlots({
    replica: 'r',
    slotQueries: {
      put: async (_, queries) => {
        if (state.isDatabaseAway) throw new Error('the database is unavailable');
        noted.push(...queries);
      },
      remove: async (_, ids) => ids.length,
      ofReplica: async () => noted,
    },
    table,
    endedQueries: {
      put: async (ids) => void stored.push(...ids),
      since: async () => ({ queryIds: elsewhere.splice(0), mark: 0 }),
    },
    runningQueries: { lastSeen: async () => seen },
    clock,
    logger: pino({ level: 'silent' }),
  });
  const registry = new Registry();
  const admission = new LimitedAdmission({
    names: productNames('Engine'),
    table,
    ledger,
    running,
    queueCounts: new QueueCounts(ledger),
    counts: { noteRefused: (keys) => void refused.push([...new Set(keys)]) },
    room: new FairAdmissionQueue(isKeeping, () => clock.monotonic()),
    metrics: new AdmissionMetrics(registry, ledger),
    clock,
    isDatabaseAway: () => state.isDatabaseAway,
    settings: { onDatabaseUnavailable, defaultRoutingGroup: 'adhoc' },
  });
  const counters = new Map<string, LockedCounter>();
  /** As the database decides while there is no other replica. */
  const beat = async () => {
    state.now += 250;
    for (let one = ledger.begin(); one !== null; one = ledger.begin()) {
      for (const { key, bucket } of one.decide(state.now, counters)) counters.set(key, { rows: [], bucket });
      one.commit();
    }
    await new Promise((resolve) => setImmediate(resolve));
  };
  const admit = (user = 'alice', source = 'cli'): AdmissionAnswer =>
    admission.admit({
      decision: {
        group: 'adhoc',
        cluster: null,
        rule: null,
        decidedBy: 'default',
        onUnavailable: 'fallback',
        trace: noTrace,
      },
      user: { user, userInfo: null },
      headers: ['X-Engine-Source', source],
    });
  /** The slots of a submission that is admitted at once, or after a beat. */
  const slotsOf = async (answer: AdmissionAnswer): Promise<QuerySlots> => {
    if (answer.answer === 'refuse') throw new Error(answer.refusal.message);
    if (answer.answer === 'wait') {
      const ended = answer.begin(new AbortController().signal);
      await beat();
      await beat();
      expect(await ended).toBeNull();
    }
    return answer.slots as QuerySlots;
  };
  const waits = (answer: AdmissionAnswer): AdmissionWait => {
    if (answer.answer !== 'wait') throw new Error(`answered ${answer.answer}`);
    return answer;
  };
  const metric = async (name: string) => (await registry.getSingleMetric(name)?.get())?.values ?? [];
  return {
    state,
    noted,
    table,
    ledger,
    counters,
    running,
    admission,
    beat,
    admit,
    slotsOf,
    waits,
    metric,
    elsewhere,
    seen,
    stored,
    refused,
  };
}

const id = '20261101_000000_00001_aaaaa';

describe('limits', () => {
  test('without any, submissions pass and nothing is counted', () => {
    const { admit, ledger } = world({});
    expect(admit()).toEqual({ answer: 'now' });
    expect([...ledger.states()]).toEqual([]);
  });

  test('count each user apart; a slot is free when its query ends', async () => {
    const { admit, slotsOf, waits, running, beat } = world({ limits: [limit({ per: 'user', maxRunning: 1 })] });
    const first = await slotsOf(admit('alice'));
    expect(first.takeCluster({ name: 'one' } as never)).toBeNull();
    first.bind(id, 'one');
    await slotsOf(admit('bob'));
    const second = waits(admit('alice'));
    const ended = second.begin(new AbortController().signal);
    await beat();
    running.noteEnd(id, 'another');
    expect(running.size).toBe(1);
    running.noteEnd(id, 'one');
    await beat();
    expect(await ended).toBeNull();
    expect(second.slots?.note).toBe(
      'limit default/people of user alice: 1 of 1 running (maxRunning); waited 0.5 s as 1st of 1 (fair by user, weight 1)',
    );
  });

  test('say what is full, what to do and the message of the limit', async () => {
    const { admit, slotsOf, waits, metric } = world({
      limits: [limit({ maxRunning: 1, message: 'Ask in #data-platform for more.' })],
      groups: [groupPolicy('adhoc', { queue: { holdMs: 5 } })],
    });
    await slotsOf(admit());
    const refusal = await waits(admit()).begin(new AbortController().signal);
    expect(refusal).toMatchObject({ reason: 'queue_full' });
    expect(refusal?.message).toBe(
      'Too many queries run: limit default/people: 1 of 1 running (maxRunning). Send the query again when others have ended. Ask in #data-platform for more.',
    );
    expect(await metric('engine_gateway_admission_total')).toContainEqual({ labels: { answer: 'refused' }, value: 1 });
    expect(await metric('engine_gateway_limit_slots')).toContainEqual({
      labels: { limit: 'limit:default/people', state: 'in_use' },
      value: 1,
    });
  });

  test('bound how many wait, for a group and by one counter of a limit; a place is free when somebody leaves', async () => {
    const { admit, slotsOf, waits, refused } = world({
      limits: [limit({ per: 'user', maxRunning: 1, maxQueued: 1, message: 'Ask in #data-platform.' })],
      groups: [groupPolicy('adhoc', { queue: { maxQueued: 2 } })],
    });
    const refusalOf = (answer: AdmissionAnswer): string => (answer.answer === 'refuse' ? answer.refusal.message : '');
    for (const user of ['alice', 'bob', 'carol']) await slotsOf(admit(user));
    const leaves = new AbortController();
    const alices = waits(admit('alice'));
    void alices.begin(leaves.signal);
    expect(refusalOf(admit('alice'))).toBe(
      'As many queries as may wait under limit default/people do, 1 (maxQueued); send the query again later. Ask in #data-platform.',
    );
    waits(admit('bob'));
    expect(refusalOf(admit('carol'))).toContain(
      'As many queries as may wait for routing group adhoc do, 2 (queue.maxQueued)',
    );
    expect(refused).toEqual([['group:adhoc', 'limit:default/people'], ['group:adhoc']]);
    leaves.abort();
    alices.slots?.release();
    waits(admit('carol'));
  });

  test('count one that waited too long as refused, by its group and the limits that were full', async () => {
    const { admit, slotsOf, waits, refused } = world({
      limits: [limit({ per: 'user', maxRunning: 1 }), limit({ key: 'default/others', maxRunning: 5 })],
      isKeeping: true,
    });
    await slotsOf(admit());
    const late = waits(admit());
    void late.begin(new AbortController().signal);
    expect(refused).toEqual([]);
    late.noteLate?.();
    expect(refused).toEqual([['group:adhoc', 'limit:default/people']]);
  });

  test('those that wait at other replicas count as well, as of the last beat', async () => {
    const { state, admit, beat, slotsOf, waits, counters } = world({
      groups: [groupPolicy('adhoc', { maxRunning: 1, queue: { maxQueued: 3 } })],
    });
    await slotsOf(admit());
    const elsewhere = (waiting: number) => {
      const row = { replica: 'other', granted: 0, inUse: 0, waiting, expires: state.now + 60_000 };
      counters.set('queue:group:adhoc', { rows: [row], bucket: null });
    };
    const first = waits(admit());
    elsewhere(2);
    await beat();
    const answer = admit();
    expect(answer.answer === 'refuse' ? answer.refusal.message : '').toContain(
      'As many queries as may wait for routing group adhoc do, 3 (queue.maxQueued)',
    );
    elsewhere(1);
    await beat();
    waits(admit()).slots?.release();
    first.slots?.release();
  });

  test('of mode observe refuse nobody: what would have waited is counted', async () => {
    const { admit, slotsOf, metric, ledger, beat, refused } = world({
      limits: [limit({ mode: 'observe', maxRunning: 1 })],
    });
    const all: QuerySlots[] = [];
    for (let query = 0; query < 3; query++) {
      const answer = admit();
      expect(answer.answer).toBe('now');
      all.push(await slotsOf(answer));
      await beat();
    }
    expect(await metric('engine_gateway_limit_observed_total')).toEqual([
      { labels: { limit: 'limit:default/people' }, value: 2 },
    ]);
    expect(refused).toEqual([['limit:default/people'], ['limit:default/people']]);
    expect(ledger.inUse('limit:default/people')).toBe(3);
    for (const slots of all) slots.release();
    expect(ledger.inUse('limit:default/people')).toBe(0);
  });

  test('of a rate admit a burst, then as many as the period says', async () => {
    const rate = { queries: 4, periodMs: 1_000, burst: 3 };
    const { admit, slotsOf, waits, beat } = world({ limits: [limit({ rate })] });
    (await slotsOf(admit())).release();
    const answers = Array.from({ length: 4 }, () => admit());
    // One was taken, and half a second has filled the bucket since.
    expect(answers.map(({ answer }) => answer)).toEqual(['now', 'now', 'now', 'wait']);
    const next = waits(answers[3] as AdmissionAnswer);
    const ended = next.begin(new AbortController().signal);
    for (let turn = 0; turn < 4; turn++) await beat();
    expect(await ended).toBeNull();
  });

  test('of clusters: the others are picked, and when all are full it waits for one', async () => {
    const clusters = ['one', 'two'].map((name) => ({
      ...clusterAt(name, `http://${name}:8080`),
      maxRunningQueries: 1,
    }));
    const { admit, slotsOf, waits, admission, table, beat } = world({ clusters });
    const entry = (name: string) => table.current.clusters.get(name) as never;
    const first = await slotsOf(admit());
    first.beginChoice();
    expect(first.takeCluster(entry('one'))).toBeNull();
    expect(admission.hasRoom('one')).toBe(false);
    const second = await slotsOf(admit());
    second.beginChoice();
    expect(admission.hasRoom('two')).toBe(true);
    expect(second.takeCluster(entry('two'))).toBeNull();
    const third = waits(admit());
    const ended = third.begin(new AbortController().signal);
    // Another cluster takes its place after a failure: the slot of the first one is free.
    first.release();
    await beat();
    expect(await ended).toBeNull();
    third.slots?.beginChoice();
    expect(third.slots?.takeCluster(entry('two'))).toMatchObject({ reason: 'queue_full' });
    expect(third.slots?.takeCluster(entry('one'))).toBeNull();
    const bound = admission.countBound({ decision: { group: 'adhoc' } } as never);
    expect(bound?.takeCluster(entry('one'))).toBeNull();
  });

  test('say the place of each that waits, and admit first what an administrator moved', async () => {
    const { admit, slotsOf, waits, beat, table, state } = world({
      isKeeping: true,
      groups: [groupPolicy('adhoc', { maxRunning: 1 })],
      limits: [
        limit({
          per: 'user',
          match: { users: (user) => user === 'bob', groups: null, sources: null, routingGroups: null },
          maxRunning: 5,
          weight: 2,
        }),
      ],
    });
    let running = await slotsOf(admit());
    const names = ['alice', 'alice', 'alice', 'bob', 'bob'];
    const all = names.map((name) => waits(admit(name)));
    const ended: number[] = [];
    for (const [index, wait] of all.entries()) {
      void wait.begin(new AbortController().signal).then(() => ended.push(index));
      state.now += 100;
    }
    const places = () => all.map(({ place }) => place?.position()?.position ?? null);
    state.now += 1_000;
    expect(places()).toEqual([1, 4, 5, 2, 3]);
    expect(all[1]?.place?.why()).toBe('group adhoc: 1 of 1 running (maxRunningQueries of the group)');
    expect(all[1]?.slots?.note).toBe(`${all[1]?.place?.why()}; waits as 2nd of 2 (fair by user, weight 1)`);
    all[2]?.place?.moveFirst();
    expect(places()).toEqual([2, 5, 1, 3, 4]);
    const order: (string | null | undefined)[] = [];
    for (let turn = 0; turn < all.length; turn++) {
      running.release();
      await beat();
      const next = all[ended.at(-1) ?? 0]?.slots as QuerySlots;
      expect(next.takeCluster(table.current.clusters.get('one') as never)).toBeNull();
      order.push(next.note);
      running = next;
    }
    expect(ended).toEqual([2, 0, 3, 4, 1]);
    expect(places()).toEqual([null, null, null, null, null]);
    const why = 'group adhoc: 1 of 1 running (maxRunningQueries of the group)';
    expect(order).toEqual([
      `${why}; waited 1.8 s as 3rd of 3 (fair by user, weight 1), moved first by an administrator; admitted to one`,
      `${why}; waited 2.0 s as 1st of 1 (fair by user, weight 1); admitted to one`,
      `${why}; waited 2.3 s as 2nd of 4 (fair by user, weight 2); admitted to one`,
      `${why}; waited 2.5 s as 3rd of 5 (fair by user, weight 2); admitted to one`,
      `${why}; waited 2.8 s as 2nd of 2 (fair by user, weight 1); admitted to one`,
    ]);
  });

  test('a client that goes away leaves no place behind', async () => {
    const { admit, slotsOf, waits, ledger } = world({ limits: [limit({ maxRunning: 1 })] });
    const first = await slotsOf(admit());
    const leave = new AbortController();
    const second = waits(admit());
    void second.begin(leave.signal);
    expect([...ledger.states()][0]).toMatchObject({ inUse: 1, waiting: 1 });
    leave.abort();
    second.slots?.release();
    first.release();
    await new Promise((resolve) => setImmediate(resolve));
    expect([...ledger.states()][0]).toMatchObject({ inUse: 0, waiting: 0 });
  });

  test.each([
    ['refuse' as const, 'The database of the gateway is unavailable'],
    ['admit' as const, null],
  ])('while the database is unavailable: %s', async (onDatabaseUnavailable, message) => {
    const { state, admit, waits } = world({
      limits: [limit({ maxRunning: 5 })],
      groups: [groupPolicy('adhoc', { queue: { holdMs: 5 } })],
      onDatabaseUnavailable,
    });
    state.isDatabaseAway = true;
    const refusal = await waits(admit()).begin(new AbortController().signal);
    if (message === null) expect(refusal).toBeNull();
    else expect(refusal?.message).toContain(message);
  });
});

describe('slots of a running query are given back', () => {
  async function bound() {
    const all = world({ limits: [limit({ maxRunning: 5 })] });
    (await all.slotsOf(all.admit())).bind(id, 'one');
    expect(all.ledger.inUse('limit:default/people')).toBe(1);
    return { ...all, inUse: () => all.ledger.inUse('limit:default/people') };
  }

  test('when another replica sees its end', async () => {
    const { running, elsewhere, inUse, stored } = await bound();
    elsewhere.push(id);
    await running.exchange();
    expect(inUse()).toBe(0);
    running.noteEnd('20261101_000000_00002_aaaaa', 'one');
    await running.exchange();
    expect(stored).toEqual(['20261101_000000_00002_aaaaa']);
  });

  test('when nobody asks about it for five minutes, on any replica', async () => {
    const { running, state, seen, inUse } = await bound();
    state.now += 310_000;
    seen.set(id, state.now - 60_000);
    await running.exchange();
    expect(inUse()).toBe(1);
    // The database may have the time of the last request a minute late.
    state.now += 320_000;
    await running.exchange();
    expect(inUse()).toBe(0);
  });

  test('no sooner than that after this replica was cut off or paused: clients may have asked elsewhere without a trace', async () => {
    const { running, state, ledger, inUse } = await bound();
    // Noted, so that the database has it for this replica as well.
    await running.exchange();
    state.now += 380_000;
    await running.reconcile(() => ledger.adopt([]));
    await running.exchange();
    expect(inUse()).toBe(1);
    state.now += 310_000;
    await running.exchange();
    expect(inUse()).toBe(0);
  });

  test('when its coordinator was restarted, or its cluster removed', async () => {
    const one = await bound();
    one.running.watchCoordinators((queryId) => queryId === id);
    await one.running.exchange();
    expect(one.inUse()).toBe(0);
    const other = await bound();
    other.table.setInputs({ clusters: [], rules: null, admission: other.table.current.admission });
    await other.running.exchange();
    expect(other.inUse()).toBe(0);
  });
});

describe('queries that use slots', () => {
  test('are noted before a lease is renewed, however late', async () => {
    const { running, state, admit, slotsOf, noted } = world({ limits: [limit({ maxRunning: 5 })] });
    (await slotsOf(admit())).bind(id, 'one');
    await running.noteLate();
    expect(noted).toEqual([]);
    state.now += 3_000;
    state.isDatabaseAway = true;
    await running.exchange();
    await expect(running.noteLate()).rejects.toThrow('unavailable');
    state.isDatabaseAway = false;
    await running.noteLate();
    expect(noted).toMatchObject([{ queryId: id, cluster: 'one' }]);
  });
});
