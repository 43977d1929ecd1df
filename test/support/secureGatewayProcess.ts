import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import type { TestCertificate } from './certificates.ts';
import { until } from './gateway.ts';
import { type GatewayProcess, startGateway } from './gatewayProcess.ts';
import { manifest } from './manifest.ts';

/** A gateway that serves clients over TLS, in a process of its own. */
export interface SecureGatewayProcess extends Omit<GatewayProcess, 'url' | 'stop'> {
  /** `https://localhost:PORT` */
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts one in front of clusters by name and address; resolves once it takes queries for all of them. */
export async function startSecureGatewayProcess(
  certificate: TestCertificate,
  clusters: Readonly<Record<string, string>>,
  config: Readonly<Record<string, unknown>> = {},
): Promise<SecureGatewayProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'secure-gateway-'));
  const manifests = Object.entries(clusters).map(([name, proxyTo]) =>
    stringify(manifest('EngineCluster', name, { proxyTo, routingGroup: 'adhoc' })),
  );
  await writeFile(join(folder, 'clusters.yaml'), manifests.join('---\n'));
  const gateway = await startGateway(
    {
      resources: { source: 'directory', directory: folder },
      dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
      ...config,
      serverConfig: {
        'http-server.https.enabled': true,
        'http-server.https.port': 0,
        'http-server.https.keystore.path': certificate.file,
        ...(config.serverConfig as object | undefined),
      },
    },
    {},
    { isUnderLoad: true },
  );
  const stop = async () => {
    await gateway.stop();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    for (const name of Object.keys(clusters)) {
      const state = async () => (await fetch(`${gateway.url}/api/public/backends/${name}/state`)).text();
      await until(async () => (await state()).includes('"HEALTHY"'), `${name} to be healthy`, 60_000);
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return { ...gateway, url: String(gateway.listening.httpsUrl).replace('127.0.0.1', 'localhost'), stop };
}
