import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type KnexStore, openStore } from '../../../../src/store/openStore.ts';
import { accessSettings } from '../../../support/access.ts';
import { type ApiServer, startApi } from '../../../support/apiServer.ts';
import { oneDatabase, type TestDatabase } from '../../../support/databases.ts';
import { sessionKeyPaths } from '../../../support/sessionKeyPair.ts';

const logger = pino({ level: 'silent' });
const keys = sessionKeyPaths();

describe('sessions of two replicas', () => {
  let server: TestDatabase;
  const stores: KnexStore[] = [];
  const replicas: ApiServer[] = [];
  let ahead = 0;

  beforeAll(async () => {
    server = await oneDatabase.start();
    const connection = await server.create();
    const access = accessSettings(`
authentication:
  form: {selfSignKeyPair: {privateKeyRsa: ${keys.privateKeyRsa}, publicKeyRsa: ${keys.publicKeyRsa}}}
presetUsers: {root: {password: root, privileges: API}}
`);
    const clock = { now: () => Date.now() + ahead, monotonic: () => performance.now() + ahead };
    for (let replica = 0; replica < 2; replica++) {
      const store = await openStore({ ...connection, runMigrations: true, logger });
      stores.push(store);
      replicas.push(await startApi({ access, accessDependencies: { revocations: store.endedSessions, clock } }));
    }
  });
  afterAll(async () => {
    for (const replica of replicas) await replica.close();
    for (const store of stores) await store.close();
    await server?.dispose();
  });

  it('ends a session on both when it is ended on one', async () => {
    const [one, two] = replicas as [ApiServer, ApiServer];
    const login = await one.call('POST', '/login', { body: '{"username":"root","password":"root"}' });
    const headers = { Authorization: `Bearer ${login.json().data.token}` };
    expect((await two.call('GET', '/gateway', { headers })).status).toBe(200);
    await one.call('POST', '/logout', { headers });
    expect((await one.call('GET', '/gateway', { headers })).status).toBe(401);
    ahead += 5_001;
    expect((await two.call('GET', '/gateway', { headers })).status).toBe(401);
  });
});
