import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { stringify } from 'yaml';
import { buildShippedProgram, shippedProgram } from '../../test/support/shippedProgram.ts';

/** `engine-gateway serve` as it ships, with a configuration of its own. */
export interface ServeProcess {
  readonly url: string;
  /** Address of HTTPS; null where it is off. */
  readonly tlsUrl: string | null;
  readonly workerPid: number;
  /** Waits until all history is in the database: it is part of a query's cost. */
  readonly settle: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

const manifest = (cluster: string) => ({
  apiVersion: 'enginegateway.dev/v1',
  kind: 'EngineCluster',
  metadata: { name: 'stub' },
  spec: { proxyTo: cluster, routingGroup: 'adhoc' },
});

/**
 * Starts a gateway in front of one cluster and waits until it is ready.
 * @param directory for its configuration and resources; made before
 * @param config keys beside address, port, resources and database
 */
export async function startServe(
  directory: string,
  cluster: string,
  jdbcUrl: { readonly jdbcUrl: string; readonly user?: string; readonly password?: string },
  config: Readonly<Record<string, unknown>>,
): Promise<ServeProcess> {
  writeFileSync(path.join(directory, 'cluster.yaml'), stringify(manifest(cluster)));
  const { serverConfig, ...rest } = config;
  const file = path.join(directory, 'gateway.conf');
  writeFileSync(
    file,
    stringify({
      server: { address: '127.0.0.1' },
      serverConfig: { 'http-server.http.port': 0, ...(serverConfig as object | undefined) },
      resources: { source: 'directory', directory },
      dataStore: jdbcUrl,
      queryHistory: { spillDirectory: path.join(directory, 'spill') },
      ...rest,
    }),
  );
  await buildShippedProgram();
  const child = spawn(process.execPath, [...(await shippedProgram()), 'serve', '--config', file], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const { pid } = child;
  if (pid === undefined) throw new Error('the gateway did not start');
  const exited = once(child, 'exit');
  const stop = async () => {
    child.kill('SIGTERM');
    await exited;
  };
  const lines = createInterface({ input: child.stdout });
  const { url, httpsUrl } = await new Promise<{ url: string; httpsUrl?: string }>((resolve, reject) => {
    lines.on('line', (line) => {
      const { msg, url, httpsUrl } = JSON.parse(line) as { msg?: string; url?: string; httpsUrl?: string };
      if (msg === 'listening' && url !== undefined) resolve({ url, ...(httpsUrl === undefined ? {} : { httpsUrl }) });
    });
    lines.once('close', () => reject(new Error('the gateway ended before it listened')));
  });
  await poll('ready', async () => (await fetch(`${url}/readyz`)).status === 200);
  const depth = async () => {
    const text = await (await fetch(`${url}/metrics`)).text();
    return [...text.matchAll(/^engine_gateway_history_depth\{[^}]*\} (\d+)/gm)].map(([, count]) => Number(count));
  };
  const settle = () => poll('written', async () => (await depth()).every((count) => count === 0));
  return { url, tlsUrl: httpsUrl ?? null, workerPid: pid, settle, stop };
}

async function poll(what: string, condition: () => Promise<boolean>): Promise<void> {
  for (let turn = 0; turn < 600; turn++) {
    if (await condition()) return;
    await sleep(100);
  }
  throw new Error(`not ${what} within 60 s`);
}
