import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, vi } from 'vitest';
import { stringify } from 'yaml';
import { openStore } from '../../src/store/openStore.ts';
import { ClusterProcess } from '../support/clusterProcess.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { manifest } from '../support/manifest.ts';
import { hasPrometheus, type Prometheus, startPrometheus } from '../support/prometheus.ts';
import type { TestServer } from '../support/serverProcess.ts';
import type { EndedQuery } from './load.ts';

/** Settings of a test's database, as `dataStore` takes them. */
export type Jdbc = Awaited<ReturnType<TestServer['createDatabase']>>;

/** A resource as it is declared. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: object;
}

export interface WorldOptions {
  readonly database: Jdbc;
  /** Names of the clusters, and their groups. */
  readonly clusters: Readonly<Record<string, string>>;
  /** Configuration beside what every world has. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Applies resources to another source than a directory of manifests. */
  readonly apply?: World['apply'];
  /** Variables of the gateways' processes. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** Two replicas of the gateway on one database, and clusters behind them; all processes of their own. */
export interface World {
  readonly folder: string;
  readonly database: Jdbc;
  readonly replicas: readonly [GatewayProcess, GatewayProcess];
  readonly bases: readonly string[];
  cluster(name: string): ClusterProcess;
  /** Starts another cluster; `declare` it then. */
  addCluster(name: string): Promise<ClusterProcess>;
  /** Writes a resource into the source. */
  apply(resource: Manifest): Promise<void>;
  /** Writes the manifest of a cluster; the resources of `clusters` have theirs. */
  declare(
    name: string,
    spec: { readonly proxyTo: string; readonly routingGroup: string; readonly healthCheck?: object },
  ): Promise<void>;
  /** Sum over the replicas that run of a metric's samples whose labels hold the text. */
  metric(name: string, label?: string): Promise<number>;
  /** Waits until every replica sees the cluster so. */
  seen(name: string, health: 'HEALTHY' | 'UNHEALTHY'): Promise<void>;
  /** Waits until the expressions of these alerts have been true; without a Prometheus it answers at once. */
  raised(...alerts: readonly string[]): Promise<void>;
  /** Alerts that have fired at any time, each with its labels; none without a Prometheus. */
  fired(): Promise<readonly string[]>;
  /** Waits until the history holds every query that got an id; answers how many are missing in the end. */
  missingInHistory(queries: readonly EndedQuery[], timeoutMs?: number): Promise<number>;
  close(): Promise<void>;
}

/** Starts clusters and two replicas, and waits until both route to all of them. */
export async function startWorld(options: WorldOptions): Promise<World> {
  const folder = await mkdtemp(join(tmpdir(), 'faults-'));
  const manifests = join(folder, 'clusters');
  await mkdir(manifests);
  const clusters = new Map<string, ClusterProcess>();
  const gateways: GatewayProcess[] = [];
  let prometheus: Prometheus | null = null;
  const close = async () => {
    await prometheus?.stop();
    await Promise.allSettled(gateways.map((gateway) => gateway.stop()));
    await Promise.allSettled([...clusters.values()].map((cluster) => cluster.kill()));
    await rm(folder, { recursive: true, force: true });
  };
  const applyInFile: World['apply'] = async (resource) => {
    const file = `${resource.kind}-${resource.metadata.name}.yaml`;
    // Renamed into place, so that nobody reads half of it.
    await writeFile(join(folder, file), stringify(resource));
    await rename(join(folder, file), join(manifests, file));
  };
  const apply = options.apply ?? applyInFile;
  const declare: World['declare'] = (name, spec) => apply(manifest('EngineCluster', name, spec));
  const addCluster = async (name: string) => {
    const cluster = await ClusterProcess.start(name);
    clusters.set(name, cluster);
    return cluster;
  };
  try {
    await Promise.all(
      Object.entries(options.clusters).map(async ([name, routingGroup]) => {
        await declare(name, { proxyTo: (await addCluster(name)).url, routingGroup });
      }),
    );
    const config = (replica: number) => ({
      resources: { source: 'directory', directory: manifests },
      dataStore: options.database,
      queryHistory: { spillDirectory: join(folder, `spill-${replica}`) },
      // Generous, so that a busy machine is not taken for a cluster that is unavailable.
      monitor: { taskDelay: '1s', timeout: '5s', failureThreshold: 2 },
      ...options.config,
    });
    // One after the other: the first one makes the tables.
    for (const replica of [0, 1]) gateways.push(await startGateway(config(replica), options.environment));
    const replicas = gateways as unknown as readonly [GatewayProcess, GatewayProcess];
    prometheus = hasPrometheus() ? await startPrometheus(replicas.map(({ url }) => url)) : null;
    if (prometheus !== null) {
      const scraped = async () => (await prometheus?.query('count(engine_gateway_build_info)'))?.[0]?.value;
      await vi.waitFor(async () => expect(await scraped()).toBe(2), { timeout: 60_000, interval: 200 });
    }
    const world: World = {
      folder,
      database: options.database,
      replicas,
      bases: replicas.map((replica) => replica.url),
      cluster: (name) => clusters.get(name) as ClusterProcess,
      addCluster,
      apply,
      declare,
      seen: async (name, health) => {
        for (const replica of replicas) {
          await vi.waitFor(async () => expect(await healthOf(replica, name), name).toBe(health), {
            timeout: 120_000,
            interval: 100,
          });
        }
      },
      metric: async (name, label = '') => {
        const values = await Promise.all(replicas.map((replica) => metricOf(replica, name, label)));
        return values.reduce((sum, value) => sum + value, 0);
      },
      raised: async (...alerts) => {
        if (prometheus === null) return;
        await expect
          .poll(() => prometheus?.raised(), { timeout: 30_000, interval: 500 })
          .toEqual(expect.arrayContaining([...alerts]));
      },
      fired: async () => (await (prometheus?.fired() ?? [])).map(({ labels }) => JSON.stringify(labels)),
      missingInHistory: (queries, timeoutMs = 60_000) => missing(options.database, queries, timeoutMs),
      close,
    };
    for (const name of clusters.keys()) await world.seen(name, 'HEALTHY');
    return world;
  } catch (error) {
    await close();
    throw error;
  }
}

async function healthOf(replica: GatewayProcess, name: string): Promise<string | undefined> {
  const url = `${replica.url}/api/public/backends/${name}/state`;
  const response = await fetch(url, { signal: AbortSignal.timeout(10_000) });
  return response.ok ? ((await response.json()) as { engineStatus: string }).engineStatus : undefined;
}

async function metricOf({ url }: GatewayProcess, name: string, label: string): Promise<number> {
  const response = await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(10_000) }).catch(() => null);
  let sum = 0;
  for (const line of ((await response?.text()) ?? '').split('\n')) {
    if (new RegExp(`^${name}[{ ]`).test(line) && line.includes(label)) sum += Number(line.slice(line.lastIndexOf(' ')));
  }
  return sum;
}

/** Questions to the history at once: as many as its pool has connections. */
const AT_ONCE = 10;

async function missing(database: Jdbc, queries: readonly EndedQuery[], timeoutMs: number): Promise<number> {
  const store = await openStore({ ...database, runMigrations: false, logger: pino({ level: 'silent' }) });
  const deadline = performance.now() + timeoutMs;
  let ids = queries.map((query) => query.id).filter((id) => id !== '');
  try {
    for (;;) {
      const absent: string[] = [];
      for (let from = 0; from < ids.length; from += AT_ONCE) {
        const part = ids.slice(from, from + AT_ONCE);
        // A busy database that does not answer in time is asked again.
        const found = await Promise.all(part.map((id) => store.history.get(id).catch(() => null)));
        absent.push(...part.filter((_id, index) => found[index] === null));
      }
      ids = absent;
      if (ids.length === 0 || performance.now() > deadline) return ids.length;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  } finally {
    await store.close();
  }
}
