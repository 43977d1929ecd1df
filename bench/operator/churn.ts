import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeRig } from '../../test/support/kubeRig.ts';
import { memoryText, Stopwatch, spread, until } from './figures.ts';
import { CLUSTERS, type LargeSet, RULES } from './largeSet.ts';
import { ShippedGateway } from './shippedGateway.ts';

const RATE = 50;
/** Of so many changes one is of a cluster, the others are of rules. */
const CLUSTER_EVERY = 5;
/** Of so many changes of rules one is followed until requests are routed by it. */
const FOLLOWED_EVERY = 8;
/** Time between two requests that look whether a change is routed by. */
const LOOK_MS = 10;

/**
 * Changes at a constant rate from the moment a gateway starts on a large set without statuses: how long after the apply
 * requests are routed by a change, and when statuses are written.
 * @param seconds how long changes go on
 */
export async function runChurn(rig: KubeRig, set: LargeSet, seconds: number): Promise<void> {
  const start = new Stopwatch();
  const starting = ShippedGateway.start(rig);
  const churn = new Churn(set, await starting);
  const gateway = await starting;
  try {
    const [, followed] = await Promise.all([churn.run(seconds), statusesWritten(set, start)]);
    const ended = new Stopwatch();
    const failed = [...churn.failures].map(([cause, times]) => `${times} failed (${cause})`).join(', ') || '0 failed';
    console.log(
      `churn of ${RATE} changes a second for ${seconds} s: ${churn.applied} applied, ${failed}; from apply to routed, ${churn.staleness.length} followed: ${spread(churn.staleness)} (to reach: p99 1 s)`,
    );
    console.log(`${start.processors(gateway.cpuSeconds())} from the start on, ${await memoryText(gateway)}`);
    console.log(followed);
    await until(async () => (await set.statuses()).current === CLUSTERS + RULES, 1_000);
    console.log(`all statuses up to date ${ended.text} after the last change`);
    console.log(`the event loop was held by at most ${(await gateway.loop()).cpuMs.toFixed(1)} ms at a time`);
  } finally {
    await gateway.stop();
  }
}

/** When each resource of the set had its first status, while changes go on. */
async function statusesWritten(set: LargeSet, start: Stopwatch): Promise<string> {
  const counts: string[] = [];
  await until(async () => {
    const at = start.text;
    const { written } = await set.statuses();
    counts.push(`${written} after ${at}`);
    return written === CLUSTERS + RULES;
  }, 3_000);
  return `statuses written while changes went on: ${counts.join(', ')}`;
}

class Churn {
  /** Milliseconds from apply to routed, of the changes that were followed. */
  readonly staleness: number[] = [];
  applied = 0;
  /** Changes that were not applied or could not be followed, by cause. */
  readonly failures = new Map<string, number>();
  readonly #set: LargeSet;
  readonly #gateway: ShippedGateway;

  constructor(set: LargeSet, gateway: ShippedGateway) {
    this.#set = set;
    this.#gateway = gateway;
  }

  /** Begins changes at their times, whether those before have been answered or not, and waits for all. */
  async run(seconds: number): Promise<void> {
    const changes: Promise<void>[] = [];
    const started = performance.now();
    for (let number = 0; number < seconds * RATE; number += 1) {
      await sleep(Math.max(0, started + (number * 1_000) / RATE - performance.now()));
      changes.push(
        this.#change(number).catch((error: unknown) => {
          const cause = String(error instanceof Error ? (error.cause ?? error) : error);
          this.failures.set(cause, (this.failures.get(cause) ?? 0) + 1);
        }),
      );
    }
    await Promise.all(changes);
  }

  async #change(number: number): Promise<void> {
    if (number % CLUSTER_EVERY === 0) {
      const index = (number / CLUSTER_EVERY) % CLUSTERS;
      await this.#set.applyCluster(index, `g${(index + 1 + Math.floor(number / CLUSTER_EVERY / CLUSTERS)) % 50}`);
      this.applied += 1;
      return;
    }
    // All over the set, and none twice within a minute.
    const rule = (number * 37) % RULES;
    const cluster = (number * 11) % CLUSTERS;
    const began = performance.now();
    await this.#set.applyRule(rule, { cluster: `c${cluster}` });
    this.applied += 1;
    if (number % FOLLOWED_EVERY !== 1) return;
    await until(async () => (await this.#gateway.engineOf(`s${rule}`)) === cluster, LOOK_MS);
    this.staleness.push(performance.now() - began);
  }
}
