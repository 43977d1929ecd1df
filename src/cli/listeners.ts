import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { originReader } from '../api/auth/attemptLimit.ts';
import { JWKS_PATH } from '../api/probes.ts';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { isOpenAccess, listenAddresses } from '../config/openAccess.ts';
import { trustPeers } from '../gateway/headers/requestHeaders.ts';
import {
  createGatewayServer,
  createSecureGatewayServer,
  type GatewayServerOptions,
  hostCheck,
  type Origins,
  type ServerLimits,
  sideByHost,
} from '../gateway/server/gatewayServer.ts';
import type { TlsWatch } from '../gateway/tls/tlsFiles.ts';
import { GatewayError } from '../model/errors.ts';
import { parseHost } from '../model/http.ts';
import { productNames } from '../model/names.ts';
import { clientCertificateMode } from './settings.ts';

const CONNECTIONS_CHECKING_INTERVAL_MS = 5_000;

/** Time for the end of connections to reach clients at a clean stop. */
const GOODBYE_MS = 500;

const probes = ['/livez', '/readyz'];

/** Parts that the listeners serve. */
type Served = Pick<GatewayServerOptions, 'dataPlane' | 'api' | 'openRequests' | 'overload' | 'http2Connections'>;

export type Listeners = Awaited<ReturnType<typeof listen>>;

interface Listener {
  readonly server: Server;
  readonly closeIdleConnections: () => void;
  readonly closeAllConnections: () => void;
}

/**
 * Starts listening. With HTTPS, the listener of `server.adminPort` uses it too. With `server.adminHosts` or
 * `server.adminPort`, no address serves both the API and proxied paths (docs/serving.md).
 * @param tls certificate files of clients' connections; null if HTTPS is disabled
 * @throws GatewayError EG_IMPOSSIBLE if an address is not available: the message names address and key; stops all
 * listeners then
 */
export async function listen(config: GatewayConfig, served: Served, tls: TlsWatch | null) {
  const { serverConfig, server } = config;
  const { adminPort } = server;
  const separated = separateOrigins(config);
  const started: Listener[] = [];
  const hosts = isOpenAccess(config) ? hostCheck(knownHosts(server)) : null;
  /** Listens on one port of all addresses, and returns the URL of the first one. */
  const start = async (origins: Origins | null, port: number, key: string, isSecure: boolean): Promise<string> => {
    const open = async (address: string, openPort: number): Promise<string> => {
      const options = { ...served, ...serverLimits(config), hostCheck: hosts, origins };
      const listener = isSecure && tls !== null ? secureListener(options, tls, config) : clearListener(options);
      const bound = await bind(listener.server, address, openPort, key);
      started.push(listener);
      return `${isSecure && tls !== null ? 'https' : 'http'}://${bound}`;
    };
    const [first, second] = listenAddresses(server.address);
    const url = await open(first, port);
    if (second !== undefined) await openBeside(() => open(second, Number(new URL(url).port)), port === 0);
    return url;
  };
  let [http, https, adminUrl]: (string | null)[] = [];
  try {
    if (serverConfig['http-server.http.enabled']) {
      http = await start(
        separated,
        serverConfig['http-server.http.port'],
        'serverConfig "http-server.http.port"',
        false,
      );
    }
    if (tls !== null) {
      const port = serverConfig['http-server.https.port'];
      https = await start(separated, port, 'serverConfig "http-server.https.port"', true);
    }
    const admin: Origins | null = separated === null ? null : { ...separated, sideOf: () => 'admin' };
    if (adminPort !== null) adminUrl = await start(admin, adminPort, 'server.adminPort', true);
  } catch (error) {
    for (const { server: open } of started) open.close();
    throw error;
  }
  let closed: Promise<unknown> = Promise.resolve();
  return {
    /** Address of proxied paths (and of the API, unless it has a separate one): clear text if available. */
    url: http ?? https ?? '',
    httpsUrl: https ?? null,
    /** Address of the API if `server.adminPort` gives it a separate listener; else null. */
    adminUrl: adminUrl ?? null,
    /** Closes connections on which nothing runs. */
    closeIdle() {
      for (const listener of started) listener.closeIdleConnections();
      served.http2Connections.closeIdle();
    },
    /** Accepts no new connections and closes idle ones; sends GOAWAY to clients over HTTP/2. */
    drain() {
      closed = Promise.all(started.map(({ server: open }) => once(open, 'close')));
      for (const { server: open } of started) open.close();
    },
    async closeConnections() {
      for (const listener of started) listener.closeIdleConnections();
      await Promise.race([closed, pause(GOODBYE_MS, undefined, { ref: false })]);
      for (const listener of started) listener.closeAllConnections();
      await closed;
    },
  };
}

/**
 * Listens on IPv6 in addition to IPv4, if available.
 * @param isAnyPort true if the port was chosen for IPv4, so that another program may use it for IPv6
 */
async function openBeside(open: () => Promise<string>, isAnyPort: boolean): Promise<void> {
  try {
    await open();
  } catch (error) {
    const code = ((error as GatewayError).cause as NodeJS.ErrnoException | undefined)?.code ?? '';
    const isMissing = ['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EINVAL'].includes(code);
    if (!isMissing && !(isAnyPort && code === 'EADDRINUSE')) throw error;
  }
}

/** Accepted hosts of a gateway without authentication, in addition to addresses and localhost. */
function knownHosts({ address, allowedHosts, adminHosts }: GatewayConfig['server']): readonly string[] {
  return [address, ...allowedHosts, ...adminHosts.flatMap((host) => parseHost(host)?.name ?? [])];
}

/** Separation of API and pages from proxied paths, on the listeners of both; null if they share an origin. */
function separateOrigins({ protocol, server, serverConfig }: GatewayConfig): Origins | null {
  const { adminHosts, adminPort, trustedProxies } = server;
  if (adminHosts.length === 0 && adminPort === null) return null;
  const names = productNames(protocol.productName);
  const view = originReader(names, trustPeers(serverConfig['http-server.process-forwarded'], trustedProxies));
  const hosts = adminHosts.map(parseHost).filter((host) => host !== null);
  const places = [
    ...(adminHosts.length === 0 ? [] : [`${adminHosts.join(', ')} (server.adminHosts)`]),
    ...(adminPort === null ? [] : [`port ${adminPort} (server.adminPort)`]),
  ];
  return {
    sideOf: hosts.length === 0 ? () => 'queries' : sideByHost(hosts, (request) => view(request).view),
    adminAddress: places.join(' and '),
    sharedPaths: new Set([JWKS_PATH, '/metrics', ...probes, ...probes.map((path) => `${names.gatewayPath}${path}`)]),
  };
}

export function serverLimits({ server, serverConfig }: GatewayConfig): ServerLimits {
  return {
    ...server,
    maxHeaderSize: serverConfig['http-server.max-request-header-size'],
    maxResponseHeaderSize: serverConfig['http-server.max-response-header-size'],
    idleTimeout: serverConfig['http-server.net.max-idle-time'],
    maxConcurrentStreams: serverConfig['http-server.http2.max-concurrent-streams'],
    connectionsCheckingInterval: CONNECTIONS_CHECKING_INTERVAL_MS,
  };
}

function clearListener(options: GatewayServerOptions): Listener {
  const server = createGatewayServer(options);
  return {
    server,
    closeIdleConnections: () => server.closeIdleConnections(),
    closeAllConnections: () => server.closeAllConnections(),
  };
}

function secureListener(options: GatewayServerOptions, tls: TlsWatch, config: GatewayConfig): Listener {
  const { useCertificate, ...listener } = createSecureGatewayServer(
    options,
    tls.current,
    clientCertificateMode(config),
  );
  tls.onChange(useCertificate);
  return listener;
}

/** Listens; returns host and port. */
export async function bind(server: Server, address: string, port: number, key: string): Promise<string> {
  server.listen(port, address);
  try {
    await once(server, 'listening');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const why =
      code === 'EADDRINUSE' ? 'another program listens there' : code === 'EACCES' ? 'it is not allowed' : String(code);
    throw new GatewayError('EG_IMPOSSIBLE', `Cannot listen on ${address}:${port}: ${why}. Change ${key}.`, {
      field: key,
      cause: error,
    });
  }
  const bound = server.address() as AddressInfo;
  const host = bound.address === '0.0.0.0' || bound.address === '::' ? 'localhost' : bound.address;
  return `${host.includes(':') ? `[${host}]` : host}:${bound.port}`;
}
