import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { parseAllDocuments } from 'yaml';
import { createOperator, type Operator, type OperatorOptions } from '../../src/operator/operator.ts';
import { RoutingTableHolder } from '../../src/routing/routingTable.ts';
import type { JdbcSettings } from '../../src/store/jdbcUrl.ts';
import { openStore } from '../../src/store/openStore.ts';
import type { Store } from '../../src/store/store.ts';
import { type ControlPlane, kubectlPath, startControlPlane } from './controlPlane.ts';
import { freePort } from './freePort.ts';
import { kubeconfigText } from './kubeconfig.ts';
import { applyObject, createObject, createToken, type KubeObject } from './kubeRequests.ts';
import { kubernetesOperatorOptions } from './kubernetesOperator.ts';
import { manifest } from './manifest.ts';

const run = promisify(execFile);

/** Time between two starts of one command: each takes a tenth of a second of the processor. */
const REPEATED_MS = 500;

/** A started operator with its own table and store. */
export interface KubeOperator extends Operator {
  readonly table: RoutingTableHolder;
  readonly store: Store;
}

/** A control plane with a namespace of its own, in which gateways run as the shipped service account. */
export interface KubeRig {
  readonly plane: ControlPlane;
  readonly namespace: string;
  /** Kubeconfig of the service account: only the shipped Role. */
  readonly kubeconfig: string;
  /** Database that all operators of this rig share. */
  readonly jdbcUrl: string;
  /** Runs kubectl as administrator in the namespace; answers its output. */
  kubectl(args: readonly string[], input?: object | string): Promise<string>;
  /** Server-side apply as somebody. @throws with the message of the API server */
  apply(manager: string, ...documents: object[]): Promise<void>;
  /**
   * Installs service account and rights of an overlay in the namespace.
   * @returns kubeconfig of the account
   */
  installAccount(overlay: string, account: string): Promise<string>;
  /** @param options with a database of its own (`jdbcUrl`, or `database` on a server) where it is another gateway, not a replica */
  startOperator(
    options?: Partial<OperatorOptions> & {
      readonly jdbcUrl?: string;
      readonly database?: JdbcSettings;
    },
  ): Promise<KubeOperator>;
  /** Stops and starts the API server alone; etcd and everything in it stays. @throws where other files share it */
  stopApiServer(): Promise<void>;
  startApiServer(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a control plane whose API server keeps its port when it is started again. */
export async function startPlane(): Promise<ControlPlane> {
  return await startControlPlane({ securePort: await freePort(), stopTimeoutMs: 3_000 });
}

/** What a test chooses of a rig. */
export interface KubeRigOptions {
  /** Adds the ClusterRole of `manifests/overlays/all-namespaces`, and watches all namespaces. */
  readonly allNamespaces?: boolean;
}

/** Prepares a namespace with the shipped service account, Role and RoleBinding, and a new database. */
export async function kubeRig(plane: ControlPlane, { allNamespaces = false }: KubeRigOptions = {}): Promise<KubeRig> {
  const namespace = `gw-${randomUUID().slice(0, 8)}`;
  const directory = await mkdtemp(join(tmpdir(), 'eg-kube-'));
  const operators: KubeOperator[] = [];
  /** When each command began last, in monotonic milliseconds: tests that wait for something repeat one. */
  const begun = new Map<string, number>();
  const kubectl = async (args: readonly string[], input?: object | string): Promise<string> => {
    const command = args.join(' ');
    const waitMs = (begun.get(command) ?? 0) + REPEATED_MS - performance.now();
    if (input === undefined && waitMs > 0) await pause(waitMs);
    begun.set(command, performance.now());
    const child = run(kubectlPath, ['--kubeconfig', plane.config.kubeconfigPath, '-n', namespace, ...args]);
    if (input !== undefined) child.child.stdin?.end(typeof input === 'string' ? input : JSON.stringify(input));
    return (await child).stdout;
  };
  await createObject(plane.config, namespace, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  const installAccount = async (overlay: string, account: string): Promise<string> => {
    for (const object of await shippedRights(overlay, namespace)) await createObject(plane.config, namespace, object);
    const token = await createToken(plane.config, namespace, account);
    const path = join(directory, `kubeconfig-${account}`);
    const { server, caData } = plane.config;
    await writeFile(path, kubeconfigText({ server, 'certificate-authority-data': caData }, { token }, namespace));
    return path;
  };
  const kubeconfig = await installAccount(allNamespaces ? 'overlays/all-namespaces' : 'base', 'engine-gateway');
  const jdbcUrl = `jdbc:sqlite:${join(directory, 'gateway.db')}`;
  const apiServer = () => {
    if (plane.environment === null) throw new Error('a test that stops the API server starts one of its own');
    return (plane.environment as unknown as { apiServer: { stop(): Promise<void>; start(): Promise<void> } }).apiServer;
  };
  return {
    plane,
    namespace,
    kubeconfig,
    jdbcUrl,
    kubectl,
    apply: async (manager, ...documents) => {
      for (const document of documents) await applyObject(plane.config, namespace, document as KubeObject, { manager });
    },
    installAccount,
    startOperator: async ({ jdbcUrl: ownUrl = jdbcUrl, database = { jdbcUrl: ownUrl }, ...options } = {}) => {
      const logger = pino({ level: process.env.TEST_LOG_LEVEL ?? 'silent' });
      const store = await openStore({ ...database, runMigrations: true, logger });
      const table = new RoutingTableHolder();
      const operator = await createOperator({
        ...kubernetesOperatorOptions({
          kubeconfig,
          allNamespacesFrom: allNamespaces ? namespace : null,
          store,
          table,
          instance: `test-${randomUUID()}`,
          logger,
        }),
        resourceGroups: store.resourceGroups({ allowed: null, maxOpen: 2 }),
        ...options,
      });
      let stopped = false;
      const started: KubeOperator = {
        ...operator,
        table,
        store,
        stop: async () => {
          if (stopped) return;
          stopped = true;
          await operator.stop();
          await store.close();
        },
      };
      operators.push(started);
      await started.start();
      return started;
    },
    stopApiServer: () => apiServer().stop(),
    startApiServer: () => apiServer().start(),
    stop: async () => {
      for (const operator of operators.splice(0)) await operator.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** What kustomize makes of the overlays. */
const rendered = new Map<string, Promise<string>>();

function render(overlay: string): Promise<string> {
  const text =
    rendered.get(overlay) ?? run(kubectlPath, ['kustomize', join('manifests', overlay)]).then(({ stdout }) => stdout);
  rendered.set(overlay, text);
  return text;
}

interface RightsDocument extends KubeObject {
  readonly metadata: { name: string };
  readonly roleRef?: { readonly kind: string; name: string };
}

/**
 * Service account and rights of the gateway as `kubectl apply -k` would install them, in another namespace. What is
 * cluster-scoped gets a name per namespace: rigs that start at once on one API server would create the same object,
 * and each would take the binding from the one before.
 */
async function shippedRights(overlay: string, namespace: string): Promise<readonly RightsDocument[]> {
  return parseAllDocuments((await render(overlay)).replaceAll('namespace: engine-gateway', `namespace: ${namespace}`))
    .map((document) => document.toJS() as RightsDocument)
    .filter(({ kind }) => /^(ServiceAccount|(Cluster)?Role(Binding)?)$/.test(kind))
    .map((document) => {
      if (document.kind.startsWith('Cluster')) document.metadata.name += `-${namespace}`;
      if (document.roleRef?.kind === 'ClusterRole') document.roleRef.name += `-${namespace}`;
      return document;
    });
}

/** Manifest of a cluster. */
export const clusterManifest = (name: string, spec: object = {}): object =>
  manifest('EngineCluster', name, { proxyTo: `http://${name}:8080`, routingGroup: 'adhoc', ...spec });

/** Manifest of a rule. */
export const ruleManifest = (name: string, spec: object = {}): object =>
  manifest('RoutingRule', name, { condition: 'true', routeTo: { routingGroup: 'adhoc' }, ...spec });

/** Manifest of a routing group's limits. */
export const groupManifest = (name: string, spec: object = {}): object => manifest('RoutingGroup', name, spec);

/** Manifest of a query limit. */
export const limitManifest = (name: string, spec: object = {}): object =>
  manifest('QueryLimit', name, { match: { everyone: true }, per: 'User', maxRunningQueries: 10, ...spec });

/** A CRD of another operator that accepts any spec. */
export const anySpec = (group: string, kind: string, plural = `${kind.toLowerCase()}s`) => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `${plural}.${group}` },
  spec: {
    group,
    scope: 'Namespaced',
    names: { kind, plural, singular: kind.toLowerCase() },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
});
