import { findPackageJSON } from 'node:module';
import { dirname, join } from 'node:path';
import { type Api, createApi } from '../../api/api.ts';
import type { ComponentState, Readiness, RuleParts } from '../../api/apiContext.ts';
import { openAuthentication } from '../../api/auth/openAuthentication.ts';
import { readBuiltFiles } from '../../api/userInterface.ts';
import type { Admission } from '../../gateway/admission/admission.ts';
import { requestExplanation } from '../../gateway/analysis/explainRequest.ts';
import type { RequestBodies } from '../../gateway/bodies/requestBodies.ts';
import type { DataPlane } from '../../gateway/dataPlane.ts';
import type { ExternalRulesClient } from '../../gateway/external/externalRules.ts';
import { routingReadinessOf } from '../../gateway/health/routingReadiness.ts';
import { ReplayThread } from '../../gateway/replay/replayThread.ts';
import type { UserGroups } from '../../gateway/user/groups/userGroups.ts';
import { localUsers } from '../../gateway/user/userExtractor.ts';
import type { MappedUsers } from '../../gateway/user/userMapping.ts';
import type { Leadership } from '../../operator/leadership/leadership.ts';
import type { HeldDeletions } from '../../operator/reconcile/deletionGuard.ts';
import { clusterInventory, clusterInventoryVersion } from '../../operator/registry/clusterRegistry.ts';
import type { ResourceSource } from '../../operator/sources/source.ts';
import { STATEMENT_PATH } from '../../routing/proxiedPaths.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import type { AnalyzeLongRequest } from '../../sql/analyzeRequest.ts';
import { RUNNING } from '../../store/queryOutcome.ts';
import type { HistoryWriter, Store } from '../../store/store.ts';
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
  const authentication = await openAuthentication(config, {
    names,
    trustPeer,
    environment,
    kubernetes: async () => {
      const { loadKubeConfig, watchedNamespaces } = await import('../../operator/sources/kubernetes/kubeConfig.ts');
      const kubeConfig = loadKubeConfig(config.resources.kubeconfig);
      const namespaces = watchedNamespaces(config.resources, kubeConfig);
      // A call may concern resources of any namespace.
      return { kubeConfig, namespace: namespaces?.length === 1 ? (namespaces[0] ?? null) : null };
    },
    revocations: store.endedSessions,
    certificates: certificates?.users ?? null,
    groups,
    clock,
    logger,
    metrics,
  });
  const { keys = null } = certificates ?? {};
  const api = await createApi({
    ...{ names, version, replica, logger, metrics, clock, startedAt, bodies, authentication, table, clusterChanges },
    ...{ operator, store, auditWriter, stopping: context.stopping, waitingQueries: countWaiting },
    bodyLimit: config.server.maxApiBodySize,
    defaultGroup: config.routing.defaultRoutingGroup,
    keptHours: config.dataStore.queryHistoryHoursRetention,
    ui: config.uiConfiguration,
    pages: await readBuiltFiles(BUILT_FILES, names, sharesOrigin(config)),
    queryUser: mapping === null ? null : (name) => mapping.ofLogin(name),
    readiness: gatewayReadiness(context, storage, control, externalRules),
    registry: operator.registry,
    inventory: () => clusterInventory(operator.writes),
    inventoryStateVersion: clusterInventoryVersion(operator.writes),
    onChange: (change) => operator.recordChange(change),
    resourceGroups: operator.groups,
    rules: ruleParts(context, control, analyze, { admission, mapping, groups }),
    buffered: (queryId) => history.findBuffered(queryId),
    outcomes: async (queryId) => {
      const buffered = outcomes.findBuffered(queryId);
      return buffered !== null && buffered.state !== RUNNING ? buffered : await store.outcomes.get(queryId);
    },
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
  { admission, mapping, groups }: { readonly admission: Admission } & Pick<CallerIdentity, 'mapping' | 'groups'>,
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
  };
}

/** Time limit of the database check of `/readyz?verbose`. */
const PING_TIMEOUT_MS = 1_000;

type ExternalRules = Pick<ExternalRulesClient, 'openReason'>;

/** @param externalRules null: not configured */
function gatewayReadiness(
  { clock, stopping }: GatewayContext,
  { store, history }: Storage,
  { table, operator: { source, leadership, controller } }: Control,
  externalRules: ExternalRules | null,
): Readiness {
  const isLoaded = () => controller.isLoaded;
  const ready = routingReadinessOf(table, clock, isLoaded);
  return {
    notReadyBecause() {
      if (stopping()) return 'the gateway is stopping';
      const state = ready();
      if (state.ready) return null;
      return !isLoaded() || state.unchecked.length === 0
        ? 'neither the resource source nor the database has been read yet'
        : `not checked yet: ${state.unchecked.join(', ')}`;
    },
    components: async () => [
      await databaseState(store),
      sourceState(source),
      ...heldState(controller.heldDeletions),
      leaderState(leadership),
      historyState(history),
      ...externalRulesState(externalRules),
      ...unmanagedState(table),
    ],
  };
}

async function databaseState(store: Store): Promise<ComponentState> {
  const name = 'database';
  try {
    await store.ping(PING_TIMEOUT_MS);
    return { name, ok: true, message: `${store.dialect} answers` };
  } catch (error) {
    return { name, ok: false, message: error instanceof Error ? error.message : String(error) };
  }
}

function sourceState(source: ResourceSource): ComponentState {
  const { available, reason } = source.state();
  const problems = source.problems().map((problem) => {
    const place = problem.line === null ? problem.place : `${problem.place}:${problem.line}`;
    return `${place}: ${problem.message}`;
  });
  const name = 'resource source';
  if (!available) return { name, ok: false, message: `${source.name} is unavailable: ${reason ?? 'no reason known'}` };
  if (problems.length > 0) return { name, ok: false, message: problems.join('; '), hasMistakes: true };
  return { name, ok: true, message: `${source.name} is followed` };
}

function heldState(losses: readonly HeldDeletions[]): readonly ComponentState[] {
  if (losses.length === 0) return [];
  const perKind = losses.map(({ kind, held, left }) => `${held} of ${held + left} ${kind}`);
  const message = `lost at once and still routed: ${perKind.join(', ')}; confirm with POST /api/heldDeletions/confirm`;
  return [{ name: 'held deletions', ok: false, message }];
}

function leaderState(leadership: Leadership): ComponentState {
  const message = leadership.isLeader ? 'this replica is the leader' : 'another replica is the leader, or none yet';
  return { name: 'leader', ok: true, message };
}

/** Rows of Trino Gateway (docs/resources.md#a-gateway-that-ran-before): routed like any other, and marked here. */
function unmanagedState(table: RoutingTableHolder): readonly ComponentState[] {
  const rows = [...table.current.clusters.values()].filter((cluster) => cluster.origin === 'row');
  if (rows.length === 0) return [];
  const names = rows.map((cluster) => cluster.name).join(', ');
  const message = `${names}: rows of the database without a resource; "engine-gateway export" prints them as manifests`;
  return [{ name: 'unmanaged clusters', ok: true, message }];
}

function externalRulesState(service: ExternalRules | null): readonly ComponentState[] {
  if (service === null) return [];
  const reason = service.openReason;
  const name = 'external rules service';
  if (reason === null) return [{ name, ok: true, message: 'it is called for each new query' }];
  return [{ name, ok: false, message: `left alone for a while, header and default group decide: ${reason}` }];
}

function historyState(history: HistoryWriter): ComponentState {
  const { memory, spilled } = history.depth();
  const message = `${memory} queries wait in memory, ${spilled} on disk`;
  return { name: 'history buffer', ok: spilled === 0, message };
}
