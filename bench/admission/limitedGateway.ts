import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type GatewayProcess, startGateway } from '../../test/support/gatewayProcess.ts';
import { declare, manifest, sharedSecret } from '../../test/support/queueing.ts';
import { buildShippedProgram } from '../../test/support/shippedProgram.ts';

/** What is chosen of the gateways before one cluster. */
export interface LimitedGateways {
  /** Of this benchmark. */
  readonly directory: string;
  readonly cluster: string;
  readonly dataStore: { readonly jdbcUrl: string; readonly user?: string; readonly password?: string };
  /** Null: the group has no limit. */
  readonly maxRunning: number | null;
  /** `queue.hold` */
  readonly hold: string;
  readonly count: number;
  /** Ports of their inspectors; none where absent. */
  readonly inspectors?: readonly number[];
  /** Resources besides the cluster and its group. */
  readonly more?: readonly object[];
}

/** Starts replicas as they ship before one cluster whose group has a limit, and waits until they are ready. */
export async function startLimitedGateways(options: LimitedGateways): Promise<readonly GatewayProcess[]> {
  const { directory, cluster, dataStore, maxRunning, hold, count, inspectors = [], more = [] } = options;
  await buildShippedProgram();
  const resources = path.join(directory, 'resources');
  mkdirSync(resources, { recursive: true });
  await declare(
    resources,
    manifest('EngineCluster', 'stub', { proxyTo: cluster, routingGroup: 'adhoc' }),
    manifest('RoutingGroup', 'adhoc', {
      ...(maxRunning === null ? {} : { maxRunningQueries: maxRunning }),
      queue: { hold, maxWait: '30m', maxQueuedQueries: 20_000 },
    }),
    ...more,
  );
  const gateways: GatewayProcess[] = [];
  for (let index = 0; index < count; index++) {
    const inspector = inspectors[index] === undefined ? '' : `--inspect=127.0.0.1:${inspectors[index]}`;
    gateways.push(
      await startGateway(
        {
          ...sharedSecret,
          dataStore,
          resources: { source: 'directory', directory: resources },
          queryHistory: { spillDirectory: path.join(directory, `spill-${index}`) },
          serverConfig: { 'proxy.http-client.max-connections-per-server': 4_000 },
        },
        { NODE_DISABLE_COMPILE_CACHE: '1', NODE_OPTIONS: inspector },
        { program: 'shipped', isUnderLoad: true },
      ),
    );
  }
  for (const { url } of gateways) {
    while ((await fetch(`${url}/readyz`)).status !== 200) await sleep(50);
    const healthy = async () =>
      ((await (await fetch(`${url}/api/scaling/adhoc`)).json()) as { clusters?: { healthy: number } }).clusters
        ?.healthy;
    while ((await healthy()) !== 1) await sleep(50);
  }
  return gateways;
}
