import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Condition } from '../../../src/model/condition.ts';
import type { ResourceKey } from '../../../src/model/resource.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import type { NewObservation } from '../../../src/store/store.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';
import { clusterKey, type OperatorRig, quickDatabase, startOperator } from '../../support/operatorRig.ts';

const logger = pino({ enabled: false });
const until = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 30_000, interval: 20 });

const rule: ResourceKey = { kind: 'RoutingRule', namespace: 'default', name: 'r' };
const honoured = { ok: true, message: 'Follow-up URLs of the cluster point to the gateway.' };
const refused = { ok: false, message: 'The cluster answers 406 to forwarded headers.' };

for (const family of databases) {
  describe.skipIf(!family.available())(`what replicas observe, shared through ${family.name}`, () => {
    let server: TestDatabase;
    let settings: Awaited<ReturnType<TestDatabase['create']>>;
    const stops: (() => Promise<void>)[] = [];
    /** Transitions of the two conditions, as `type status reason`, of all replicas. */
    let transitions: string[];
    beforeAll(async () => {
      server = await family.start();
    });
    beforeEach(async () => {
      settings = await server.create();
      transitions = [];
    });
    afterEach(async () => {
      for (const stop of stops.splice(0).reverse()) await stop();
    });
    afterAll(() => server?.dispose());

    const open = async (): Promise<KnexStore> => {
      const store = await openStore({ ...settings, runMigrations: true, logger });
      stops.push(() => store.close());
      return store;
    };
    const replica = async (): Promise<OperatorRig & { readonly store: KnexStore }> => {
      const store = await open();
      const rig = await startOperator(store, quickDatabase(store), {
        controller: {
          onTransition: ({ condition: { type, status, reason }, before }) => {
            if (type === 'Failing' || (type === 'ForwardedHeaders' && before !== null)) {
              transitions.push(`${type} ${status} ${reason}`);
            }
          },
        },
      });
      stops.push(() => rig.stop());
      return { ...rig, store };
    };
    const condition = ({ source }: OperatorRig, key: ResourceKey, type: string): Condition | undefined =>
      source.get(key)?.status?.conditions?.find((candidate) => candidate.type === type);
    const forwarded = (rig: OperatorRig) => condition(rig, clusterKey('a'), 'ForwardedHeaders');
    const failing = (rig: OperatorRig) => condition(rig, rule, 'Failing');
    const rows = (store: KnexStore) => store.database.knex('eg_observations').orderBy(['kind', 'name']);

    /** Changes fields, whatever status comes between. */
    const change = ({ source }: OperatorRig, key: ResourceKey, set: Readonly<Record<string, unknown>>) =>
      until(async () => {
        const expectedVersion = source.get(key)!.metadata.resourceVersion;
        await source.apply(key, { set, remove: [], annotations: {} }, { force: false, expectedVersion });
      });

    /** Two replicas with a cluster and a rule; the first leads. */
    const twoReplicas = async () => {
      const leader = await replica();
      await until(() => expect(leader.leadership.isLeader).toBe(true));
      const clusterSpec = { proxyTo: 'http://a:8080', routingGroup: 'adhoc' };
      await leader.source.create({ ...clusterKey('a'), spec: clusterSpec });
      await leader.source.create({ ...rule, spec: { condition: 'true', routeTo: { routingGroup: 'adhoc' } } });
      await until(() => expect(condition(leader, rule, 'Programmed')?.status).toBe('True'));
      await until(() => expect(forwarded(leader)?.status).toBe('Unknown'));
      const follower = await replica();
      await until(() => expect(follower.source.get(rule)).not.toBeNull());
      await until(() => expect(follower.controller.outcomes.size).toBe(2));
      return { leader, follower };
    };

    test('is in the statuses that the leader writes, and stays there when another leads', async () => {
      const { leader, follower } = await twoReplicas();
      follower.controller.reportRuleFailure('r', 'line 1: no such header');
      follower.controller.reportForwardedHeaders('a', refused);
      await until(() => {
        expect(failing(leader)).toMatchObject({ status: 'True', message: 'line 1: no such header' });
        expect(forwarded(leader)).toMatchObject({ status: 'False', message: refused.message });
      });
      // What the leader alone observed is known to the other one when it leads.
      leader.controller.reportForwardedHeaders('a', honoured);
      await until(() => expect(forwarded(leader)?.status).toBe('True'));
      await until(async () => expect(await rows(leader.store)).toHaveLength(3));
      await until(() => expect(forwarded(follower)?.status).toBe('True'));
      await leader.stop();
      await until(() => expect(follower.leadership.isLeader).toBe(true));
      // A change has every status of the cluster written again.
      await change(follower, clusterKey('a'), { weight: 7 });
      await until(() => expect(condition(follower, clusterKey('a'), 'Ready')?.observedGeneration).toBe(2));
      expect(forwarded(follower)).toMatchObject({ status: 'True', observedGeneration: 2 });
      expect(failing(follower)).toMatchObject({ status: 'True' });
      // Nor did they go and come back in between.
      expect(transitions.slice().sort()).toEqual([
        'Failing True EvaluationError',
        'ForwardedHeaders False NotHonoured',
        'ForwardedHeaders True Honoured',
      ]);
    });

    test('ends with a change of the rule, and the rows with the resources', async () => {
      const { leader, follower } = await twoReplicas();
      follower.controller.reportRuleFailure('r', 'fails');
      follower.controller.reportForwardedHeaders('a', refused);
      await until(() => expect(failing(leader)?.status).toBe('True'));
      await until(() => expect(forwarded(leader)?.status).toBe('False'));
      await change(leader, rule, { description: 'better' });
      await until(() => {
        expect(condition(leader, rule, 'Ready')).toMatchObject({ status: 'True', observedGeneration: 2 });
        expect(failing(leader)).toBeUndefined();
      });
      for (const key of [rule, clusterKey('a')]) await leader.source.delete(key, null);
      await until(async () => expect(await rows(leader.store)).toEqual([]));
      // One of the same name is another cluster.
      await leader.source.create({ ...clusterKey('a'), spec: { proxyTo: 'http://a:8080', routingGroup: 'adhoc' } });
      await until(() => expect(forwarded(leader)).toMatchObject({ status: 'Unknown', reason: 'NotObserved' }));
    });

    test('of the replicas the latest observation holds, and that of a replica that has ended is forgotten', async () => {
      const { leader, follower } = await twoReplicas();
      const { uid } = leader.source.get(clusterKey('a'))!.metadata;
      const observe = (replicaName: string, ageMs: number, lifetimeMs: number, finding: typeof honoured) =>
        leader.store.observations.put(replicaName, [
          { key: clusterKey('a'), type: 'ForwardedHeaders', uid, generation: 1, ...finding, ageMs, lifetimeMs },
        ]);
      await observe('older', 60_000, 600_000, honoured);
      await until(() => expect(forwarded(leader)?.status).toBe('True'));
      await observe('ended', 30_000, 2_500, refused);
      await until(() => expect(forwarded(leader)?.status).toBe('False'));
      await until(() => expect(forwarded(leader)?.status).toBe('True'));
      await observe('ended', 0, 600_000, refused);
      await until(() => expect(forwarded(leader)?.status).toBe('False'));
      // This replica's own is later again, and so is the follower's.
      leader.controller.reportForwardedHeaders('a', honoured);
      await until(() => expect(forwarded(leader)?.status).toBe('True'));
      follower.controller.reportForwardedHeaders('a', refused);
      await until(() => expect(forwarded(leader)?.status).toBe('False'));
      leader.controller.reportForwardedHeaders('a', honoured);
      await until(() => expect(forwarded(leader)?.status).toBe('True'));
    });

    test('is stored in batches of any size and with any text, and deleted when its time is over', async () => {
      const { observations, leader } = await open();
      const observation = (index: number, more: Partial<NewObservation> = {}): NewObservation => ({
        ...{ key: { ...rule, name: `r${index}` }, type: 'Failing', uid: `u${index}`, generation: 3, ok: false },
        ...{ message: 'x', ageMs: 1_000.4, lifetimeMs: 60_000, ...more },
      });
      const message = `\0\ud800'"\\ 🚀${'é'.repeat(5_000)}`;
      const many = Array.from({ length: 1_200 }, (_, index) => observation(index, { message }));
      await observations.put(`${'host'.repeat(40)}-one`, many);
      await observations.put(`${'host'.repeat(40)}-two`, [observation(1), observation(2, { lifetimeMs: -1 })]);
      const ofOne = await observations.others('two', null);
      const first = ofOne.observations.find(({ key, replica: name }) => key.name === 'r0' && name.endsWith('-one'));
      expect(ofOne.observations).toHaveLength(1_201);
      expect(first).toMatchObject({ uid: 'u0', generation: 3, ok: false });
      expect([...(first?.message ?? '')].length).toBe(1_024);
      expect(first?.message.startsWith(`\ufffd'"\\ 🚀é`)).toBe(true);
      expect(first?.ageMs).toBeGreaterThanOrEqual(1_000);
      expect(first?.remainingMs).toBeGreaterThan(0);
      expect((await observations.others(`${'host'.repeat(40)}-one`, null)).observations).toHaveLength(1);
      // What is stored again replaces what there was.
      await observations.put(`${'host'.repeat(40)}-two`, [observation(1, { message: 'y' })]);
      const later = await observations.others(`${'host'.repeat(40)}-one`, ofOne.mark);
      expect(later.observations.map((one) => one.message)).toEqual(['y']);
      expect((await observations.others('three', ofOne.mark + 100_000)).observations).toEqual([]);
      expect(await observations.deleteExpired(await leader.acquire('me', 60_000))).toBe(1);
      expect(await observations.deleteExpired({ holder: 'other', epoch: 0 })).toBe(0);
      await observations.remove(many.map(({ key }) => key));
      expect((await observations.others('three', null)).observations).toEqual([]);
    });
  });
}
