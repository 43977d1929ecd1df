import { pino } from 'pino';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { openStore } from '../../src/store/openStore.ts';
import { type ApiServer, startApi } from '../support/apiServer.ts';
import { requireComponent } from '../support/components.ts';
import { databases } from '../support/databases.ts';
import { type Distribution, installEngine, missingTools } from './distribution.ts';
import { startTrino, type TrinoServer } from './trinoServer.ts';

const logger = pino({ level: 'silent' });
const missing = await missingTools();
const present = requireComponent(missing.join(', '), missing.length === 0, 'install them');

/** What a test started, closed last first. */
let parts = new AsyncDisposableStack();
afterEach(async () => {
  await parts.disposeAsync();
  parts = new AsyncDisposableStack();
});

interface QueryInfo {
  readonly resourceGroupId?: readonly string[];
  readonly errorName?: string;
}

/** Runs a query on the engine itself, to its end; answers the group it ran in, or its error. */
async function run(engine: TrinoServer, user: string, source = 'suite'): Promise<QueryInfo> {
  const headers = { 'X-Trino-User': user, 'X-Trino-Source': source };
  let page = await fetch(`${engine.url}/v1/statement`, { method: 'POST', headers, body: 'select 1' });
  let body = (await page.json()) as { id: string; nextUri?: string; error?: { errorName: string } };
  while (body.nextUri !== undefined) {
    page = await fetch(body.nextUri, { headers });
    body = (await page.json()) as typeof body;
  }
  if (body.error !== undefined) return { errorName: body.error.errorName };
  const info = await fetch(`${engine.url}/v1/query/${body.id}`, { headers });
  return { resourceGroupId: ((await info.json()) as QueryInfo).resourceGroupId ?? [] };
}

/** The engine reads the tables about every second. */
const obeys = (check: () => Promise<void>) => vi.waitFor(check, { timeout: 30_000, interval: 500 });

const orders = [
  ['mysql', 'ours first'],
  ['postgresql', 'engine first'],
] as const;

describe.each(orders)('%s, %s', (dialect, order) => {
  const family = databases.find(({ name }) => name === dialect);

  test.skipIf(!present || family === undefined || !family.available())(
    'a real engine obeys what the API wrote a moment before, without restart',
    async () => {
      const distribution: Pick<Distribution, 'java' | 'server'> = await installEngine();
      const server = await family?.start();
      if (server === undefined) throw new Error(`${dialect} did not start`);
      parts.defer(() => server.dispose());
      const settings = await server.create();
      const manager = {
        'resource-groups.configuration-manager': 'db',
        'resource-groups.config-db-url': settings.jdbcUrl,
        'resource-groups.config-db-user': settings.user,
        'resource-groups.config-db-password': settings.password,
      };
      const lines = Object.entries(manager).map(([key, value]) => `${key}=${value}\n`);
      const startEngine = async () => {
        const engine = await startTrino(`groups-${dialect}`, distribution, {
          'resource-groups.properties': lines.join(''),
        });
        parts.defer(() => engine.kill());
        return engine;
      };
      const early = order === 'engine first' ? await startEngine() : null;
      const store = await openStore({ ...settings, runMigrations: true, logger });
      parts.defer(() => store.close());
      const stores = store.resourceGroups({ allowed: null, maxOpen: 1 });
      parts.defer(() => stores.close());
      const api: ApiServer = await startApi({ product: 'Trino', resourceGroups: stores });
      parts.defer(() => api.close());
      const engine = early ?? (await startEngine());
      const post = async (path: string, body: unknown) => {
        const answer = await api.call('POST', `/trino/${path}`, { body: JSON.stringify(body) });
        expect([answer.status, answer.status === 200 || answer.text]).toEqual([200, true]);
        return answer.text === '' ? null : answer.json();
      };

      const limits = { softMemoryLimit: '100%', maxQueued: 10, hardConcurrencyLimit: 5, environment: 'test' };
      const root = await post('resourcegroup/create', { ...limits, name: 'global' });
      const users = await post('resourcegroup/create', {
        ...limits,
        name: 'user-${USER}',
        parent: root.resourceGroupId,
        softMemoryLimit: '1GB',
      });
      const selector = {
        resourceGroupId: users.resourceGroupId,
        priority: 1,
        userRegex: 'bo+b|eve',
        sourceRegex: 'sui.*',
      };
      const stored = await post('selector/create', selector);
      await obeys(async () => expect(await run(engine, 'bob')).toEqual({ resourceGroupId: ['global', 'user-bob'] }));
      expect(await run(engine, 'mallory')).toEqual({ errorName: 'QUERY_REJECTED' });

      // Everybody else into the root, by a selector that bob's outranks.
      await post('selector/create', { resourceGroupId: root.resourceGroupId, priority: 0 });
      await obeys(async () => expect(await run(engine, 'mallory')).toEqual({ errorName: 'INVALID_RESOURCE_GROUP' }));
      const other = await post('resourcegroup/create', { ...limits, name: 'other', parent: root.resourceGroupId });
      const [everybody] = (await api.call('GET', `/trino/selector/read/${root.resourceGroupId}`)).json();
      await post('selector/update', {
        current: everybody,
        update: { ...everybody, resourceGroupId: other.resourceGroupId },
      });
      await obeys(async () => expect(await run(engine, 'mallory')).toEqual({ resourceGroupId: ['global', 'other'] }));

      // The engine's own migrations have run by now, in either order: its columns can be written.
      const original = { ...stored, originalUserRegex: 'eve' };
      await post('selector/update', { current: stored, update: original });
      await obeys(async () => {
        expect(await run(engine, 'bob')).toEqual({ resourceGroupId: ['global', 'other'] });
        expect(await run(engine, 'eve')).toEqual({ resourceGroupId: ['global', 'user-eve'] });
      });

      await post('resourcegroup/update', { ...other, maxQueued: 0, hardConcurrencyLimit: 0 });
      await obeys(async () => expect(await run(engine, 'bob')).toEqual({ errorName: 'QUERY_QUEUE_FULL' }));
      await post('globalproperty/create', { name: 'cpu_quota_period', value: '1h' });
      await post('resourcegroup/update', { ...other, softCpuLimit: '30m', hardCpuLimit: '1h' });
      await obeys(async () => expect(await run(engine, 'bob')).toEqual({ resourceGroupId: ['global', 'other'] }));
    },
  );
});
