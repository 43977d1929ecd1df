import { KubeApi } from '../src/operator/sources/kubernetes/kubeApi.ts';
import { loadKubeConfig } from '../src/operator/sources/kubernetes/kubeConfig.ts';
import { controlPlaneAvailable } from '../test/support/controlPlane.ts';
import { clusterManifest, type KubeRig, kubeRig, startPlane } from '../test/support/kubeRig.ts';
import { buildShippedProgram } from '../test/support/shippedProgram.ts';
import { runChurn } from './operator/churn.ts';
import { Engines } from './operator/engines.ts';
import { spread } from './operator/figures.ts';
import { runLargeGroups } from './operator/largeGroups.ts';
import { CLUSTERS, LargeSet } from './operator/largeSet.ts';
import { runLargeSet } from './operator/largeSetStart.ts';
import { runStatusFloor } from './operator/statusFloor.ts';

const CHANGES = 200;
const CHURN_SECONDS = 120;
const PARTS = ['latency', 'floor', 'start', 'churn', 'groups'];

/**
 * `npm run bench -- operator`: latency from apply to routed, initial sync with its statuses and the least time
 * that these take, a burst, the event loop at a change, churn, and a resource with many resource groups, on a real API server
 * and etcd on this machine. Further arguments choose parts of it.
 */
export async function run(): Promise<void> {
  const chosen = process.argv.slice(3);
  const parts = new Set(chosen.length === 0 ? PARTS : chosen);
  const unknown = chosen.filter((part) => !PARTS.includes(part));
  if (unknown.length > 0) console.error(`unknown: ${unknown.join(', ')}; parts are ${PARTS.join(', ')}`);
  if (unknown.length > 0 || !controlPlaneAvailable) {
    process.exitCode = 1;
    return;
  }
  await buildShippedProgram();
  const plane = await startPlane();
  const config = loadKubeConfig(plane.config.kubeconfigPath);
  const api = new KubeApi(config, 60_000);
  const engines = await Engines.start(CLUSTERS);
  const inNamespace = async (work: (rig: KubeRig, set: LargeSet) => Promise<void>): Promise<void> => {
    const rig = await kubeRig(plane);
    await work(rig, new LargeSet(api, rig.namespace, engines.urls));
    await rig.stop();
  };
  try {
    if (parts.has('latency')) await inNamespace((rig) => latency(rig, api));
    if (parts.has('floor')) {
      await inNamespace((rig, set) =>
        runStatusFloor(api, rig.namespace, (index) => set.applyRule(index, { routingGroup: 'g0' })),
      );
    }
    if (parts.has('start')) {
      await inNamespace(async (rig, set) => {
        await set.applyAll();
        await runLargeSet(rig, set);
      });
    }
    if (parts.has('churn')) {
      await inNamespace(async (rig, set) => {
        await set.applyAll();
        await runChurn(rig, set, CHURN_SECONDS);
      });
    }
    if (parts.has('groups')) await runLargeGroups(api, (work) => inNamespace((rig) => work(rig)));
  } finally {
    await engines.stop();
    await config.destroy();
    await plane.stop();
  }
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
    const { namespace } = rig;
    const document = clusterManifest(name, { routingGroup: group });
    const body = { ...document, metadata: { name, namespace } };
    await api.apply({ kind: 'EngineCluster', namespace, name }, body, 'kubectl', true);
    await routed;
    times.push(performance.now() - started);
  }
  console.log(`apply to routed, ${CHANGES} changes: ${spread(times)} (to reach: p99 250 ms)`);
  await operator.stop();
}
