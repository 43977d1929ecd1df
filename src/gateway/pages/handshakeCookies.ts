import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import type { Clock } from '../../model/clock.ts';
import { recordIn } from '../../model/record.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import { CLUSTER_KEY_FORM } from '../../routing/statementProtocol.ts';
import type { ClusterKeys } from '../ownership/clusterKeys.ts';

/** Options of handshake cookies (docs/routing.md#logins-by-oauth2). */
export type HandshakeCookieOptions = GatewayConfig['oauth2GatewayCookieConfiguration'] & {
  /** `gatewayCookieConfiguration.cookieSigningSecret`, the same on all replicas. */
  readonly secret: string;
  /** `ProductNames.stickyCookiePrefix`: all cookies whose names begin so are looked at. */
  readonly prefix: string;
};

/** Path and cookies of a request on a steered path. */
export interface Handshake {
  /** The cluster that the handshake began on; null if no cookie counts, or `login` decides. */
  readonly cluster: ClusterEntry | null;
  /**
   * The login that the path names: without a cookie for this very path it decides on the cluster, as all its steps must
   * reach the same one; null for none.
   */
  readonly login: string | null;
  /** Lines of the response: they set the cookie where it is missing or names another cluster, or end it. */
  linesFor(responding: string): readonly string[];
}

/** Content of a cookie; what is signed has the keys in this order. */
interface Content {
  /** Key of the cluster, which reveals its address to no one. */
  readonly backend: string;
  readonly deletePaths: readonly string[];
  /** Name of the cookie: the value of another one does not count. */
  readonly name: string;
  /** Of several cookies that steer a path the lowest wins, then the oldest. */
  readonly priority: number;
  readonly routingPaths: readonly string[];
  /** When it was made, milliseconds. */
  readonly ts: number;
  /** Milliseconds. */
  readonly ttl: number;
}

const COOKIE = 'OAUTH2';
const PRIORITY = 0;
/** Cookies for one path come before those for all of a login's paths. */
const RENEWAL_PRIORITY = -1;
/** Milliseconds; the client asks for the renewed token immediately. */
const RENEWAL_LIFETIME = 60_000;
/** Ours are about 400 characters; longer ones are not worth a signature. */
const MAX_VALUE = 4096;
const MAX_COOKIES = 16;
/**
 * Paths of logins for a client, and of the client's token requests, with other cookies or none: the engine only shows
 * browsers the SHA-256 of the client's id (Trino, OAuth2TokenExchange.hashAuthId).
 */
const TOKEN_PATH = /^\/oauth2\/token\/(?:initiate\/([0-9a-f]{64})|([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))$/;
/**
 * The challenge that sends nobody to the provider: the engine renews the token itself, in its memory. Before the path may
 * be the prefix of a proxy, and the cluster's key, without which the token is asked for.
 */
const RENEWAL = new RegExp(
  String.raw`^Bearer x_token_server="https?://[^/"]+([\w.~%/-]*?)(?:/${CLUSTER_KEY_FORM})?(/oauth2/token/([0-9a-f-]{36}))"$`,
);

/**
 * Leads the steps of an OAuth2 login to the cluster it began on: engines keep its state in memory, and its requests carry
 * no query id. A login for a client is known by its id, all others by a cookie. Signed: what a client makes up, and what
 * is expired, does not count, but is no error.
 */
export class HandshakeCookies {
  readonly #options: HandshakeCookieOptions;
  readonly #keys: ClusterKeys;
  readonly #clock: Clock;
  readonly #name: string;
  readonly #steered: readonly string[];

  constructor(options: HandshakeCookieOptions, keys: ClusterKeys, clock: Clock) {
    this.#options = options;
    this.#keys = keys;
    this.#clock = clock;
    this.#name = `${options.prefix}${COOKIE}`;
    this.#steered = [...options.routingPaths, ...options.deletePaths];
  }

  /**
   * Parses the cookies of a request.
   * @param header all lines of `Cookie`, joined by "; "; called if the path is steered
   * @returns null for all other paths
   */
  read(path: string, header: () => string | undefined): Handshake | null {
    if (!isUnder(path, this.#steered)) return null;
    const cookies = this.#cookies(header() ?? '');
    const now = this.#clock.now();
    const counting = cookies
      .flatMap(({ name, value }) => this.#open(name, value) ?? [])
      .filter((content) => now < content.ts + content.ttl && isUnder(path, steeredBy(content)))
      .map((content) => ({ content, cluster: this.#keys.clusterOf(content.backend) }))
      .filter(({ cluster }) => cluster !== null)
      .sort((a, b) => a.content.priority - b.content.priority || a.content.ts - b.content.ts);
    const [first] = counting;
    const cluster = first?.cluster ?? null;
    const login = loginOf(path);
    const decides = login === null || first?.content.routingPaths.includes(path) === true;
    const ends = this.#options.deletePaths.includes(path);
    const isPresent = cookies.some(({ name }) => name === this.#name);
    const begins = !ends && isUnder(path, this.#options.routingPaths);
    return {
      cluster: decides ? cluster : null,
      login,
      linesFor: (responding) => {
        if (ends) return isPresent ? this.#line(this.#name, 'delete', 0) : [];
        return begins && cluster?.name !== responding ? this.#begin(responding) : [];
      },
    };
  }

  /**
   * Lines of a response, on whichever path, after which the client turns to a steered one: of one that sends the
   * browser to a provider, so that it comes back to this cluster and each login has a whole lifetime, and of one that
   * makes a client to fetch a renewed token.
   * @param headers those of the cluster
   */
  linesOfLogin(headers: IncomingHttpHeaders, responding: string): readonly string[] {
    const { location, 'www-authenticate': challenge } = headers;
    if (typeof location === 'string' && isAuthorization(location)) return this.#begin(responding);
    if (challenge === undefined) return [];
    for (const one of [challenge].flat()) {
      const [, prefix, path, id] = RENEWAL.exec(one) ?? [];
      if (prefix !== undefined && path !== undefined && id !== undefined) {
        const limits = { routingPaths: [path], deletePaths: [], priority: RENEWAL_PRIORITY, ttl: RENEWAL_LIFETIME };
        // A client may have several tokens renewed at once: each cookie is sent for its own one alone.
        return this.#set(responding, { name: `${this.#name}.${id}`, ...limits }, `${prefix}${path}`);
      }
    }
    return [];
  }

  #begin(cluster: string): readonly string[] {
    const { routingPaths, deletePaths, lifetime } = this.#options;
    return this.#set(cluster, { name: this.#name, routingPaths, deletePaths, priority: PRIORITY, ttl: lifetime });
  }

  #set(cluster: string, rest: Omit<Content, 'backend' | 'ts'>, path = '/'): readonly string[] {
    const content: Content = { backend: this.#keys.keyOf(cluster), ...rest, ts: this.#clock.now() };
    const text = JSON.stringify({ ...content, signature: this.#sign(content) });
    return this.#line(content.name, Buffer.from(text).toString('base64url'), content.ttl, path);
  }

  #line(name: string, value: string, lifetime: number, path = '/'): readonly string[] {
    const attributes = `Max-Age=${Math.floor(lifetime / 1000)}; Path=${path}; Secure; HttpOnly; SameSite=Lax`;
    return ['Set-Cookie', `${name}=${value}; ${attributes}`];
  }

  #sign({ backend, deletePaths, name, priority, routingPaths, ts, ttl }: Content): string {
    const text = JSON.stringify({ backend, deletePaths, name, priority, routingPaths, ts, ttl });
    return createHmac('sha256', this.#options.secret).update(text).digest('hex');
  }

  /** Content of a cookie that this gateway, or another replica, has made under that name; null for any other. */
  #open(name: string, value: string): Content | null {
    // What is signed has the form of a content.
    const { signature, ...rest } = recordIn(Buffer.from(value, 'base64url').toString('utf8')) ?? {};
    const content = rest as unknown as Content;
    const expected = Buffer.from(this.#sign(content));
    const bytes = Buffer.from(String(signature));
    const isSigned = bytes.length === expected.length && timingSafeEqual(bytes, expected);
    const hasPaths = Array.isArray(content.routingPaths) && Array.isArray(content.deletePaths);
    return isSigned && hasPaths && content.name === name ? content : null;
  }

  #cookies(header: string): readonly { readonly name: string; readonly value: string }[] {
    const values: { name: string; value: string }[] = [];
    if (!header.includes(this.#options.prefix)) return values;
    for (const pair of header.split(';')) {
      const equals = pair.indexOf('=');
      const name = pair.slice(0, Math.max(equals, 0)).trim();
      if (!name.startsWith(this.#options.prefix)) continue;
      const value = pair.slice(equals + 1).trim();
      if (value.length <= MAX_VALUE) values.push({ name, value });
      if (values.length === MAX_COOKIES) break;
    }
    return values;
  }
}

/** SHA-256 of the id of a client's login; null for other paths. */
function loginOf(path: string): string | null {
  const [, hash, id] = TOKEN_PATH.exec(path) ?? [];
  return hash ?? (id === undefined ? null : createHash('sha256').update(id).digest('hex'));
}

/** True if an address is an authorization request (RFC 6749 §4.1.1) that states where to come back to. */
function isAuthorization(location: string): boolean {
  return /[?&]client_id=/.test(location) && /[?&]redirect_uri=/.test(location);
}

function isUnder(path: string, bases: readonly string[]): boolean {
  return bases.some((base) => {
    const cut = base.replace(/\/+$/, '');
    return path === cut || (path.startsWith(cut) && path.charCodeAt(cut.length) === 47);
  });
}

function steeredBy({ routingPaths, deletePaths }: Content): readonly string[] {
  return [...routingPaths, ...deletePaths];
}
