import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { stringify } from 'yaml';
import { startGateway } from '../../test/support/gatewayProcess.ts';
import { buildShippedProgram } from '../../test/support/shippedProgram.ts';
import type { Target } from './measure.ts';

/** `engine-gateway serve` as it ships, with a configuration of its own. */
export interface ServeProcess extends Target {
  /** Address of HTTPS; null where it is off. */
  readonly tlsUrl: string | null;
  /** Waits until all history is in the database: it is part of a query's cost. */
  readonly settle: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

const manifest = (cluster: string) => ({
  apiVersion: 'enginegateway.dev/v1beta1',
  kind: 'EngineCluster',
  metadata: { name: 'stub' },
  spec: { proxyTo: cluster, routingGroup: 'adhoc' },
});

/**
 * Starts a gateway in front of one cluster and waits until it is ready.
 * @param directory for its resources and what it spills; made before
 * @param config keys beside address, port, resources and database
 */
export async function startServe(
  directory: string,
  cluster: string,
  dataStore: { readonly jdbcUrl: string; readonly user?: string; readonly password?: string },
  config: Readonly<Record<string, unknown>>,
): Promise<ServeProcess> {
  writeFileSync(path.join(directory, 'cluster.yaml'), stringify(manifest(cluster)));
  await buildShippedProgram();
  const { url, pid, listening, stop } = await startGateway(
    {
      resources: { source: 'directory', directory },
      dataStore,
      queryHistory: { spillDirectory: path.join(directory, 'spill') },
      ...config,
    },
    // Without a cache of compiled code: a container starts without one.
    { NODE_DISABLE_COMPILE_CACHE: '1' },
    { program: 'shipped', isUnderLoad: true },
  );
  await poll('ready', async () => (await fetch(`${url}/readyz`)).status === 200);
  const depth = async () => {
    const text = await (await fetch(`${url}/metrics`)).text();
    return [...text.matchAll(/^engine_gateway_history_depth\{[^}]*\} (\d+)/gm)].map(([, count]) => Number(count));
  };
  return {
    url,
    tlsUrl: (listening.httpsUrl as string | null | undefined) ?? null,
    workerPid: pid,
    settle: () => poll('written', async () => (await depth()).every((count) => count === 0)),
    stop: async () => void (await stop()),
  };
}

async function poll(what: string, condition: () => Promise<boolean>): Promise<void> {
  for (let turn = 0; turn < 600; turn++) {
    if (await condition()) return;
    await sleep(100);
  }
  throw new Error(`not ${what} within 60 s`);
}
