import type { KubeRig } from '../../test/support/kubeRig.ts';
import { memoryText, Stopwatch, spread, until } from './figures.ts';
import { CLUSTERS, inParallel, type LargeSet, RULES } from './largeSet.ts';
import { ShippedGateway } from './shippedGateway.ts';

const BURST = 1_000;
/** Rules that are changed one after the other. */
const RULE_CHANGES = 50;

/** A gateway that starts on a large set without statuses; then a burst of changes, and changes of single rules. */
export async function runLargeSet(rig: KubeRig, set: LargeSet): Promise<void> {
  const start = new Stopwatch();
  const gateway = await ShippedGateway.start(rig);
  try {
    await until(async () => (await gateway.groups()).length === CLUSTERS && (await gateway.routes(`s${RULES - 1}`)));
    const routed = gateway.cpuSeconds();
    console.log(
      `start with ${CLUSTERS} clusters and ${RULES} rules: routed after ${start.text}, process start included (to reach: 10 s), ${routed.toFixed(1)} s of processor time, ${await memoryText(gateway)}`,
    );
    await until(async () => (await gateway.statusWrites()) >= CLUSTERS + RULES);
    const written = start.text;
    const processors = start.processors(gateway.cpuSeconds());
    await until(async () => (await set.statuses()).current === CLUSTERS + RULES);
    console.log(
      `their statuses and database rows written after ${written} (to reach: 10 s), ${processors}, ${await memoryText(gateway)} (to reach: 250 MB)`,
    );
    await burst(gateway, set);
    await changeRules(gateway, set);
  } finally {
    await gateway.stop();
  }
}

async function burst(gateway: ShippedGateway, set: LargeSet): Promise<void> {
  const apply = new Stopwatch();
  await inParallel(BURST, (index) => set.applyCluster(index % CLUSTERS, `b${Math.floor(index / CLUSTERS)}`));
  const applied = apply.text;
  const after = new Stopwatch();
  const last = `b${Math.ceil(BURST / CLUSTERS) - 1}`;
  await until(async () => (await gateway.groups()).every((group) => group === last));
  console.log(
    `burst of ${BURST} updates (applied in ${applied}): routed ${after.text} after the last (to reach: 10 s)`,
  );
  await until(async () => (await set.statuses()).current === CLUSTERS + RULES, 1_000);
  console.log(`all statuses up to date ${after.text} after the last update, ${await memoryText(gateway)}`);
}

/** How long the event loop is held by the change of a rule, its status included. */
async function changeRules(gateway: ShippedGateway, set: LargeSet): Promise<void> {
  const held: number[] = [];
  const before = gateway.cpuSeconds();
  for (let change = 0; change < RULE_CHANGES; change += 1) {
    await gateway.loop();
    const written = await gateway.statusWrites();
    await set.applyRule(change * 7, { cluster: 'c1' });
    await until(async () => (await gateway.statusWrites()) > written, 20);
    held.push((await gateway.loop()).cpuMs);
  }
  const processorMs = ((gateway.cpuSeconds() - before) * 1_000) / RULE_CHANGES;
  console.log(
    `change of one rule of ${RULES}, ${RULE_CHANGES} times: the event loop is held by ${spread(held)} (to reach: 15 ms); ${processorMs.toFixed(1)} ms of processor time each`,
  );
}
