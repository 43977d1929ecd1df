import { expect } from 'vitest';
import { until } from '../support/gateway.ts';

/** Registers clusters at the first of the replicas, and waits until each replica has found them healthy. */
export async function addClusters(
  replicas: readonly { readonly url: string }[],
  clusters: readonly { readonly name: string; readonly url: string; readonly routingGroup?: string }[],
): Promise<void> {
  for (const { name, url, routingGroup = 'adhoc' } of clusters) {
    const body = JSON.stringify({ name, proxyTo: url, active: true, routingGroup });
    const headers = { 'Content-Type': 'application/json' };
    const added = await fetch(`${replicas[0]?.url}/gateway/backend/modify/add`, { method: 'POST', headers, body });
    expect([added.status, await added.text()]).toEqual([200, expect.stringContaining(name)]);
    for (const replica of replicas) {
      const state = async () => (await fetch(`${replica.url}/api/public/backends/${name}/state`)).text();
      await until(async () => (await state()).includes('"HEALTHY"'), `${name} to be healthy`, 120_000);
    }
  }
}
