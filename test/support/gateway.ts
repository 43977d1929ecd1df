import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Logger, pino } from 'pino';
import { Registry } from 'prom-client';
import { httpClientSettings } from '../../src/config/httpClient.ts';
import { type Admission, admitAll } from '../../src/gateway/admission/admission.ts';
import type { RequestBodies } from '../../src/gateway/bodies/requestBodies.ts';
import {
  DataPlane,
  type DataPlaneDependencies,
  type DataPlaneOptions,
  type DataPlaneSettings,
  type QueueOptions,
} from '../../src/gateway/dataPlane.ts';
import type { ForwardedHeadersObservation } from '../../src/gateway/exchanges/responseWatch.ts';
import { ExternalRulesClient, type ExternalRulesOptions } from '../../src/gateway/external/externalRules.ts';
import type { RunningQueries } from '../../src/gateway/ownership/runningQueries.ts';
import type { RequestAnalyzer } from '../../src/gateway/proxiedRequest.ts';
import { createGatewayServer, type GatewayServerOptions } from '../../src/gateway/server/gatewayServer.ts';
import type { Tracing } from '../../src/gateway/tracing/openTelemetry.ts';
import { type Clock, systemClock } from '../../src/model/clock.ts';
import { GatewayError } from '../../src/model/errors.ts';
import { type ProductNames, productNames } from '../../src/model/names.ts';
import { neverChecked, type RoutableCluster, RoutingTableHolder } from '../../src/routing/routingTable.ts';
import type { RuleSet } from '../../src/rules/decision.ts';
import type { QueryRecord, Store } from '../../src/store/store.ts';
import {
  defaultConfig,
  defaultDataPlaneOptions,
  defaultDataPlaneSettings,
  defaultServerOptions,
  defaultUpstream,
  headerUserAnalyzer,
  unlimitedBodies,
  unwatchedOutcomes,
  unwatchedQueries,
  verifyingTls,
} from './defaults.ts';

export { clusterAt } from './routableCluster.ts';

type QueryStore = Pick<Store, 'coordinators' | 'queries' | 'history'> & Partial<Pick<Store, 'transactions'>>;

const away = () => Promise.reject(new GatewayError('EG_DATABASE_UNAVAILABLE', 'the database is unavailable'));

/** The store while the database is unavailable: every method rejects. */
export const storeAway = {
  coordinators: { all: away, get: away, learn: away, replace: away, touch: away, deleteBefore: away },
  queries: { get: away, learn: away, replace: away, deleteBefore: away },
  transactions: { get: away, begin: away, end: away, deleteBefore: away },
  history: { insert: away, get: away, find: away, deleteBefore: away },
} as unknown as Required<QueryStore>;

export interface TestGatewayOptions {
  /** Those of `Engine` by default. */
  readonly names?: ProductNames;
  readonly clusters: readonly RoutableCluster[];
  readonly rules?: RuleSet;
  readonly store?: QueryStore;
  readonly settings?: Partial<DataPlaneSettings>;
  readonly dataPlane?: Partial<Omit<DataPlaneOptions, 'settings' | 'upstream' | 'stickiness'>>;
  readonly stickiness?: Partial<DataPlaneOptions['stickiness']>;
  readonly upstream?: Partial<DataPlaneOptions['upstream']>;
  readonly server?: Partial<GatewayServerOptions>;
  readonly analyzer?: RequestAnalyzer;
  /** Memory for bodies; without a limit if absent. */
  readonly bodies?: RequestBodies;
  readonly runningQueries?: RunningQueries;
  readonly outcomes?: DataPlaneDependencies['outcomes'];
  readonly admission?: Admission | ((table: RoutingTableHolder, registry: Registry) => Admission);
  /** Keeps submissions that wait; none where absent. */
  readonly queue?: QueueOptions;
  readonly tracing?: Tracing;
  /** A rules service that decides, by its address and settings. */
  readonly externalRules?: Partial<ExternalRulesOptions> & { readonly url: string };
  readonly onQuarantined?: (group: string, note: string) => void;
  readonly random?: () => number;
  readonly clock?: Clock;
  /** Clusters start HEALTHY unless this is false. */
  readonly healthy?: boolean;
}

/** The defaults of the configuration, with times for tests. */
export const defaultExternalRules: Omit<ExternalRulesOptions, 'url'> = {
  needsAnalysis: false,
  ownCookies: [],
  tls: verifyingTls,
  ...httpClientSettings(defaultConfig, 'router'),
  connectTimeout: 10_000,
  requestTimeout: 10_000,
  idleTimeout: 2_000,
  maxConnectionsPerServer: 16,
  maxRequestsQueuedPerDestination: 16,
  maxResponseContentLength: 65_536,
  settings: {
    excludeHeaders: [],
    sendHttpHeaders: true,
    emptyErrors: null,
    failureThreshold: 5,
    retryAfter: 10_000,
  },
};

/** A data plane behind a real HTTP server on a free port. */
export interface TestGateway {
  readonly url: string;
  readonly port: number;
  readonly table: RoutingTableHolder;
  readonly dataPlane: DataPlane;
  readonly server: Server;
  readonly registry: Registry;
  readonly records: QueryRecord[];
  /** Log lines, parsed. */
  readonly log: Record<string, unknown>[];
  readonly observations: ForwardedHeadersObservation[];
  readonly connectionFailures: string[];
  setHealthy(name: string): void;
  close(): Promise<void>;
}

const open: { close(): Promise<void> }[] = [];

/** Closes whatever `startGateway` and `startServer` started; for `afterEach`. */
export async function closeAll(): Promise<void> {
  await Promise.all(open.splice(0).map((one) => one.close()));
}

export function capturingLogger(lines: Record<string, unknown>[]): Logger {
  return pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
}

export async function startGateway(options: TestGatewayOptions): Promise<TestGateway> {
  const { names = productNames('Engine') } = options;
  const table = new RoutingTableHolder();
  table.setInputs({ clusters: options.clusters, rules: options.rules ?? null });
  const setHealthy = (name: string) => {
    const cluster = table.current.clusters.get(name)!;
    table.setHealth(name, cluster.proxyTo, { ...neverChecked, status: 'HEALTHY', reason: 'ok', checkedAt: 1 });
  };
  if (options.healthy !== false) for (const cluster of options.clusters) setHealthy(cluster.name);
  const records: QueryRecord[] = [];
  const log: Record<string, unknown>[] = [];
  const observations: ForwardedHeadersObservation[] = [];
  const connectionFailures: string[] = [];
  const registry = new Registry();
  const logger = capturingLogger(log);
  const given = options.store ?? storeAway;
  // Tests that do not look at transactions need not say how they are stored.
  const store: Required<QueryStore> = Object.create(given, {
    transactions: { value: given.transactions ?? storeAway.transactions },
  });
  const externalRules =
    options.externalRules === undefined
      ? null
      : new ExternalRulesClient(names, systemClock, logger, registry, {
          ...defaultExternalRules,
          ...options.externalRules,
        });
  const { admission: wanted = admitAll } = options;
  const admission = typeof wanted === 'function' ? wanted(table, registry) : wanted;
  const bodies = options.bodies ?? unlimitedBodies();
  const dataPlane = new DataPlane(
    {
      names,
      table,
      store,
      history: {
        add: (record) => void records.push(record),
        fitText: (text) => text,
        whenWritten: () => Promise.resolve(),
        findBuffered: (id) => records.find((record) => record.queryId === id) ?? null,
      },
      analyzer: options.analyzer ?? headerUserAnalyzer(names),
      runningQueries: options.runningQueries ?? unwatchedQueries,
      outcomes: options.outcomes ?? unwatchedOutcomes,
      tracing: options.tracing ?? null,
      externalRules,
      admission,
      queue: options.queue ?? null,
      isLoaded: () => true,
      bodies,
      logger,
      registry,
      clock: options.clock ?? systemClock,
      random: options.random ?? Math.random,
      reports: {
        connectionFailed: (cluster, _baseUrl, reason) => void connectionFailures.push(`${cluster}: ${reason}`),
        serverFailed: () => undefined,
      },
      onObservation: (observation) => void observations.push(observation),
      ...(options.onQuarantined && { onQuarantined: options.onQuarantined }),
    },
    {
      ...defaultDataPlaneOptions,
      ...options.dataPlane,
      stickiness: { ...defaultDataPlaneOptions.stickiness, ...options.stickiness },
      upstream: {
        ...defaultUpstream,
        tls: verifyingTls,
        maxConnectionsPerServer: 64,
        maxRequestsQueuedPerDestination: 64,
        connectTimeout: 2_000,
        requestTimeout: 10_000,
        idleTimeout: 4_000,

        ...options.upstream,
      },
      settings: { ...defaultDataPlaneSettings, ...options.settings },
    },
  );
  await dataPlane.start();
  const server = createGatewayServer({
    ...defaultServerOptions(),
    dataPlane,
    api: (_request, response) => void response.writeHead(418).end('api'),
    ...options.server,
  });
  const port = await listen(server);
  const gateway: TestGateway = {
    url: `http://127.0.0.1:${port}`,
    port,
    table,
    dataPlane,
    server,
    registry,
    records,
    log,
    observations,
    connectionFailures,
    setHealthy,
    close: async () => {
      await dataPlane.close(0);
      await externalRules?.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  open.push(gateway);
  return gateway;
}

/** A real HTTP server with a handler of the test's own, as a cluster that does one particular thing. */
export async function startServer(
  handler: (request: IncomingMessage, response: ServerResponse) => unknown,
  options: ServerOptions = {},
): Promise<{ readonly url: string; readonly port: number; readonly server: Server; close(): Promise<void> }> {
  const server = createServer(options, handler);
  const port = await listen(server);
  const started = {
    url: `http://127.0.0.1:${port}`,
    port,
    server,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  open.push(started);
  return started;
}

/** Registers anything else to be closed. */
export function closing<T extends { close(): Promise<unknown> }>(one: T): T {
  open.push({ close: async () => void (await one.close()) });
  return one;
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}

/** Waits until a condition holds. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string,
  timeoutMs = 30_000,
): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  for (let pause = 5; !(await condition()); pause = Math.min(1.5 * pause, 50)) {
    if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
