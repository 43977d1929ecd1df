import { afterEach, describe, expect, test } from 'vitest';
import type { SimulatedEngine, SimulatedEngineOptions } from '../../../demo/simulatedEngine.ts';
import { closeAll, startServer } from '../../support/gateway.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { follow, submit } from '../../support/statementClient.ts';
import { worldOf } from '../../support/world.ts';

const minute = 'SELECT * FROM TABLE(slow(seconds => 60))';

/** What the web application lists of a cluster. */
interface ListedCluster {
  readonly name: string;
  readonly status: string;
  readonly queued: number;
  readonly running: number;
  readonly health: { readonly reason: string; readonly checkedAt: number | null; readonly workers: number | null };
}

describe('health and load of clusters, through a gateway as users run it', () => {
  const world = worldOf('test');
  const engines: SimulatedEngine[] = [];
  let gateway: GatewayProcess | undefined;

  afterEach(async () => {
    engines.length = 0;
    await closeAll();
  });

  const engine = async (name: string, options: Partial<SimulatedEngineOptions> = {}): Promise<SimulatedEngine> => {
    const started = await world.engine({ name, queuedPolls: 0, ...options });
    engines.push(started);
    return started;
  };

  /** A gateway in front of all engines; ready when it has checked each. */
  async function start(
    config: Readonly<Record<string, unknown>>,
    clusters: readonly { readonly name: string; readonly url: string; readonly healthCheck?: object }[] = engines,
  ): Promise<GatewayProcess> {
    await world.declare(
      ...clusters.map(({ name, url, healthCheck }) =>
        manifest('EngineCluster', name, {
          proxyTo: url,
          routingGroup: 'adhoc',
          ...(healthCheck === undefined ? {} : { healthCheck }),
        }),
      ),
    );
    const started = await world.start({ monitor: { taskDelay: '1h' }, ...config });
    gateway = started;
    await expect
      .poll(async () => (await list(started)).map(({ health }) => health.checkedAt !== null))
      .toEqual(clusters.map(() => true));
    return started;
  }

  async function list({ url }: GatewayProcess): Promise<readonly ListedCluster[]> {
    const answer = await fetch(`${url}/webapp/getAllBackends`, { method: 'POST' });
    const { data } = (await answer.json()) as { readonly data: readonly ListedCluster[] };
    return [...data].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Queries of each engine, in the order in which the engines were started. */
  const shares = () => engines.map(({ queries }) => queries.filter(({ text }) => text === minute).length);

  /** Submits a query and has it run where the engine has room. */
  async function run(url: string, user: string): Promise<void> {
    const first = await submit(url, minute, { user });
    await follow(first.nextUri ?? '', { user });
  }

  const leastLoaded = {
    clusterStatsConfiguration: { monitorType: 'UI_API' },
    backendState: { username: 'monitor' },
    routing: { groups: { adhoc: { strategy: 'leastLoaded' } } },
  };

  test('queries of many clients at once are spread evenly over clusters that queue', async () => {
    for (const name of ['a', 'b', 'c']) await engine(name, { state: { maxRunning: 2 } });
    const { url } = await start(leastLoaded);
    await Promise.all(Array.from({ length: 12 }, (_, i) => submit(url, minute, { user: `user-${i}` })));
    expect(shares()).toEqual([4, 4, 4]);
  });

  test('the cluster with the shorter queue is preferred, but not to one where the user has none', async () => {
    const [a, b] = [await engine('a', { state: { maxRunning: 1 } }), await engine('b', { state: { maxRunning: 1 } })];
    for (const user of ['ann', 'ann']) await run(a.url, user);
    for (const user of ['bob', 'eve', 'eve', 'eve']) await run(b.url, user);
    const started = await start(leastLoaded);
    expect(await list(started)).toMatchObject([
      { name: 'a', queued: 1, running: 1, health: { workers: 1 } },
      { name: 'b', queued: 3, running: 1, health: { workers: 1 } },
    ]);
    // Ann has a query waiting on a, so hers go to b in spite of its queue; Bob has none anywhere.
    await submit(started.url, minute, { user: 'ann' });
    expect(shares()).toEqual([2, 5]);
    await submit(started.url, minute, { user: 'bob' });
    expect(shares()).toEqual([3, 5]);
    const metrics = await (await fetch(`${started.url}/metrics`)).text();
    expect(metrics).toContain('engine_gateway_cluster_queries{cluster="b",state="queued"} 3');
  });

  test('a cluster that answers real queries with 503 is taken out, tried again, and comes back', async () => {
    const [bad] = [await engine('a', { state: { failingStatements: 503 } }), await engine('b')];
    const { url } = await start({ monitor: { taskDelay: '1h', serverErrorThreshold: 3, baseEjectionTime: '1s' } });
    const ask = async () =>
      (await fetch(`${url}/v1/statement`, { method: 'POST', headers: { 'X-Engine-User': 'u' }, body: 'SELECT 1' }))
        .status;
    const status = async () => (await list(gateway as GatewayProcess))[0]?.status;
    const takenOut = async () => {
      const metrics = await (await fetch(`${url}/metrics`)).text();
      return Number(/cluster_taken_out_total\{cluster="a",cause="server_errors"\} (\d+)/.exec(metrics)?.[1] ?? 0);
    };
    let failed = 0;
    while ((await takenOut()) < 1) if ((await ask()) === 503) failed++;
    expect(failed).toBe(3);
    expect((await list(gateway as GatewayProcess))[0]).toMatchObject({
      status: 'UNHEALTHY',
      health: { reason: '3 requests in a row failed, the last one: status 503; ejected for 1.00s' },
    });
    // While it is out, no query fails.
    expect(await Promise.all(Array.from({ length: 20 }, ask))).toEqual(Array.from({ length: 20 }, () => 200));
    // The check finds it healthy: it is tried again, and the first failure takes it out once more.
    await expect.poll(status).toBe('HEALTHY');
    while ((await takenOut()) < 2) if ((await ask()) === 503) failed++;
    expect(failed).toBe(4);
    const listed = async () =>
      ((await (await fetch(`${url}/api/clusters`)).json()) as readonly { readonly flappingSince: string | null }[])[0];
    expect(await listed()).toMatchObject({ takesNewQueries: false, ejection: 'ejected' });
    expect(Date.parse((await listed())?.flappingSince ?? '')).toBeLessThan(Date.now());
    bad.setState({ failingStatements: 0 });
    await expect.poll(status).toBe('HEALTHY');
    const queries = bad.queries.length;
    await expect.poll(async () => [await ask(), bad.queries.length > queries]).toEqual([200, true]);
    // After a good answer one failure is not enough again.
    bad.setState({ failingStatements: 500 });
    while ((await ask()) !== 500);
    expect(await status()).toBe('HEALTHY');
  });

  test('routing, explanation, lists, scaling, readiness and problems agree on the clusters that take new queries', async () => {
    for (const name of ['off', 'on']) await engine(name);
    await engine('ill', { state: { failing: 500 } });
    await engine('new', { state: { starting: true } });
    const { url } = await start({ monitor: { taskDelay: '1h' } });
    const read = async <T>(path: string) => (await (await fetch(`${url}${path}`)).json()) as T;
    const switchOff = async (name: string) => {
      const body = JSON.stringify({ active: false });
      const headers = { 'Content-Type': 'application/json' };
      expect((await fetch(`${url}/api/clusters/${name}/active`, { method: 'PUT', headers, body })).status).toBe(200);
    };
    type Listed = readonly { readonly name: string; readonly takesNewQueries: boolean }[];
    const takers = (clusters: Listed) => clusters.filter((one) => one.takesNewQueries).map(({ name }) => name);
    /** Names, or their number, of the clusters that take new queries, as each place states them. */
    const stated = async () => {
      const headers = { 'Content-Type': 'application/json', 'X-Engine-User': 'u' };
      const body = JSON.stringify({ body: minute });
      const explained = await fetch(`${url}/api/explain`, { method: 'POST', headers, body });
      const { clusters } = (await explained.json()) as {
        readonly clusters: readonly { readonly cluster: string; readonly taken: boolean }[];
      };
      const group = await read<{ readonly clusters: Listed }>('/api/groups/adhoc');
      const page = await read<{ readonly group: { readonly others: readonly string[] } }>('/api/clusters/ill');
      const scaling = await read<{ readonly clusters: { readonly healthy: number } }>('/api/scaling/adhoc');
      const ready = await (await fetch(`${url}/readyz?verbose`)).text();
      const { problems } = await read<{ readonly problems: readonly { readonly kind: string }[] }>(
        '/api/overview/problems',
      );
      return {
        explained: clusters.filter(({ taken }) => taken).map(({ cluster }) => cluster),
        listed: takers(await read<Listed>('/api/clusters')),
        group: takers(group.clusters),
        page: page.group.others,
        scaling: scaling.clusters.healthy,
        ready: /(\d+ of \d+) active clusters healthy/.exec(ready)?.[1],
        isUnavailable: problems.some(({ kind }) => kind === 'GroupUnavailable'),
      };
    };
    const asOne = (names: readonly string[]) => ({ explained: names, listed: names, group: names, page: names });
    await switchOff('off');
    await expect.poll(stated).toEqual({ ...asOne(['on']), scaling: 1, ready: '1 of 3', isUnavailable: false });
    await Promise.all(Array.from({ length: 8 }, () => submit(url, minute)));
    expect(shares()).toEqual([0, 8, 0, 0]);
    await switchOff('on');
    await expect.poll(stated).toEqual({ ...asOne([]), scaling: 0, ready: '0 of 2', isUnavailable: true });
    await expect(submit(url, minute)).rejects.toThrow('HTTP 503');
  });

  test('the configured password goes to listed hosts only; the cluster says so in its condition', async () => {
    const listed = await engine('a', { passwords: { monitor: 's3cret' } });
    await engine('b', { passwords: { monitor: 's3cret' } });
    const allowedHosts = [new URL(listed.url).host];
    const backendState = { username: 'monitor', password: 's3cret', allowedHosts };
    const started = await start({ clusterStatsConfiguration: { monitorType: 'METRICS' }, backendState });
    await expect
      .poll(() => list(started))
      .toMatchObject([
        { name: 'a', status: 'HEALTHY' },
        { name: 'b', status: 'UNHEALTHY', health: { reason: expect.stringContaining('backendState.allowedHosts') } },
      ]);
    const conditions = async () => {
      const clusters = (await (await fetch(`${started.url}/api/clusters`)).json()) as readonly {
        readonly resource: { readonly conditions: readonly { readonly type: string; readonly reason: string }[] };
      }[];
      return clusters.map(
        ({ resource }) => resource.conditions.find(({ type }) => type === 'HealthCredentials')?.reason,
      );
    };
    await expect.poll(conditions).toEqual([undefined, 'HostNotAllowed']);
    expect(JSON.stringify(started.log)).not.toContain('s3cret');
  });

  test('whatever check a cluster asks for, hosts that are not listed get no credentials, and redirects take them nowhere', async () => {
    const password = 'global-s3cret';
    /** A server that keeps what it is sent, and redirects to another one. */
    const hostile = async (redirectTo?: string) => {
      const received: string[] = [];
      const { url } = await startServer(async (request, response) => {
        received.push(JSON.stringify([request.rawHeaders, (await Array.fromAsync(request)).join('')]));
        if (redirectTo !== undefined) response.writeHead(307, { location: `${redirectTo}${request.url}` });
        response.end('{}');
      });
      return { url, received };
    };
    const [tenant, thief] = [await hostile(), await hostile()];
    const listed = await hostile(thief.url);
    const checks = [...['Metrics', 'UIAPI', 'JDBC', 'JMX'].map((type) => ({ type })), { path: '/steal' }, undefined];
    const clusters = checks.flatMap((healthCheck, index) => {
      const asked = healthCheck === undefined ? {} : { healthCheck };
      return [
        { name: `listed-${index}`, url: listed.url, ...asked },
        { name: `tenant-${index}`, url: tenant.url, ...asked },
      ];
    });
    const backendState = { username: 'monitor', password, allowedHosts: [new URL(listed.url).host] };
    const started = await start({ clusterStatsConfiguration: { monitorType: 'METRICS' }, backendState }, clusters);
    const all = await list(started);
    expect(all.map(({ status }) => status)).toEqual(clusters.map(() => 'UNHEALTHY'));
    for (const { name, health } of all.filter((one) => one.name.startsWith('tenant'))) {
      expect([name, health.reason]).toEqual([name, expect.stringContaining('backendState.allowedHosts')]);
    }
    expect([tenant.received, thief.received]).toEqual([[], []]);
    expect(listed.received.join()).toContain(Buffer.from(`monitor:${password}`).toString('base64'));
    expect(JSON.stringify([all, started.log])).not.toContain(password);
  });

  test('a user that is refused keeps a cluster out; the list says what to fix, and nothing shows the password', async () => {
    await engine('a', { passwords: { monitor: 'right' } });
    const backendState = { username: 'monitor', password: 'wr0ng-s3cret' };
    const started = await start({ clusterStatsConfiguration: { monitorType: 'METRICS' }, backendState });
    const [cluster] = await list(started);
    expect(cluster).toMatchObject({
      status: 'UNHEALTHY',
      health: { reason: expect.stringMatching(/status 401.*fix backendState/) },
    });
    expect(JSON.stringify([cluster, started.log])).not.toContain('wr0ng-s3cret');
    expect(JSON.stringify(started.log)).not.toContain(btoa('monitor:wr0ng-s3cret'));
  });
});
