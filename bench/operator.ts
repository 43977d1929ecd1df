import { pino } from 'pino';
import { resourceKinds } from '../src/kinds/registry.ts';
import { systemClock } from '../src/model/clock.ts';
import { keyOf } from '../src/model/resource.ts';
import { KubeApi } from '../src/operator/sources/kubernetes/kubeApi.ts';
import { loadKubeConfig } from '../src/operator/sources/kubernetes/kubeConfig.ts';
import { KubernetesSource } from '../src/operator/sources/kubernetes/kubernetesSource.ts';
import { controlPlaneAvailable } from '../test/support/controlPlane.ts';
import { clusterManifest, type KubeRig, kubeRig, ruleManifest, startPlane } from '../test/support/kubeRig.ts';
import { Engines } from './operator/engines.ts';
import { ShippedGateway } from './operator/shippedGateway.ts';

const CLUSTERS = 500;
const RULES = 5_000;
const CHANGES = 200;
const BURST = 1_000;

/** Latency from apply to routed, initial sync, and a burst, on a real API server and etcd on this machine. */
export async function run(): Promise<void> {
  if (!controlPlaneAvailable) {
    process.exitCode = 1;
    return;
  }
  const plane = await startPlane();
  try {
    const rig = await kubeRig(plane);
    const config = loadKubeConfig(plane.config.kubeconfigPath);
    const api = new KubeApi(config, 60_000);
    await latency(rig, api);
    const large = await kubeRig(plane);
    await largeSet(large, api);
    await rig.stop();
    await large.stop();
    await config.destroy();
  } finally {
    await plane.stop();
  }
}

type Manifest = { kind: 'EngineCluster' | 'RoutingRule'; metadata: { name: string } };

function apply(api: KubeApi, namespace: string, document: object): Promise<unknown> {
  const { kind, metadata } = document as Manifest;
  const body = { ...document, metadata: { ...metadata, namespace } };
  return api.apply({ kind, namespace, name: metadata.name }, body, 'kubectl', true);
}

/** From the beginning of the apply to the table that has it, one change after the other. */
async function latency(rig: KubeRig, api: KubeApi): Promise<void> {
  const operator = await rig.startOperator();
  const times: number[] = [];
  for (let index = 0; index < CHANGES; index += 1) {
    const name = `c${index % 20}`;
    const group = `g${index}`;
    const routed = new Promise<void>((resolve) => {
      const remove = operator.table.onChange((table) => {
        if (table.clusters.get(name)?.routingGroup !== group) return;
        remove();
        resolve();
      });
    });
    const started = performance.now();
    await apply(api, rig.namespace, clusterManifest(name, { routingGroup: group }));
    await routed;
    times.push(performance.now() - started);
  }
  times.sort((a, b) => a - b);
  const at = (share: number): string => `${(times[Math.ceil(share * times.length) - 1] ?? 0).toFixed(0)} ms`;
  console.log(
    `apply to routed, ${CHANGES} changes: p50 ${at(0.5)}, p99 ${at(0.99)}, longest ${at(1)} (to reach: p99 250 ms)`,
  );
  await operator.stop();
}

async function inParallel(count: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const index = next;
      next += 1;
      await work(index);
    }
  };
  await Promise.all(Array.from({ length: 16 }, worker));
}

async function largeSet(rig: KubeRig, api: KubeApi): Promise<void> {
  const engines = await Engines.start(CLUSTERS);
  const { urls } = engines;
  await inParallel(CLUSTERS, (index) => apply(api, rig.namespace, cluster(index, urls, `g${index % 50}`)));
  await inParallel(RULES, (index) =>
    apply(
      api,
      rig.namespace,
      ruleManifest(`r${index}`, {
        condition: `request.getHeader("X-Engine-Source") == "s${index}"`,
        routeTo: { routingGroup: `g${index % 50}` },
      }),
    ),
  );
  const statuses = new KubernetesSource({
    ...watching,
    kinds: resourceKinds,
    api,
    namespaces: [rig.namespace],
    writeNamespace: rig.namespace,
  });
  await statuses.start(30_000);
  const started = performance.now();
  const seconds = (since: number): string => `${((performance.now() - since) / 1_000).toFixed(1)} s`;
  const gateway = await ShippedGateway.start(rig);
  const resident = async (): Promise<string> => {
    const { now, most } = await gateway.memory();
    const cpu = `${gateway.cpuSeconds().toFixed(1)} s of CPU`;
    return `${cpu}, resident ${now.toFixed(0)} MB, at most ${most.toFixed(0)} MB since its start`;
  };
  try {
    await until(async () => (await gateway.groups()).length === CLUSTERS && (await gateway.routes(`s${RULES - 1}`)));
    console.log(
      `start with ${CLUSTERS} clusters and ${RULES} rules: routed after ${seconds(started)}, process start included (to reach: 10 s), ${await resident()}`,
    );
    await until(async () => written(statuses) === CLUSTERS + RULES);
    console.log(
      `their statuses, database rows and events written after ${seconds(started)}, ${await resident()} (to reach: 250 MB)`,
    );
    const burst = performance.now();
    await inParallel(BURST, (index) =>
      apply(api, rig.namespace, cluster(index % CLUSTERS, urls, `b${Math.floor(index / CLUSTERS)}`)),
    );
    const applied = performance.now();
    const last = `b${Math.ceil(BURST / CLUSTERS) - 1}`;
    await until(async () => (await gateway.groups()).every((group) => group === last));
    console.log(
      `burst of ${BURST} updates (applied in ${((applied - burst) / 1_000).toFixed(1)} s): routed ${seconds(applied)} after the last (to reach: 10 s), ${await resident()}`,
    );
    await until(async () => written(statuses) === CLUSTERS + RULES);
    console.log(`all statuses up to date ${seconds(applied)} after the last update, ${await resident()}`);
  } finally {
    await gateway.stop();
    await statuses.stop();
    await engines.stop();
  }
}

const watching = { clock: systemClock, random: Math.random, logger: pino({ level: 'silent' }) };

function cluster(index: number, urls: readonly string[], routingGroup: string): object {
  return clusterManifest(`c${index}`, { proxyTo: urls[index], routingGroup });
}

/** Resources whose written status is about what they are now, and good. */
function written(source: KubernetesSource): number {
  return [...source.list('EngineCluster'), ...source.list('RoutingRule')].filter((listed) => {
    const { metadata, status } = source.get(keyOf(listed)) ?? listed;
    const ready = status?.conditions?.find((condition) => condition.type === 'Ready');
    return status?.observedGeneration === metadata.generation && ready?.status === 'True';
  }).length;
}

async function until(check: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 300_000;
  while (!(await check())) {
    if (performance.now() > deadline) throw new Error('took longer than 300 s');
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}
