import type { TestCertificate } from './certificates.ts';
import { until } from './gateway.ts';
import type { GatewayProcess } from './gatewayProcess.ts';
import { manifest } from './manifest.ts';
import { World } from './world.ts';

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
  const world = new World();
  world.begin();
  await world.declare(
    ...Object.entries(clusters).map(([name, proxyTo]) =>
      manifest('EngineCluster', name, { proxyTo, routingGroup: 'adhoc' }),
    ),
  );
  const tls = {
    'http-server.https.enabled': true,
    'http-server.https.port': 0,
    'http-server.https.keystore.path': certificate.file,
  };
  const serverConfig = { ...tls, ...(config.serverConfig as object | undefined) };
  const gateway = await world.start({ ...config, serverConfig }, {}, { isUnderLoad: true });
  const stop = async () => {
    await gateway.stop();
    await world.end();
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
