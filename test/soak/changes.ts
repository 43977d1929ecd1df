import { setTimeout as pause } from 'node:timers/promises';
import type { World } from '../faults/world.ts';
import { manifest } from '../support/manifest.ts';

/** Changes of resources, one every second. */
export interface Changes {
  readonly count: number;
  /** What was refused, or went wrong. */
  readonly surprises: readonly string[];
  stop(): Promise<void>;
}

const EVERY_MS = 1_000;
/** Names of clusters that come and go. */
const NAMES = 5;

/** Starts changing resources: clusters by REST, through either replica; rules in the source. */
export function startChanges(world: World, proxyTo: string): Changes {
  const surprises: string[] = [];
  const ended = new AbortController();
  let count = 0;
  const call = async (path: string, body?: object | string) => {
    const base = world.bases[count % world.bases.length] as string;
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const response = await fetch(`${base}/gateway/backend/${path}`, {
      method: 'POST',
      headers: { 'Content-Type': typeof body === 'object' ? 'application/json' : 'text/plain' },
      body: text ?? null,
      signal: AbortSignal.timeout(30_000),
    });
    const answer = await response.text();
    if (response.status !== 200) throw new Error(`${path}: HTTP ${response.status} ${answer}`);
  };
  const cluster = (name: string, routingGroup: string) => ({ name, proxyTo, active: true, routingGroup });
  const rule = (name: string, source: string) =>
    world.apply(
      manifest('RoutingRule', name, {
        priority: 10,
        condition: `engineQueryProperties.tablesContains("tpch.tiny.${source}") && request.getHeader("X-Engine-Source") == "${source}"`,
        routeTo: { routingGroup: 'adhoc' },
      }),
    );
  /** The life of a cluster in steps, and a rule that changes meanwhile. */
  const steps = [
    (name: string) => call('modify/add', cluster(name, 'adhoc')),
    (name: string) => rule(`rule-${name}`, `source${count % 20}`),
    (name: string) => call('modify/update', cluster(name, 'etl')),
    (name: string) => call(`deactivate/${name}`),
    (name: string) => call(`activate/${name}`),
    (name: string) => call('modify/delete', name),
  ];
  const work = (async () => {
    const startedAt = performance.now();
    while (!ended.signal.aborted) {
      const name = `soak-${Math.floor(count / steps.length) % NAMES}`;
      try {
        await steps[count % steps.length]?.(name);
      } catch (error) {
        surprises.push(`change ${count} of ${name}: ${error}`);
      }
      count++;
      const wait = startedAt + count * EVERY_MS - performance.now();
      await pause(Math.max(0, wait), undefined, { signal: ended.signal }).catch(() => undefined);
    }
  })();
  return {
    get count() {
      return count;
    },
    surprises,
    async stop() {
      ended.abort();
      await work;
    },
  };
}
