/**
 * The gateway as the benchmark runs it, in a process of its own: data plane, health checks, history into the database
 * given by DATABASE (JSON of JDBC settings). Says `listening PORT` on its output.
 */
import type { AddressInfo } from 'node:net';
import { Registry } from 'prom-client';
import { createLogger, logOutput } from '../../src/config/logger.ts';
import { admitAll } from '../../src/gateway/admission/admission.ts';
import { DataPlane } from '../../src/gateway/dataPlane.ts';
import { HealthMonitors } from '../../src/gateway/health/healthMonitors.ts';
import { QueryOutcomes } from '../../src/gateway/outcomes/queryOutcomes.ts';
import { RunningQueries } from '../../src/gateway/ownership/runningQueries.ts';
import { createGatewayServer } from '../../src/gateway/server/gatewayServer.ts';
import { systemClock } from '../../src/model/clock.ts';
import { productNames } from '../../src/model/names.ts';
import { RoutingTableHolder } from '../../src/routing/routingTable.ts';
import { openStore } from '../../src/store/openStore.ts';
import { RecordWriter } from '../../src/store/recordWriter.ts';
import {
  defaultDataPlaneOptions,
  defaultDataPlaneSettings,
  defaultHistorySettings,
  defaultServerOptions,
  defaultUpstream,
  headerUserAnalyzer,
  unlimitedBodies,
  verifyingTls,
} from '../../test/support/defaults.ts';
import { defaultMonitorSettings, openChecks } from '../../test/support/healthChecks.ts';
import { clusterAt } from '../../test/support/routableCluster.ts';

const [cluster = '', database = '{}', spillDirectory = '', notesOutcomes = 'true'] = process.argv.slice(2);
const names = productNames('Engine');
const registry = new Registry();
// As in production; the benchmark reads the lines and drops them.
const logger = createLogger({ level: 'info', destination: logOutput() });
const clock = systemClock;
const store = await openStore({ ...JSON.parse(database), runMigrations: true, logger });
const writing = { settings: defaultHistorySettings, spillDirectory, logger, registry, clock };
const history = new RecordWriter('history', store.history.insert.bind(store.history), writing);
const runningQueries = new RunningQueries(store.runningQueries, store.outcomes, clock, logger);
runningQueries.start();
const writer = new RecordWriter('outcomes', store.outcomes.put.bind(store.outcomes), writing);
/** Ignores how queries end: what a gateway costs without that. */
class NoOutcomes extends QueryOutcomes {
  override begin(): void {}
  override page(): void {}
  override end(): void {}
  override cancel(): void {}
  override lose(): void {}
  override reject(): void {}
}
const outcomes = new (notesOutcomes === 'true' ? QueryOutcomes : NoOutcomes)(
  ...([writer, store.runningQueries, store.outcomes, registry, clock, logger] as const),
);
outcomes.start();
const table = new RoutingTableHolder();
const monitors = new HealthMonitors(
  {
    table,
    kinds: openChecks().kinds,
    credentials: {
      configured: null,
      trustsResources: true,
      ofCluster: async () => null,
      report: () => undefined,
    },
    logger,
    registry,
    clock,
    random: Math.random,
  },
  { ...defaultMonitorSettings, interval: 1_000, failureThreshold: 3 },
);
const dataPlane = new DataPlane(
  {
    names,
    table,
    store,
    history,
    runningQueries,
    outcomes,
    analyzer: headerUserAnalyzer(names),
    logger,
    registry,
    clock,
    random: Math.random,
    reports: monitors,
    onObservation: () => undefined,
    tracing: null,
    externalRules: null,
    admission: admitAll,
    queue: null,
    isLoaded: () => true,
    bodies: unlimitedBodies(),
  },
  {
    ...defaultDataPlaneOptions,
    ownCookies: ['eg-session'],
    upstream: {
      ...defaultUpstream,
      tls: verifyingTls,
      maxConnectionsPerServer: 512,
      maxRequestsQueuedPerDestination: 1024,
      connectTimeout: 5_000,
      requestTimeout: 300_000,
    },
    settings: defaultDataPlaneSettings,
  },
);
table.setInputs({ clusters: [clusterAt('stub', cluster)] });
monitors.start();
await monitors.checkNow('stub');
await dataPlane.start();
const server = createGatewayServer({
  ...defaultServerOptions(),
  dataPlane,
  // What the benchmark asks beside the load: how much history is not in the database yet, and what is held for good.
  api: (request, response) => {
    if (request.url === '/live') globalThis.gc?.();
    const { heapUsed, external, arrayBuffers } = process.memoryUsage();
    response.end(JSON.stringify({ ...history.depth(), heapUsed, external, arrayBuffers }));
  },
});
server.listen(0, '127.0.0.1', () => console.log(`listening ${(server.address() as AddressInfo).port}`));
process.once('SIGTERM', () => {
  server.close();
  server.closeAllConnections();
  monitors.stop();
  void dataPlane
    .close(1_000)
    .then(() => runningQueries.stop())
    .then(() => history.close(10_000))
    .then(() => store.close())
    .finally(() => process.exit(0));
});
