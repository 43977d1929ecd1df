import type { AddressInfo } from 'node:net';
import {
  type ClientCertificateMode,
  createSecureGatewayServer,
  type GatewayServerOptions,
  OpenRequests,
} from '../../src/gateway/server/gatewayServer.ts';
import type { TestCertificate } from './certificates.ts';
import { defaultServerOptions } from './defaults.ts';
import { closing, startGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts';

/** A data plane behind a real server over TLS on a free port. */
export interface SecureGateway extends TestGateway {
  readonly openRequests: OpenRequests;
  /** Begins to stop: no new connections, and clients are asked to go. */
  drain(): void;
}

/**
 * Starts one; `closeAll` ends it.
 * @param ca authority whose certificates clients show, where they are asked to
 */
export async function startSecureGateway(
  certificate: TestCertificate,
  ca: string,
  options: TestGatewayOptions,
  limits: Partial<GatewayServerOptions> = {},
  clientCertificates: ClientCertificateMode = 'ignore',
): Promise<SecureGateway> {
  const gateway = await startGateway(options);
  const openRequests = new OpenRequests();
  const { server, closeAllConnections } = createSecureGatewayServer(
    { ...defaultServerOptions(), dataPlane: gateway.dataPlane, api: null, openRequests, ...limits },
    { context: { cert: certificate.cert, key: certificate.key, ca }, chain: [] },
    clientCertificates,
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing({
    close: () => {
      closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  });
  const { port } = server.address() as AddressInfo;
  return { ...gateway, url: `https://localhost:${port}`, port, openRequests, drain: () => void server.close() };
}
