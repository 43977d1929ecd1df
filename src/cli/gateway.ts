import { setTimeout as pause } from 'node:timers/promises';
import { processMemoryLimit, requestMemoryLimits } from '../config/derived.ts';
import { formatSize } from '../config/units.ts';
import { AnalysisThread } from '../gateway/analysis/analysisThread.ts';
import { RequestBodies } from '../gateway/bodies/requestBodies.ts';
import { OpenRequests } from '../gateway/server/gatewayServer.ts';
import { Http2Connections } from '../gateway/server/http2Connections.ts';
import { memoryShare, OverloadManager } from '../gateway/server/overloadManager.ts';
import { TlsMetrics } from '../gateway/tls/tlsFiles.ts';
import { DEFAULT_CACHE_BYTES, requestAnalysis } from '../sql/analyzeRequest.ts';
import { startHourlySums } from '../store/hourlySumsJob.ts';
import { startRetention } from '../store/retention.ts';
import { startSizeEstimates } from '../store/sizeEstimates.ts';
import { type GatewayOptions, type OpenContext, openContext, openControl, openStorage } from './gateway/context.ts';
import {
  openClientCertificates,
  openIncomingTls,
  openMappedUsers,
  openOutgoingTls,
  openUserGroups,
} from './gateway/identity.ts';
import { openApi, openWebhook } from './gateway/management.ts';
import { openQueueKey } from './gateway/queueSecrets.ts';
import { openReplays } from './gateway/replays.ts';
import { openAdmission, openDataPlane, openExternalRules, openMonitors, openTracing } from './gateway/traffic.ts';
import { listen } from './listeners.ts';
import { sharesOrigin } from './settings.ts';

/** Warning of the log if a page of an engine can act as a user of the gateway's pages. */
const SHARED_ORIGIN =
  'web pages of engines are served at the same address as the API: a script in them acts with the rights of the user who is logged in to the gateway. Set server.adminHosts, or server.enginePages to redirect or off (docs/serving.md, Separate origins)';

export interface RunningGateway {
  /** Address of proxied paths. */
  readonly url: string;
  /** Address of the API if it has a separate listener. */
  readonly adminUrl: string | null;
  /** Stops cleanly: waits for responses up to `server.drainTimeout`, flushes the history, releases leadership. */
  stop(): Promise<void>;
}

/**
 * Creates, connects and starts all parts of the gateway (docs/architecture.md).
 * @throws GatewayError for problems that the operator must fix, such as a used port; stops all parts then
 */
export async function startGateway(options: GatewayOptions): Promise<RunningGateway> {
  const open = openContext(options);
  try {
    return await startComponents(open);
  } catch (error) {
    await open.close();
    throw error;
  }
}

/**
 * Creates, connects and starts the parts of the gateway; the owner of `context` closes it on failure. Later parts use
 * earlier ones, and are closed before them.
 */
export async function startComponents({ context, beginStop, close }: OpenContext): Promise<RunningGateway> {
  const { config, version, names, logger, clock, onClose } = context;
  const storage = await openStorage(context);
  const control = await openControl(context, storage);
  const tlsMetrics = new TlsMetrics(context.metrics);
  const tls = await openOutgoingTls(context, control.table, tlsMetrics);
  const clientTls = await openIncomingTls(context, tlsMetrics);
  const certificates = await openClientCertificates(context);
  const mapping = await openMappedUsers(context);
  const groups = await openUserGroups(context, mapping);
  const monitors = openMonitors(context, control, tls.healthChecks);
  const longAnalysis = new AnalysisThread();
  onClose(() => longAnalysis.close());
  const analyze = requestAnalysis(
    {
      names,
      maxBodySize: config.requestAnalyzerConfig.maxBodySize,
      clientsUseV2Format: config.requestAnalyzerConfig.isClientsUseV2Format,
      cacheBytes: DEFAULT_CACHE_BYTES,
      estimates: storage.estimates,
    },
    (task) => longAnalysis.analyze(task),
  );
  const limits = requestMemoryLimits(config);
  const bodies = new RequestBodies(limits.memory, context.metrics);
  const openRequests = new OpenRequests();
  const overload = new OverloadManager(memoryShare(processMemoryLimit()), openRequests, clock, logger, context.metrics);
  const http2Connections = new Http2Connections(limits.http2Connections, clock, logger, context.metrics);
  const externalRules = openExternalRules(context, tls.rulesService);
  const { queuedQueries: repository, quarantine } = storage.store;
  const queue = { repository, quarantine, key: await openQueueKey(context), replica: context.replica };
  const waits = openAdmission(context, control, storage);
  const identity = { certificates, mapping, groups };
  const tracing = await openTracing(context);
  const outside = { monitors, analyze, bodies, externalRules, tls: tls.clusters, tracing };
  const dataPlane = await openDataPlane(context, storage, control, { ...waits, queue }, identity, outside);
  const api = await openApi(context, storage, control, analyze, bodies, externalRules, identity, waits, dataPlane);
  const stopRetention = startRetention({
    store: storage.store,
    historyHours: config.dataStore.queryHistoryHoursRetention,
    audit: config.audit,
    fence: () => control.operator.leadership.fence,
    logger,
    clock,
  });
  onClose(stopRetention);
  onClose(
    startHourlySums({
      sums: storage.store.hourlySums,
      isLeader: () => control.operator.leadership.fence !== null,
      logger,
      clock,
    }),
  );
  onClose(await startSizeEstimates(storage.store.sizeEstimates, storage.estimates, config.sizeClasses, context));
  openReplays(context, storage, control, tls.clusters, overload);
  monitors.start();
  await control.start();
  await dataPlane.start();
  onClose(() => dataPlane.close(0));
  const served = { dataPlane, api: api.handler, openRequests, overload, http2Connections };
  const listeners = await listen(config, served, clientTls);
  await openWebhook(context, control);
  onClose(
    overload.start({
      closeIdle: () => listeners.closeIdle(),
      evictBusiest: () => http2Connections.evictBusiest(),
    }),
  );
  const { url, httpsUrl, adminUrl } = listeners;
  logger.info(
    {
      url,
      httpsUrl: httpsUrl ?? undefined,
      adminUrl,
      version,
      requestMemory: formatSize(bodies.memory),
      maxRequestHeaderSize: formatSize(config.serverConfig['http-server.max-request-header-size']),
    },
    'listening',
  );
  if (sharesOrigin(config)) logger.warn({ key: 'server.enginePages' }, SHARED_ORIGIN);

  return {
    url,
    adminUrl,
    async stop() {
      beginStop();
      const { drainDelay, drainTimeout } = config.server;
      // First, so that clients leave their connections before these are closed: a concurrent request would be lost.
      openRequests.drain();
      if (drainDelay > 0) await pause(drainDelay);
      dataPlane.rejectSubmissions();
      listeners.drain();
      const finished = await openRequests.idle(drainTimeout);
      if (!finished) logger.warn({ requests: openRequests.count }, 'responses cut off after server.drainTimeout');
      await dataPlane.close(0);
      await listeners.closeConnections();
      await close();
    },
  };
}
