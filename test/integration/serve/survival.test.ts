import { pino } from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openStore } from '../../../src/store/openStore.ts';
import { postgresql, type TestDatabase } from '../../support/databases.ts';
import { closeAll } from '../../support/gateway.ts';
import { manifest } from '../../support/manifest.ts';
import { type MortalEngine, startMortalEngine } from '../../support/mortalEngine.ts';
import { sharedSecret } from '../../support/queueing.ts';
import { follow, pathOf, submit } from '../../support/statementClient.ts';
import { call, worldOf } from '../../support/world.ts';

const world = worldOf('test');
let server: TestDatabase;
let engines: readonly [MortalEngine, MortalEngine];

beforeEach(async () => {
  server = await postgresql.start();
  engines = [await startMortalEngine('aaaaa', 'of a'), await startMortalEngine('bbbbb', 'of b')];
  await world.declare(
    manifest('EngineCluster', 'a', { proxyTo: engines[0].url, routingGroup: 'adhoc' }),
    manifest('EngineCluster', 'b', { proxyTo: engines[1].url, routingGroup: 'spare' }),
    manifest('RoutingGroup', 'adhoc', { survival: { reasons: ['ClusterLost'], to: ['spare'] } }),
  );
});
afterEach(async () => {
  await closeAll();
  await server?.dispose();
});

test.skipIf(!postgresql.available())(
  'a read continues at another replica after cluster and replica are gone, and each of its ids finds it',
  async () => {
    const { jdbcUrl, user, password } = await server.create();
    const settings = {
      ...sharedSecret,
      dataStore: { jdbcUrl, user, password },
      monitor: { taskDelay: '1s' },
      queryHistory: { writeBeforeAnswer: true },
    };
    const gateway = await world.startReady(settings);
    const declared = await call(gateway, 'GET', '/api/groups/adhoc');
    expect(declared.json).toMatchObject({ spec: { survival: { to: ['spare'] } } });
    const explained = async (body: string) => (await call(gateway, 'POST', '/api/explain', { body })).json.survival;
    expect(await explained('SELECT a FROM c.s.t')).toEqual({ reasons: ['ClusterLost'], to: ['spare'] });
    expect(await explained('DELETE FROM c.s.t')).toBeNull();
    const first = await submit(gateway.url, 'SELECT a FROM c.s.t');
    engines[1].page = 'rows';
    engines[0].forget('ccccc');
    await gateway.stop('SIGKILL');
    const other = await world.startReady(settings);
    const rows: unknown[] = [];
    let page = first;
    while (page.nextUri !== undefined) {
      page = await follow(`${other.url}${pathOf(page.nextUri)}`);
      rows.push(...(page.data ?? []));
    }
    expect(rows).toEqual([['of b']]);
    const found = async (id: string) => (await call(other, 'GET', `/api/queries/${id}`)).json;
    await expect.poll(async () => (await found(first.id))?.outcome?.state).toBe('RETRIED');
    const { queuedAs } = await found(page.id);
    expect((await found(first.id)).outcome.errorMessage).toContain(`continued as ${queuedAs}`);
    expect((await found(queuedAs)).queryId).toBe(page.id);
    expect((await found(page.id)).decision.attempts).toMatchObject([
      { cluster: 'a', error: expect.stringContaining(first.id) },
    ]);
    const { text: metrics } = await call(other, 'GET', '/metrics');
    expect(metrics).toContain('engine_gateway_queries_ended_total{state="retried"} 1');
  },
  60_000,
);

test.skipIf(!postgresql.available())(
  'a quarantined statement is listed, is a problem, and is released by REST with an entry of the audit',
  async () => {
    const { jdbcUrl, user, password } = await server.create();
    const dataStore = { jdbcUrl, user, password };
    const gateway = await world.startReady({ ...sharedSecret, dataStore, monitor: { taskDelay: '1s' } });
    const store = await openStore({ ...dataStore, runMigrations: false, logger: pino({ level: 'silent' }) });
    const digests = { exactDigest: '00000000000000e1', digest: '00000000000000d1' };
    const lost = { group: 'adhoc', user: 'ann', qualifier: 'c.s', ...digests };
    for (const cluster of ['a', 'b']) await store.quarantine.note({ ...lost, cluster, queryId: `of ${cluster}` });
    await store.close();
    const list = async () => (await call(gateway, 'GET', '/api/quarantine')).json.quarantined;
    const entry = { routingGroup: 'adhoc', ...digests, clusters: ['a', 'b'], users: ['ann'], canRelease: true };
    expect(await list()).toMatchObject([entry]);
    const { problems } = (await call(gateway, 'GET', '/api/overview/problems')).json;
    const reason = expect.stringContaining('adhoc rejects statement 00000000000000e1 until');
    expect(problems).toContainEqual(
      expect.objectContaining({ kind: 'StatementQuarantined', groups: ['adhoc'], reason }),
    );
    const release = (group: string) => call(gateway, 'DELETE', `/api/quarantine/${group}/${digests.exactDigest}`);
    expect((await release('spare')).status).toBe(404);
    expect((await release('adhoc')).status).toBe(204);
    expect(await list()).toEqual([]);
    const { changes } = (await call(gateway, 'GET', '/api/audit?kind=QuarantinedStatement')).json;
    expect(changes).toMatchObject([{ action: 'delete', name: digests.exactDigest, before: entry }]);
  },
  60_000,
);
