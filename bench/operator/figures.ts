import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from '../statistics.ts';
import { type ControlPlaneTimes, controlPlaneTimes } from './controlPlaneTimes.ts';
import type { ShippedGateway } from './shippedGateway.ts';

/** Time and processor time since it was made, for a line of output. */
export class Stopwatch {
  readonly #started = performance.now();
  readonly #controlPlane: ControlPlaneTimes = controlPlaneTimes();
  readonly #own = process.cpuUsage();

  get seconds(): number {
    return (performance.now() - this.#started) / 1_000;
  }

  get text(): string {
    return `${this.seconds.toFixed(1)} s`;
  }

  /** @param gatewaySeconds processor time of the gateway in the same time */
  processors(gatewaySeconds: number): string {
    const { apiServer, etcd } = controlPlaneTimes();
    const { user, system } = process.cpuUsage(this.#own);
    const [api, store] = [apiServer - this.#controlPlane.apiServer, etcd - this.#controlPlane.etcd];
    const own = (user + system) / 1_000_000;
    return `processor time: API server ${api.toFixed(1)} s, etcd ${store.toFixed(1)} s, gateway ${gatewaySeconds.toFixed(1)} s, benchmark ${own.toFixed(1)} s`;
  }
}

/** Memory of a gateway, for a line of output. */
export async function memoryText(gateway: ShippedGateway): Promise<string> {
  const { now, most } = await gateway.memory();
  return `resident ${now.toFixed(0)} MB, at most ${most.toFixed(0)} MB since its start`;
}

/** The middle, the 99th percentile and the longest of times in milliseconds. */
export function spread(times: readonly number[]): string {
  const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`;
  return `p50 ${ms(percentile(times, 0.5))}, p99 ${ms(percentile(times, 0.99))}, longest ${ms(Math.max(...times))}`;
}

/** Waits for a condition. @throws after 300 s */
export async function until(check: () => Promise<boolean>, pauseMs = 250): Promise<void> {
  const deadline = performance.now() + 300_000;
  while (!(await check())) {
    if (performance.now() > deadline) throw new Error('took longer than 300 s');
    await sleep(pauseMs);
  }
}
