import { findPackageJSON } from 'node:module';
import { dirname, join } from 'node:path';
import { type Api, createApi } from '../../api/api.ts';
import type { ComponentState, Readiness, RuleParts } from '../../api/apiContext.ts';
import { openAuthentication } from '../../api/auth/openAuthentication.ts';
import { readBuiltFiles } from '../../api/userInterface.ts';
import { admissionWebhook } from '../../api/webhook.ts';
import { listenAddresses } from '../../config/openAccess.ts';
import type { Admission } from '../../gateway/admission/admission.ts';
import { requestExplanation } from '../../gateway/analysis/explainRequest.ts';
import type { RequestBodies } from '../../gateway/bodies/requestBodies.ts';
import type { DataPlane } from '../../gateway/dataPlane.ts';
import type { ExternalRulesClient } from '../../gateway/external/externalRules.ts';
import { routingReadinessOf } from '../../gateway/health/clusterChanges.ts';
import { QueryEvents } from '../../gateway/outcomes/queryEvents.ts';
import { ReplayThread } from '../../gateway/replay/replayThread.ts';
import type { UserGroups } from '../../gateway/user/groups/userGroups.ts';
import { localUsers } from '../../gateway/user/userExtractor.ts';
import type { MappedUsers } from '../../gateway/user/userMapping.ts';
import { clusterInventory, clusterInventoryVersion } from '../../operator/registry/clusterRegistry.ts';
import { STATEMENT_PATH } from '../../routing/statementProtocol.ts';
import type { AnalyzeLongRequest } from '../../sql/analyzeRequest.ts';
import { bind } from '../listeners.ts';
import { databaseSettings, replaySettings, sharesOrigin } from '../settings.ts';
import type { Control, GatewayContext, Storage } from './context.ts';
import type { CertificateParts } from './identity.ts';
import type { AdmissionParts } from './traffic.ts';

/** Output directory of `npm run build:ui`. */
const BUILT_FILES = join(dirname(findPackageJSON('..', import.meta.url) ?? ''), 'dist/ui');

export interface CallerIdentity {
  /** Null: no client certificates. */
  readonly certificates: CertificateParts | null;
  /** Mapping of user names, or null. */
  readonly mapping: MappedUsers | null;
  /** Groups of users, or null. */
  readonly groups: UserGroups | null;
}

/** Creates the REST API. */
export async function openApi(
  context: GatewayContext,
  storage: Storage,
  control: Control,
  analyze: AnalyzeLongRequest,
  bodies: RequestBodies,
  externalRules: Pick<ExternalRulesClient, 'openReason'> | null,
  { certificates, mapping, groups }: CallerIdentity,
  { admission, countWaiting }: Pick<AdmissionParts, 'admission' | 'countWaiting'>,
  dataPlane: Pick<DataPlane, 'kill'>,
): Promise<Api> {
  const { config, version, names, replica, trustPeer, environment, logger, metrics, clock, startedAt } = context;
  const { store, history, outcomes, auditWriter, runningQueries } = storage;
  const { table, operator, clusterChanges } = control;
  const authentication = await openAuthentication(config, environment, {
    names,
    trustPeer,
    kubernetes: async () => {
      const { loadKubeConfig, watchedNamespaces } = await import('../../operator/sources/kubernetes/kubeConfig.ts');
      const kubeConfig = loadKubeConfig(config.resources.kubeconfig);
      const namespaces = watchedNamespaces(config.resources, kubeConfig);
      // Of all namespaces.
      return { kubeConfig, namespace: namespaces?.length === 1 ? (namespaces[0] ?? null) : null };
    },
    revocations: store.endedSessions,
    identity: { certificates: certificates?.users ?? null, groups },
    ...{ clock, logger, metrics },
  });
  const { keys = null } = certificates ?? {};
  const { secrets } = config.queryEvents;
  const { queryHistoryHoursRetention: historyHours } = config.dataStore;
  const api = await createApi({
    ...{ names, version, replica, logger, metrics, clock, startedAt, bodies, authentication, table, clusterChanges },
    ...{ operator, store, auditWriter, stopping: context.stopping, waitingQueries: countWaiting },
    bodyLimit: config.server.maxApiBodySize,
    defaultGroup: config.routing.defaultRoutingGroup,
    keptHours: historyHours,
    queryEvents:
      Object.keys(secrets).length === 0
        ? null
        : { secrets, events: new QueryEvents(outcomes, store.coordinators, names, clock, historyHours) },
    ui: config.uiConfiguration,
    pages: await readBuiltFiles(BUILT_FILES, names, sharesOrigin(config)),
    queryUser: mapping === null ? null : (name) => mapping.ofLogin(name),
    readiness: gatewayReadiness(context, storage, control, externalRules),
    registry: operator.registry,
    inventory: () => clusterInventory(operator.writes),
    inventoryStateVersion: clusterInventoryVersion(operator.writes),
    onChange: (change) => operator.recordChange(change),
    resourceGroups: operator.groups,
    rules: ruleParts(context, control, analyze, { admission, mapping, groups, estimates: storage.estimates }),
    buffered: history.findBuffered.bind(history),
    bufferedOutcome: outcomes.findBuffered.bind(outcomes),
    kill: (queryId, user) => dataPlane.kill(queryId, user),
    runningQueries: (cluster) => runningQueries.ofCluster(cluster),
    publishedKeys: keys === null ? null : () => keys.published(),
  });
  context.onClose(() => api.close());
  return api;
}

function ruleParts(
  { config, names, clock, logger, onClose }: GatewayContext,
  { table, routingRules, compiler }: Control,
  analyze: AnalyzeLongRequest,
  {
    admission,
    mapping,
    groups,
    estimates,
  }: { readonly admission: Admission } & Pick<Storage, 'estimates'> & Pick<CallerIdentity, 'mapping' | 'groups'>,
): RuleParts {
  const replays = new ReplayThread();
  onClose(() => replays.close());
  return {
    routingRules,
    explain: requestExplanation(
      table,
      {
        names,
        statementPaths: [STATEMENT_PATH, ...config.additionalStatementPaths],
        analyzeRequest: config.requestAnalyzerConfig.analyzeRequest,
        analyze,
        userOf: localUsers(config.requestAnalyzerConfig, { names, clock, logger }),
        identityHeaders: config.userGroups?.header == null ? [] : [config.userGroups.header.name],
        ...(mapping === null ? {} : { mapped: (user) => mapping.of(user), mappedName: (name) => mapping.ofName(name) }),
        ...(groups === null ? {} : { groupsOf: (user, headers) => groups.described(user, headers) }),
      },
      config.routing.defaultRoutingGroup,
      (draft) => compiler.tryRule(draft),
      admission,
    ),
    edited: (edits) => compiler.edited(edits),
    replays,
    database: databaseSettings(config),
    replaySettings: replaySettings(config),
    estimates,
    sizeClasses: config.sizeClasses,
  };
}

/** Time limit of the database check of `/readyz?verbose`. */
const PING_TIMEOUT_MS = 1_000;

/** @param externalRules null: not configured */
function gatewayReadiness(
  { clock, stopping }: GatewayContext,
  { store, history }: Storage,
  { table, operator: { source, leadership, controller } }: Control,
  externalRules: Pick<ExternalRulesClient, 'openReason'> | null,
): Readiness {
  const isLoaded = () => controller.isLoaded;
  const ready = routingReadinessOf(table, clock, isLoaded);
  const state = (name: string, ok: boolean, message: string): ComponentState => ({ name, ok, message });
  const sourceState = (): ComponentState => {
    const { available, reason } = source.state();
    if (!available)
      return state('resource source', false, `${source.name} is unavailable: ${reason ?? 'no reason known'}`);
    const mistakes = source.problems().map(({ place, line, message }) => {
      return `${place}${line === null ? '' : `:${line}`}: ${message}`;
    });
    if (mistakes.length === 0) return state('resource source', true, `${source.name} is followed`);
    return { ...state('resource source', false, mistakes.join('; ')), hasMistakes: true };
  };
  return {
    notReadyBecause() {
      if (stopping()) return 'the gateway is stopping';
      const { ready: isReady, unchecked } = ready();
      if (isReady) return null;
      return !isLoaded() || unchecked.length === 0
        ? 'neither the resource source nor the database has been read yet'
        : `not checked yet: ${unchecked.join(', ')}`;
    },
    async components() {
      const lost = await store.ping(PING_TIMEOUT_MS).then(
        () => null,
        (error: unknown) => (error instanceof Error ? error.message : String(error)),
      );
      const losses = controller.heldDeletions.map((loss) => `${loss.held} of ${loss.held + loss.left} ${loss.kind}`);
      const { memory, spilled } = history.depth();
      // Rows of Trino Gateway (docs/resources.md#a-gateway-that-ran-before): routed like any other, and marked here.
      const rows = [...table.current.clusters.values()]
        .filter(({ origin }) => origin === 'row')
        .map(({ name }) => name);
      const why = externalRules?.openReason ?? null;
      const heldText = `lost at once and still routed: ${losses.join(', ')}; confirm with POST /api/heldDeletions/confirm`;
      const rowsText = `${rows.join(', ')}: rows of the database without a resource; "engine-gateway export" prints them as manifests`;
      const rulesText =
        why === null
          ? 'it is called for each new query'
          : `left alone for a while, header and default group decide: ${why}`;
      return [
        state('database', lost === null, lost ?? `${store.dialect} answers`),
        sourceState(),
        ...(losses.length === 0 ? [] : [state('held deletions', false, heldText)]),
        state(
          'leader',
          true,
          leadership.isLeader ? 'this replica is the leader' : 'another replica is the leader, or none yet',
        ),
        state('history buffer', spilled === 0, `${memory} queries wait in memory, ${spilled} on disk`),
        ...(externalRules === null ? [] : [state('external rules service', why === null, rulesText)]),
        ...(rows.length === 0 ? [] : [state('unmanaged clusters', true, rowsText)]),
      ];
    },
  };
}

/**
 * Serves the admission webhook if it is enabled.
 * @throws GatewayError for a used port
 */
export async function openWebhook({ config, logger, onClose }: GatewayContext, { operator }: Control): Promise<void> {
  const { enabled, port, name } = config.resources.webhook;
  const { webhook, controller } = operator;
  if (!enabled || webhook === undefined) return;
  const server = admissionWebhook((resource) => controller.rejection(resource), logger);
  const { followWebhookCertificate } = await import('../../operator/webhook/webhookCertificate.ts');
  onClose(followWebhookCertificate(webhook, name, (cert, key) => server.setSecureContext({ cert, key })));
  const [address] = listenAddresses(config.server.address);
  const bound = await bind(server, address, port, 'resources.webhook.port');
  onClose(() => {
    server.close();
    server.closeAllConnections();
  });
  logger.info({ url: `https://${bound}` }, 'admission webhook listening');
}
