import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { openStore } from '../../src/store/openStore.ts';
import { type ApiServer, startApi } from '../support/apiServer.ts';
import { requireComponent } from '../support/components.ts';
import { databases, type TestDatabase } from '../support/databases.ts';
import { startGateway } from '../support/gatewayProcess.ts';
import { randomOf } from '../support/groupCases.ts';
import { manifest } from '../support/manifest.ts';
import { installDistribution, missingTools } from './distribution.ts';
import { startTrino, type TrinoServer } from './trinoServer.ts';

const logger = pino({ level: 'silent' });
const missing = await missingTools();
const present = requireComponent(missing.join(', '), missing.length === 0, 'install them');

interface QueryInfo {
  readonly resourceGroupId?: readonly string[];
  readonly errorName?: string;
}

/** Runs a query to its end, on the engine itself or through `front`; answers the group it ran in, or its error. */
async function run(
  engine: Pick<TrinoServer, 'url'>,
  user: string,
  more: object = {},
  sql = 'select 1',
  front = engine.url,
): Promise<QueryInfo> {
  const headers = { 'X-Trino-User': user, 'X-Trino-Source': 'suite', ...more };
  let page = await fetch(`${front}/v1/statement`, { method: 'POST', headers, body: sql });
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

  const isPossible = present && family?.available() === true;
  const parts = new AsyncDisposableStack();
  let settings: Awaited<ReturnType<TestDatabase['create']>>;
  let engine: TrinoServer;
  let api: ApiServer;

  beforeAll(async () => {
    if (!isPossible) return;
    const distribution = await installDistribution();
    const server = await family.start();
    parts.defer(() => server.dispose());
    settings = await server.create();
    const manager = {
      'resource-groups.configuration-manager': 'db',
      'resource-groups.config-db-url': settings.jdbcUrl,
      'resource-groups.config-db-user': settings.user,
      'resource-groups.config-db-password': settings.password,
    };
    const lines = Object.entries(manager).map(([key, value]) => `${key}=${value}\n`);
    const startEngine = async () => {
      const started = await startTrino(`groups-${dialect}`, distribution, {
        'resource-groups.properties': lines.join(''),
      });
      parts.defer(() => started.kill());
      return started;
    };
    const early = order === 'engine first' ? await startEngine() : null;
    const store = await openStore({ ...settings, runMigrations: true, logger });
    parts.defer(() => store.close());
    const stores = store.resourceGroups({ allowed: null, maxOpen: 1 });
    parts.defer(() => stores.close());
    api = await startApi({ product: 'Trino', resourceGroups: stores });
    parts.defer(() => api.close());
    engine = early ?? (await startEngine());
  }, 540_000);
  afterAll(() => parts.disposeAsync());

  test.runIf(isPossible)('a real engine obeys what the API wrote a moment before, without restart', async () => {
    const post = async (path: string, body: unknown) => {
      const response = await api.call('POST', `/trino/${path}`, { body: JSON.stringify(body) });
      expect([response.status, response.status === 200 || response.text]).toEqual([200, true]);
      return response.text === '' ? null : response.json();
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

    // The group of each query is the one that the API says before it is sent.
    const place = async (name: string, priority: number, conditions: object) => {
      const made = await post('resourcegroup/create', { ...limits, name, parent: root.resourceGroupId });
      await post('selector/create', { resourceGroupId: made.resourceGroupId, priority, ...conditions });
    };
    await place('nightly', 20, { clientTags: '["nightly"]', sourceRegex: 'dbt.*|suite' });
    await place('explains-${USER}', 15, { queryType: 'explain', userRegex: '[a-l].*' });
    await place('team-${team}', 12, { userRegex: '(?<team>[a-z]+)_\\d+', authenticatedUserRegex: '.*1' });
    const short = '{"executionTime": {"max": "5m"}}';
    await place('model-${model}', 11, { sourceRegex: 'dbt-(?<model>.+)', selectorResourceEstimate: short });
    await obeys(async () => expect(await run(engine, 'etl_1')).toEqual({ resourceGroupId: ['global', 'team-etl'] }));
    const random = randomOf(order.length);
    const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
    const statements = [
      ['select 1', 'SELECT'],
      ['explain select 1', 'EXPLAIN'],
      ['show catalogs', 'DESCRIBE'],
    ] as const;
    const groups = new Set<string>();
    for (let query = 0; query < 50; query++) {
      const user = pick(['ann', 'bob', 'eve', 'etl_1', 'etl_22', 'mallory']);
      const source = pick(['suite', 'dbt-a', 'dbt-', 'cli']);
      const clientTags = pick([[], ['nightly'], ['hi', 'nightly'], ['hi']]);
      const [sql, queryType] = pick(statements);
      const executionTime = pick([null, '4m', '5m', '6m']);
      const headers = {
        'X-Trino-Source': source,
        'X-Trino-Client-Tags': clientTags.join(','),
        ...(executionTime === null ? {} : { 'X-Trino-Resource-Estimate': `EXECUTION_TIME=${executionTime}` }),
      };
      const question = { user, source, clientTags, queryType, resourceEstimates: { executionTime } };
      const explained = await api.call('POST', '/api/resourcegroups/explain', { body: JSON.stringify(question) });
      const { group, problems } = explained.json();
      expect({ question, problems, ...(await run(engine, user, headers, sql)) }).toEqual({
        question,
        problems: [],
        resourceGroupId: group,
      });
      groups.add(group.join('.'));
    }
    expect(groups.size).toBeGreaterThan(7);
  });

  // Uses the rows of the test before: the resource replaces them.
  test.runIf(isPossible)('places queries as `explain` says before and after a change in Git', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'groups-git-'));
    await using own = new AsyncDisposableStack();
    own.defer(() => rm(folder, { recursive: true, force: true }));
    const origin = join(folder, 'origin');
    const checkout = join(folder, 'checkout');
    await mkdir(join(origin, 'gateway'), { recursive: true });
    const git = (where: string, ...args: readonly string[]) =>
      execFileSync('git', ['-c', 'user.name=suite', '-c', 'user.email=suite@localhost', ...args], { cwd: where });
    const resource = (kind: string, name: string, spec: object) => stringify(manifest(kind, name, spec));
    /** Commits a version of the groups, and brings it to the folder that the gateway follows. */
    const declareGroups = async (spec: object) => {
      await writeFile(join(origin, 'gateway/groups.yaml'), resource('ResourceGroupConfiguration', 'groups', spec));
      git(origin, 'add', '.');
      git(origin, 'commit', '--quiet', '-m', 'groups');
      if (checkouts > 0) git(checkout, 'pull', '--quiet');
      else git(folder, 'clone', '--quiet', origin, checkout);
      checkouts += 1;
    };
    let checkouts = 0;
    git(origin, 'init', '--quiet');
    await writeFile(
      join(origin, 'gateway/clusters.yaml'),
      resource('EngineCluster', 'engine', { proxyTo: engine.url, routingGroup: 'adhoc' }),
    );
    const limits = { softMemoryLimit: '50%', maxQueued: 50, hardConcurrencyLimit: 5 };
    const group = (name: string, ...subGroups: readonly object[]) => ({ ...limits, name, subGroups });
    const before = {
      environment: 'test',
      prune: true,
      rootGroups: [group('etl', group('nightly')), group('adhoc', group('${USER}')), group('explains')],
      selectors: [
        { clientTags: ['nightly'], group: 'etl.nightly' },
        { queryType: 'EXPLAIN', group: 'explains' },
        { user: '[a-m].*', group: 'adhoc.${USER}' },
      ],
    };
    const after = {
      ...before,
      cpuQuotaPeriod: '1h',
      rootGroups: [
        group('etl', group('nightly'), { ...group('dbt-${model}'), hardCpuLimit: '1h' }),
        group('people', group('${USER}')),
      ],
      selectors: [
        { source: 'dbt-(?<model>.+)', group: 'etl.dbt-${model}' },
        { clientTags: ['hi', 'nightly'], group: 'etl.nightly' },
        { group: 'people.${USER}' },
      ],
    };
    await declareGroups(before);
    const gateway = await startGateway({
      authentication: 'none',
      protocol: { productName: 'Trino' },
      resources: { source: 'directory', directory: join(checkout, 'gateway') },
      monitor: { taskDelay: '1s', timeout: '10s' },
      dataStore: settings,
    });
    own.defer(async () => void (await gateway.stop()));

    const explain = async (question: object) => {
      const body = JSON.stringify(question);
      const headers = { 'content-type': 'application/json' };
      const response = await fetch(`${gateway.url}/api/resourcegroups/explain`, { method: 'POST', headers, body });
      return (await response.json()) as { readonly outcome: string; readonly group: readonly string[] | null };
    };
    /** Waits until explanation and engine say so of a query that was elsewhere before. The gateway has just started, maybe. */
    const obeyed = (user: string, group: readonly string[]) =>
      vi.waitFor(
        async () => {
          const explained = await explain({ user, source: 'suite' });
          const ran = await run(engine, user, {}, undefined, gateway.url);
          expect({ explained: explained.group, ...ran }).toEqual({ explained: group, resourceGroupId: group });
        },
        { timeout: 90_000, interval: 500 },
      );
    const users = ['ann', 'bob', 'zoe'];
    const sources = ['suite', 'dbt-a', 'dbt-'];
    const tags = [[], ['nightly'], ['hi', 'nightly']];
    const statements = [
      ['select 1', 'SELECT'],
      ['explain select 1', 'EXPLAIN'],
    ] as const;
    /** Sends queries, some of all combinations; answers the groups that took some, as explained before each. */
    const placements = async (): Promise<readonly string[]> => {
      const groups = new Set<string>();
      for (let query = 0; query < 20; query++) {
        let choice = (query * 7) % 54;
        const next = <T>(values: readonly T[]): T => {
          const value = values[choice % values.length] as T;
          choice = Math.floor(choice / values.length);
          return value;
        };
        const [user, source, clientTags, [sql, queryType]] = [next(users), next(sources), next(tags), next(statements)];
        const question = { user, source, clientTags, queryType };
        const { outcome, group: explained } = await explain(question);
        const headers = { 'X-Trino-Source': source, 'X-Trino-Client-Tags': clientTags.join(',') };
        const placed = await run(engine, user, headers, sql, gateway.url);
        const expected = outcome === 'rejected' ? { errorName: 'QUERY_REJECTED' } : { resourceGroupId: explained };
        expect({ question, ...placed }).toEqual({ question, ...expected });
        groups.add(explained?.join('.') ?? outcome);
      }
      return [...groups].sort();
    };

    await obeyed('ann', ['adhoc', 'ann']);
    expect(await placements()).toEqual(['adhoc.ann', 'adhoc.bob', 'etl.nightly', 'explains', 'rejected']);
    await declareGroups(after);
    await obeyed('zoe', ['people', 'zoe']);
    expect(await placements()).toEqual(['etl.dbt-a', 'etl.nightly', 'people.ann', 'people.bob', 'people.zoe']);
  });
});
