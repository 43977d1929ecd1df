import { type LookupAddress, type LookupAllOptions, lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { type ConnectionOptions, createSecureContext, type SecureContext, type SecureContextOptions } from 'node:tls';
import type { Logger } from 'pino';
import { buildConnector } from 'undici';
import type { ClusterTlsSpec } from '../../kinds/engineCluster/spec.ts';
import type { ClusterAddresses } from '../../model/clusterAddresses.ts';
import type { ClusterTlsMaterial, RoutingTable } from '../../routing/routingTable.ts';
import type { TlsMaterial } from './tlsFiles.ts';

export type TlsConnection = Pick<
  ConnectionOptions,
  'secureContext' | 'servername' | 'rejectUnauthorized' | 'checkServerIdentity'
>;

export interface ServerTls {
  /** Name of the cluster, for the warning about an unverified certificate. */
  readonly name: string;
  readonly tls: ClusterTlsSpec | null;
  readonly tlsMaterial?: ClusterTlsMaterial | undefined;
}

/** Settings of connections to some servers, as plain data for another thread. */
export interface ClusterTlsData {
  readonly context: SecureContextOptions;
  readonly verifyHostname: boolean;
  readonly servers: readonly (readonly [origin: string, server: ServerTls | null])[];
}

type PlainConnectorFactory = (
  options: buildConnector.BuildOptions & { readonly timeout: number; readonly allowH2: false },
) => buildConnector.connector;

/** Finds the server at an origin such as `https://a:8443`; null if unknown. */
export type ServerAt = (origin: string) => ServerTls | null;

/**
 * TLS for connections to clusters (or another server), for every client: certificates are verified against the
 * configured authorities, or the cluster's own, with its server name. Only a cluster with `spec.tls.insecureSkipVerify`
 * is not verified. Changed files and resources apply to the next connection.
 */
export class ClusterTls {
  readonly #files: { readonly current: TlsMaterial };
  readonly #verifyHostname: boolean;
  readonly #serverAt: ServerAt;
  readonly #guard: AddressGuard | null;
  readonly #logger: Logger;
  /** By origin: running queries of a deleted cluster still use it. */
  readonly #servers = new Map<string, ServerTls>();
  readonly #warned = new Set<string>();
  readonly #materials = new Map<
    string,
    { readonly of: string; readonly material: TlsMaterial; readonly options: TlsConnection }
  >();
  readonly #contexts = new Map<string, { readonly material: TlsMaterial; readonly context: SecureContext }>();

  /**
   * @param files active certificate files (`proxy.http-client.key-store-path` and others of a client)
   * @param verifyHostname `https.hostname-verification`: true if the certificate must name the host
   * @param guard rejects connections to special addresses; null for servers that the configuration names
   */
  constructor(
    files: { readonly current: TlsMaterial },
    verifyHostname: boolean,
    serverAt: ServerAt,
    guard: AddressGuard | null,
    logger: Logger,
  ) {
    this.#files = files;
    this.#verifyHostname = verifyHostname;
    this.#serverAt = serverAt;
    this.#guard = guard;
    this.#logger = logger;
  }

  /** Settings of connections to the servers of some URLs. */
  dataFor(urls: readonly string[]): ClusterTlsData {
    const servers = urls.map((url) => {
      const origin = originOfUrl(url) ?? url;
      const server = this.#serverAt(origin);
      return [origin, server && { name: server.name, tls: server.tls, tlsMaterial: server.tlsMaterial }] as const;
    });
    return { context: this.#files.current.context, verifyHostname: this.#verifyHostname, servers };
  }

  /**
   * A connector for undici's clients (`connect`), HTTP/1.1 only; the timeout in milliseconds.
   * @param connectPlainly creates the connector of connections in clear text
   */
  connector(timeout: number, connectPlainly: PlainConnectorFactory = buildConnector): buildConnector.connector {
    const guard = this.#guard;
    const common = { timeout, allowH2: false as const, ...(guard === null ? {} : { lookup: guard.lookup }) };
    const plain = connectPlainly(common);
    const connections = new Map<
      string,
      { readonly options: TlsConnection; readonly connect: buildConnector.connector }
    >();
    return (target, callback) => {
      const rejection = guard?.rejection(target.hostname) ?? null;
      if (rejection !== null) {
        queueMicrotask(() => callback(rejection, null));
        return;
      }
      if (target.protocol !== 'https:') {
        plain(target, callback);
        return;
      }
      const origin = originOf(target.hostname, target.port);
      let options: TlsConnection;
      try {
        options = this.optionsFor(origin);
      } catch (error) {
        queueMicrotask(() => callback(error instanceof Error ? error : new Error(String(error)), null));
        return;
      }
      let connection = connections.get(origin);
      if (connection?.options !== options) {
        // A separate connector for each set of options: it caches sessions, which must not outlive their verification.
        connection = { options, connect: buildConnector({ ...options, ...common }) };
        connections.set(origin, connection);
      }
      connection.connect(target, callback);
    };
  }

  /**
   * Options of `tls.connect` for an origin; a stable object while nothing changed. Throws if files and resource give no
   * usable context.
   */
  optionsFor(origin: string): TlsConnection {
    const current = this.#serverAt(origin);
    if (current !== null) this.#servers.set(origin, current);
    const server = current ?? this.#servers.get(origin) ?? null;
    const tls = server?.tls ?? null;
    const { ca = tls?.caBundle, certificate: cert, key } = server?.tlsMaterial ?? {};
    const of = JSON.stringify([tls, ca, cert, key]);
    const files = this.#files.current;
    const entry = this.#materials.get(origin);
    if (entry !== undefined && entry.of === of && entry.material === files) return entry.options;
    this.#warnUnverified(origin, server);
    const options: TlsConnection = {
      secureContext: this.#context({ ca, cert, key }, files),
      ...(tls?.serverName === undefined ? {} : { servername: tls.serverName }),
      ...(tls?.insecureSkipVerify === true ? { rejectUnauthorized: false } : {}),
      ...(this.#verifyHostname ? {} : { checkServerIdentity: () => undefined }),
    };
    this.#materials.set(origin, { of, material: files, options });
    return options;
  }

  /** One context for all clusters with the same certificates: creating one parses them. */
  #context(own: Pick<SecureContextOptions, 'ca' | 'cert' | 'key'>, material: TlsMaterial): SecureContext {
    const key = JSON.stringify(own);
    const entry = this.#contexts.get(key);
    if (entry?.material === material) return entry.context;
    const { pfx, passphrase, cert, key: privateKey, ...authorities } = material.context;
    const identity =
      own.cert === undefined ? { pfx, passphrase, cert, key: privateKey } : { cert: own.cert, key: own.key };
    const all = { ...authorities, ...identity, ...(own.ca === undefined ? {} : { ca: own.ca }) };
    const options = Object.entries(all).filter(([, value]) => value !== undefined);
    const context = createSecureContext(Object.fromEntries(options));
    this.#contexts.set(key, { material, context });
    return context;
  }

  #warnUnverified(origin: string, server: ServerTls | null): void {
    if (server?.tls?.insecureSkipVerify !== true || this.#warned.has(origin)) return;
    this.#warned.add(origin);
    this.#logger.warn(
      { cluster: server.name, origin },
      "the cluster's certificate is not verified (spec.tls.insecureSkipVerify): any host at that address reads queries and passwords",
    );
  }
}

/** Finds the cluster at an origin; of several, the first with TLS settings. */
export function clusterAtOrigin(table: { readonly current: RoutingTable }): ServerAt {
  return (origin) => {
    let server: ServerTls | null = null;
    for (const cluster of table.current.clusters.values()) {
      if (!cluster.proxyTo.startsWith('https:') || originOfUrl(cluster.proxyTo) !== origin) continue;
      if (cluster.tls !== null) return cluster;
      server ??= cluster;
    }
    return server;
  };
}

function originOf(hostname: string, port: string): string {
  const host = hostname.includes(':') && !hostname.startsWith('[') ? `[${hostname}]` : hostname;
  return `https://${host}:${port === '' ? '443' : port}`;
}

function originOfUrl(text: string): string | null {
  if (!URL.canParse(text)) return null;
  const { hostname, port } = new URL(text);
  return originOf(hostname, port);
}

/** Resolves a name to all of its addresses, as `dns.lookup` does. */
export type ResolveAll = (
  name: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** A connection that was rejected because of its address. */
export class AddressRejected extends Error {
  override readonly name = 'AddressRejected';
}

/**
 * Prevents connections to special addresses (`resources.allowedAddresses`), regardless of the author of the address,
 * and by the resolution at the time of the connection: a name that was accepted may resolve to another address later
 * (DNS rebinding). Open connections stay.
 */
export class AddressGuard {
  readonly #addresses: ClusterAddresses;
  readonly #resolve: ResolveAll;

  /**
   * @param addresses which addresses clusters may have
   * @param resolve resolves names; the system's resolver by default
   */
  constructor(addresses: ClusterAddresses, resolve: ResolveAll = systemLookup) {
    this.#addresses = addresses;
    this.#resolve = resolve;
  }

  /**
   * Returns the reason that a host is rejected, before its name is resolved, or null.
   * @param host a name or an address; an IPv6 address with or without brackets
   */
  rejection(host: string): AddressRejected | null {
    const plain = isIP(host) === 6 ? `[${host}]` : host;
    const rejection = this.#addresses.hostRejection(plain);
    return rejection === null ? null : new AddressRejected(`address not allowed: ${host} ${rejection}`);
  }

  /** `lookup` of `net.connect`: only allowed addresses; an error if a name has no others. */
  readonly lookup: LookupFunction = (name, options, callback) => {
    this.#resolve(name, { ...options, all: true }, (error, resolution) => {
      if (error !== null) {
        callback(error, '');
        return;
      }
      const addresses = this.#addresses;
      const allowed = resolution.filter(({ address }) => addresses.rejection(address) === null);
      const [first] = allowed;
      if (first === undefined) {
        const [rejected] = resolution;
        const why =
          rejected === undefined
            ? 'has no address'
            : `is ${rejected.address}, which ${addresses.rejection(rejected.address)}`;
        callback(new AddressRejected(`address not allowed: ${name} ${why}`), '');
      } else if (options.all === true) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
}
