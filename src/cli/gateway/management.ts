import { findPackageJSON } from 'node:module';
import { dirname, join } from 'node:path';
import { type Api, createApi, type RuleDependencies } from '../../api/api.ts';
import { openAuthentication } from '../../api/auth/openAuthentication.ts';
import type { JwksRoutes } from '../../api/jwksRoutes.ts';
import { readBuiltFiles } from '../../api/userInterface/builtFiles.ts';
import type { Admission } from '../../gateway/admission/admission.ts';
import { requestExplanation } from '../../gateway/analysis/explainRequest.ts';
import type { RequestBodies } from '../../gateway/bodies/requestBodies.ts';
import type { ExternalRulesClient } from '../../gateway/external/externalRules.ts';
import { localUsers } from '../../gateway/user/localUsers.ts';
import { clusterInventory } from '../../operator/registry/clusterInventory.ts';
import { STATEMENT_PATH } from '../../routing/proxiedPaths.ts';
import type { AnalyzeLongRequest } from '../../sql/analyzeRequest.ts';
import { gatewayReadiness } from '../gatewayReadiness.ts';
import { sharesOrigin } from '../settings.ts';
import type { AdmissionParts } from './admission.ts';
import type { CertificateParts } from './clientCertificates.ts';
import type { GatewayContext } from './context.ts';
import type { Control } from './control.ts';
import type { Storage } from './storage.ts';

/** Where `npm run build:ui` puts the user interface. */
const BUILT_FILES = join(dirname(findPackageJSON('..', import.meta.url) ?? ''), 'dist/ui');

/** Makes the REST API: registry, rules, resource groups, web application, health, metrics, login. */
export async function openApi(
  context: GatewayContext,
  storage: Storage,
  control: Control,
  analyze: AnalyzeLongRequest,
  bodies: RequestBodies,
  externalRules: Pick<ExternalRulesClient, 'leftAloneBecause'> | null,
  certificates: CertificateParts | null,
  { admission, countWaiting }: Pick<AdmissionParts, 'admission' | 'countWaiting'>,
): Promise<Api> {
  const { config, current, version, names, trustPeer, environment, logger, metrics, clock, stopping, onClose } =
    context;
  const { store, history, resourceGroups, runningQueries } = storage;
  const { table, operator } = control;
  const readiness = gatewayReadiness({
    table,
    isLoaded: () => operator.controller.isLoaded,
    store,
    source: operator.source,
    leadership: operator.leadership,
    heldDeletions: () => operator.controller.heldDeletions,
    history,
    externalRules,
    config,
    clock,
    stopping,
  });
  const authentication = await openAuthentication(config, {
    names,
    trustPeer,
    environment,
    kubernetes: async () => {
      const { loadKubeConfig, watchedNamespaces } = await import('../../operator/sources/kubernetes/kubeConfig.ts');
      const kubeConfig = loadKubeConfig(config.resources.kubeconfig);
      const namespaces = watchedNamespaces(config.resources, kubeConfig);
      // A call may be about resources of any of them.
      return { kubeConfig, namespace: namespaces?.length === 1 ? (namespaces[0] ?? null) : null };
    },
    revocations: store.endedSessions,
    certificates: certificates?.users ?? null,
    clock,
    logger,
    metrics,
  });
  const webapp = {
    history: store.history,
    queryCounts: store.queryCounts,
    exactMatchSelectors: store.exactMatchSelectors,
    clock,
    startedAt: context.startedAt,
    disablePages: () => current().uiConfiguration.disablePages,
    hiddenPageCalls: () => current().uiConfiguration.hiddenPageCalls,
  };
  const userInterface = {
    built: await readBuiltFiles(BUILT_FILES, names, sharesOrigin(config)),
    enabled: () => current().uiConfiguration.enabled,
  };
  const rules = ruleDependencies(context, storage, control, analyze, admission);
  const api = await createApi(
    {
      registry: operator.registry,
      inventory: () => clusterInventory({ source: operator.source, controller: operator.controller, table }),
      heldDeletions: operator.controller,
      limits: operator.limits,
      table,
      readiness,
      metrics,
      logger,
      bodies,
      authentication,
      onChange: (change) => operator.recordChange(change),
      resourceGroups,
      webapp,
      rules,
      userInterface,
      publishedKeys: publishedKeys(certificates),
      queuedQueries: store.queuedQueries,
      runningQueries: (cluster) => runningQueries.ofCluster(cluster),
      waitingQueries: countWaiting,
    },
    { names, version, bodyLimit: config.server.maxApiBodySize },
  );
  onClose(() => api.close());
  return api;
}

/** The public keys of tokens for clusters, as they are when they are asked for; null where there are none. */
function publishedKeys(certificates: CertificateParts | null): JwksRoutes['published'] | null {
  const keys = certificates?.keys ?? null;
  return keys === null ? null : () => keys.published();
}

function ruleDependencies(
  { config, current, names, clock, logger }: GatewayContext,
  { store, history }: Storage,
  { table, routingRules, compiler }: Control,
  analyze: AnalyzeLongRequest,
  admission: Admission,
): RuleDependencies {
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
      },
      () => current().routing.defaultRoutingGroup,
      (draft) => compiler.tryRule(draft),
      admission,
    ),
    history: store.history,
    transactions: store.transactions,
    buffered: (queryId: string) => history.findBuffered(queryId),
  };
}
