import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { originReader } from '../api/auth/clientAddress.ts';
import { JWKS_PATH } from '../api/probes.ts';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { isOpenAccess, listenAddresses } from '../config/openAccess.ts';
import type { DataPlane } from '../gateway/dataPlane.ts';
import { trustPeers } from '../gateway/headers/trustedProxies.ts';
import {
  createGatewayServer,
  type GatewayServerOptions,
  type RequestHandler,
  type ServerLimits,
} from '../gateway/server/gatewayServer.ts';
import { hostCheck } from '../gateway/server/hostCheck.ts';
import type { Http2Connections } from '../gateway/server/http2Connections.ts';
import type { OpenRequests } from '../gateway/server/openRequests.ts';
import { type Origins, sideByHost } from '../gateway/server/origins.ts';
import type { OverloadManager } from '../gateway/server/overloadManager.ts';
import { type ClientCertificateMode, createSecureGatewayServer } from '../gateway/server/secureServer.ts';
import type { TlsWatch } from '../gateway/tls/tlsWatch.ts';
import { GatewayError } from '../model/errors.ts';
import { productNames } from '../model/names.ts';
import { parseHost } from '../model/requestHost.ts';
import { clientCertificateMode } from './tlsSettings.ts';

const CONNECTIONS_CHECKING_INTERVAL_MS = 5_000;

/** Time for the end of connections to reach clients at a clean stop. */
const GOODBYE_MS = 500;

const probes = ['/livez', '/readyz'];

export interface Listeners {
  /** Address of proxied paths (and of the API, unless it has a separate one): clear text if available. */
  readonly url: string;
  /** Address of HTTPS, or null. */
  readonly httpsUrl: string | null;
  /** Address of the API if `server.adminPort` gives it a separate listener; else null. */
  readonly adminUrl: string | null;
  /** Closes connections on which nothing runs. */
  closeIdle(): void;
  /** Accepts no new connections and closes idle ones. */
  drain(): void;
  closeConnections(): Promise<void>;
}

export interface Served {
  readonly dataPlane: DataPlane;
  readonly api: RequestHandler;
  readonly openRequests: OpenRequests;
  readonly overload: OverloadManager;
  readonly http2Connections: Http2Connections;
  /** Certificate files of clients' connections; null if HTTPS is disabled. */
  readonly tls: TlsWatch | null;
}

interface Listener {
  readonly server: Server;
  readonly url: string;
  readonly closeIdleConnections: () => void;
  readonly closeAllConnections: () => void;
}

/**
 * Starts listening. With HTTPS, the listener of `server.adminPort` uses it too. With `server.adminHosts` or
 * `server.adminPort`, no address serves both the API and proxied paths (docs/serving.md).
 * @throws GatewayError EG_IMPOSSIBLE if an address is not available: the message names address and key; stops all
 * listeners then
 */
export async function listen(
  config: GatewayConfig,
  { dataPlane, api, openRequests, overload, http2Connections, tls }: Served,
): Promise<Listeners> {
  const { serverConfig, server } = config;
  const { adminPort } = server;
  const separated = separateOrigins(config);
  const started: Listener[] = [];
  const hosts = isOpenAccess(config) ? hostCheck(knownHosts(server)) : null;
  const start = async (origins: Origins | null, port: number, key: string, secure: boolean) => {
    const options = {
      ...{ dataPlane, api, origins, ...serverLimits(config), openRequests, overload },
      ...{ http2Connections, hostCheck: hosts },
    };
    const clientCertificates = clientCertificateMode(config);
    const open = async (address: string, openPort: number): Promise<string> => {
      const listener = await (secure && tls !== null
        ? startSecure(options, tls, clientCertificates, { address, port: openPort, key })
        : startClear(options, { address, port: openPort, key }));
      started.push(listener);
      return listener.url;
    };
    const [first, second] = listenAddresses(server.address);
    const url = await open(first, port);
    if (second !== undefined) await openBeside(() => open(second, Number(new URL(url).port)), port === 0);
    return url;
  };
  try {
    const http = serverConfig['http-server.http.enabled']
      ? await start(separated, serverConfig['http-server.http.port'], 'serverConfig "http-server.http.port"', false)
      : null;
    const https =
      tls === null
        ? null
        : await start(separated, serverConfig['http-server.https.port'], 'serverConfig "http-server.https.port"', true);
    const admin: Origins | null = separated === null ? null : { ...separated, sideOf: () => 'admin' };
    const adminUrl = adminPort === null ? null : await start(admin, adminPort, 'server.adminPort', true);
    return listenersOf(started, http2Connections, { url: http ?? https ?? '', httpsUrl: https, adminUrl });
  } catch (error) {
    for (const { server: open } of started) open.close();
    throw error;
  }
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
    const isMissing = code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT' || code === 'EINVAL';
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
  const trustPeer = trustPeers(serverConfig['http-server.process-forwarded'], trustedProxies);
  const view = originReader(names, trustPeer);
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

export function serverLimits(config: GatewayConfig): ServerLimits {
  const { server, serverConfig } = config;
  return {
    maxHeaderSize: serverConfig['http-server.max-request-header-size'],
    maxHeaderLines: server.maxHeaderLines,
    maxResponseHeaderSize: serverConfig['http-server.max-response-header-size'],
    headersTimeout: server.headersTimeout,
    requestTimeout: server.requestTimeout,
    idleTimeout: serverConfig['http-server.net.max-idle-time'],
    maxConnections: server.maxConnections,
    http2: server.http2,
    maxConcurrentStreams: serverConfig['http-server.http2.max-concurrent-streams'],
    connectionsCheckingInterval: CONNECTIONS_CHECKING_INTERVAL_MS,
  };
}

interface Address {
  readonly address: string;
  readonly port: number;
  readonly key: string;
}

async function startClear(options: GatewayServerOptions, address: Address): Promise<Listener> {
  const server = createGatewayServer(options);
  const url = `http://${await bind(server, address)}`;
  return {
    server,
    url,
    closeIdleConnections: () => server.closeIdleConnections(),
    closeAllConnections: () => server.closeAllConnections(),
  };
}

async function startSecure(
  options: GatewayServerOptions,
  tls: TlsWatch,
  clientCertificates: ClientCertificateMode,
  address: Address,
): Promise<Listener> {
  const { useCertificate, ...listener } = createSecureGatewayServer(options, tls.current, clientCertificates);
  tls.onChange(useCertificate);
  const url = `https://${await bind(listener.server, address)}`;
  return { ...listener, url };
}

/** Listens; returns host and port. */
async function bind(server: Server, { address, port, key }: Address): Promise<string> {
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

function listenersOf(
  started: readonly Listener[],
  http2Connections: Http2Connections,
  urls: Pick<Listeners, 'url' | 'httpsUrl' | 'adminUrl'>,
): Listeners {
  let closed: Promise<unknown> = Promise.resolve();
  return {
    ...urls,
    closeIdle() {
      for (const listener of started) listener.closeIdleConnections();
      http2Connections.closeIdle();
    },
    drain() {
      closed = Promise.all(
        started.map(({ server }) => {
          const end = once(server, 'close');
          // Closes idle connections too, and sends GOAWAY to clients over HTTP/2.
          server.close();
          return end;
        }),
      );
    },
    async closeConnections() {
      for (const listener of started) listener.closeIdleConnections();
      await Promise.race([closed, pause(GOODBYE_MS, undefined, { ref: false })]);
      for (const listener of started) listener.closeAllConnections();
      await closed;
    },
  };
}
