import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { Logger } from 'pino';
import { Counter, Gauge, type Registry } from 'prom-client';
import { type ClientView, plainAddress, RequestHeaders, type TrustPeer } from '../../gateway/headers/requestHeaders.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import type { ProductNames } from '../../model/names.ts';

/** Limits of failed logins (`authentication.loginLimit`). */
export interface AttemptLimits {
  /** Failures of one name from one network before the next attempt has to wait. */
  readonly maxAttempts: number;
  /** Milliseconds after which all of these are forgotten. */
  readonly window: number;
}

export type AttemptResult = 'succeeded' | 'failed' | 'limited';

export type RecordAttempt = (name: string, source: LoginSource, result: AttemptResult) => void;

/** Tokens of a full bucket, and milliseconds after which one returns. */
interface BucketSize {
  readonly tokens: number;
  readonly refillMs: number;
}

interface Bucket {
  readonly size: BucketSize;
  readonly tokens: number;
  /** Monotonic milliseconds at which `tokens` was right. */
  readonly at: number;
  readonly isKnown: boolean;
}

const MAX_BUCKETS = 100_000;
const MAX_CHECKS = 16;
/** Share of its tokens from which a bucket may be evicted. */
const NEARLY_FULL = 0.75;
/** Failures of a network for all names, as a multiple of those for one name; of a wide network as a multiple of those. */
const NETWORK_FACTOR = 10;

/**
 * Limits guessing of passwords without locking a user out. A failure takes a token of the bucket of (name, network) and one of the buckets of
 * the network and of the wide networks around it. Names that have logged in from the network need only a token of the first. Attempts without
 * a token are rejected without looking at the password, so that right ones do not stand out.
 *
 * The buckets are of this process, in an LRU of a fixed size, which evicts nearly full buckets: a flood of other names and networks does not
 * refill the bucket of a name that is guessed at.
 */
export class AttemptLimit {
  readonly #clock: Clock;
  readonly #record: RecordAttempt;
  readonly #ofName: BucketSize;
  readonly #ofNetwork: BucketSize;
  readonly #ofWideNetwork: BucketSize;
  readonly #buckets = new Map<string, Bucket>();

  constructor({ maxAttempts, window }: AttemptLimits, clock: Clock, record: RecordAttempt) {
    this.#clock = clock;
    this.#record = record;
    const refillMs = window / maxAttempts;
    this.#ofName = { tokens: maxAttempts, refillMs };
    this.#ofNetwork = { tokens: maxAttempts * NETWORK_FACTOR, refillMs };
    this.#ofWideNetwork = { tokens: maxAttempts * NETWORK_FACTOR ** 2, refillMs: refillMs / NETWORK_FACTOR };
  }

  /**
   * Runs a check of a password. The tokens are taken before it starts, so that concurrent guesses count as well.
   * @throws GatewayError EG_TOO_MANY_ATTEMPTS with the seconds to wait, without looking at the password
   */
  async guard<T>(
    name: string,
    source: LoginSource,
    check: () => Promise<T>,
    succeeded: (result: T) => boolean,
  ): Promise<T> {
    const pair = keyOf(name, nearNetwork(source));
    const own = this.#bucket(pair, this.#ofName);
    const wait = Math.max(waitOf(own), own.isKnown ? 0 : this.wait(source));
    if (wait > 0) {
      this.#record(name, source, 'limited');
      throw tooManyAttempts(wait);
    }
    this.#add(pair, this.#ofName, -1);
    this.add(source, -1);
    let result: T;
    try {
      result = await check();
    } catch (error) {
      // A directory that is unavailable shows nothing about the password.
      this.#add(pair, this.#ofName, 1);
      this.add(source, 1);
      throw error;
    }
    const isRight = succeeded(result);
    this.#record(name, source, isRight ? 'succeeded' : 'failed');
    if (isRight) {
      this.#set(pair, { ...this.#bucket(pair, this.#ofName), tokens: this.#ofName.tokens, isKnown: true });
      this.add(source, 1);
    }
    return result;
  }

  /** Milliseconds until the networks of a source may fail once more; 0: now. */
  wait(source: LoginSource): number {
    return Math.max(...this.#networks(source).map(([key, size]) => waitOf(this.#bucket(key, size))));
  }

  add(source: LoginSource, tokens: 1 | -1): void {
    for (const [key, size] of this.#networks(source)) this.#add(key, size, tokens);
  }

  #networks(source: LoginSource): readonly (readonly [key: string, size: BucketSize])[] {
    const wide = wideNetworks(source).map((network) => [keyOf(network), this.#ofWideNetwork] as const);
    return [[keyOf(nearNetwork(source)), this.#ofNetwork], ...wide];
  }

  #bucket(key: string, size: BucketSize): Bucket {
    const at = this.#clock.monotonic();
    const bucket = this.#buckets.get(key);
    return bucket === undefined
      ? { size, tokens: size.tokens, at, isKnown: false }
      : { ...bucket, tokens: tokensAt(bucket, at), at };
  }

  #add(key: string, size: BucketSize, tokens: 1 | -1): void {
    const bucket = this.#bucket(key, size);
    this.#set(key, { ...bucket, tokens: Math.min(size.tokens, bucket.tokens + tokens) });
  }

  #set(key: string, bucket: Bucket): void {
    this.#buckets.delete(key);
    if (bucket.tokens === bucket.size.tokens && !bucket.isKnown) return;
    if (this.#buckets.size >= MAX_BUCKETS) this.#evict(bucket.at);
    this.#buckets.set(key, bucket);
  }

  /** Evicts the first of the oldest buckets that is nearly full, else the fullest one; the others count as used now. */
  #evict(now: number): void {
    let fullest: { readonly key: string; readonly share: number } | null = null;
    for (const [key, bucket] of [...this.#buckets.entries().take(MAX_CHECKS)]) {
      const share = bucket.isKnown ? 0 : tokensAt(bucket, now) / bucket.size.tokens;
      if (fullest === null || share > fullest.share) fullest = { key, share };
      if (share >= NEARLY_FULL) break;
      this.#buckets.delete(key);
      this.#buckets.set(key, bucket);
    }
    if (fullest !== null) this.#buckets.delete(fullest.key);
  }
}

function tokensAt({ size, tokens, at }: Bucket, now: number): number {
  return Math.min(size.tokens, tokens + (now - at) / size.refillMs);
}

function waitOf({ size, tokens }: Bucket): number {
  return Math.max(0, 1 - tokens) * size.refillMs;
}

/** A key of fixed length for parts that a client chooses. */
function keyOf(...parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 22);
}

/** The rejection of an attempt that has to wait. */
export function tooManyAttempts(waitMs: number): GatewayError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  return new GatewayError('EG_TOO_MANY_ATTEMPTS', `Too many failed logins; try again in ${seconds} s.`, {
    retryAfterSeconds: seconds,
  });
}

/** Origin of a login for the limits of failed logins. */
export interface LoginSource {
  /** Address of the last hop that is no trusted proxy. */
  readonly address: string;
  /**
   * Differs from `address` where every hop is trusted: the other end of the connection, as the client itself may have
   * written the address.
   */
  readonly peer: string;
}

/** Groups of IPv6 addresses: what one customer of a provider usually gets, and what a larger one may get (RFC 6177). */
const NEAR_HEXTETS = 4;
const WIDE_HEXTETS = 3;

/** The network that counts as one source: an IPv4 address, or the /64 of an IPv6 address, whose holder has all of it. */
export function nearNetwork({ address }: LoginSource): string {
  return isIP(address) === 6 ? prefixOf(address, NEAR_HEXTETS) : address;
}

/**
 * The wider networks that a source is counted for as well, so that it cannot escape by changing what it can choose: the
 * /48 of an IPv6 address, and the peer of a chain in which every hop is trusted.
 */
export function wideNetworks({ address, peer }: LoginSource): readonly string[] {
  const wide = isIP(address) === 6 ? [prefixOf(address, WIDE_HEXTETS)] : [];
  return peer === address ? wide : [...wide, `by ${peer}`];
}

/** The first groups of an IPv6 address; the URL parser writes it without zeros, without dots and in lower case. */
function prefixOf(address: string, hextets: number): string {
  const written = URL.parse(`http://[${address.replace(/%.*$/, '')}]`)?.hostname.slice(1, -1) ?? address;
  const [head = '', tail = ''] = written.split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: Math.max(0, 8 - before.length - after.length) }, () => '0');
  return `${[...before, ...zeros, ...after].slice(0, hextets).join(':')}::/${hextets * 16}`;
}

/** Time that is looked at as a whole, and between two warnings, in milliseconds. */
const PERIOD_MS = 3_600_000;
/** Names from one address that make it look like a proxy. */
const SUSPICIOUS_NAMES = 5;

/**
 * Watches where logins come from. Where all of them come from one address, limits of failed logins count all users as
 * one: usually a proxy stands before the gateway that `server.trustedProxies` does not name.
 */
export class LoginOrigins {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #logins: Counter<'result'>;
  #periodEnd = Number.NEGATIVE_INFINITY;
  #network: string | null = null;
  #isOne = true;
  #warned = false;
  readonly #names = new Set<string>();

  constructor({ clock, logger, metrics }: { clock: Clock; logger: Logger; metrics: Registry }) {
    this.#clock = clock;
    this.#logger = logger;
    this.#logins = new Counter({
      name: 'engine_gateway_logins_total',
      help: 'Logins with a password or a new token, by result: succeeded, failed, or limited as too many have failed.',
      labelNames: ['result'],
      registers: [metrics],
    });
    const isOne = () => (this.#looksLikeProxy() ? 1 : 0);
    new Gauge({
      name: 'engine_gateway_logins_from_one_address',
      help: '1 while all logins of the hour, of five users or more, come from one address, perhaps a proxy that server.trustedProxies lacks.',
      registers: [metrics],
      collect() {
        this.set(isOne());
      },
    });
  }

  note(name: string, source: LoginSource, result: AttemptResult): void {
    this.#logins.inc({ result });
    this.#beginPeriod();
    const network = nearNetwork(source);
    this.#network ??= network;
    this.#isOne &&= this.#network === network;
    if (this.#names.size < SUSPICIOUS_NAMES) this.#names.add(name);
    if (this.#warned || !this.#looksLikeProxy()) return;
    this.#warned = true;
    this.#logger.warn(
      { address: source.address },
      `all logins come from ${source.address}: where that is a proxy, name it in server.trustedProxies, as limits of failed logins count by address`,
    );
  }

  #looksLikeProxy(): boolean {
    return this.#isOne && this.#names.size >= SUSPICIOUS_NAMES && this.#clock.monotonic() < this.#periodEnd;
  }

  #beginPeriod(): void {
    const now = this.#clock.monotonic();
    if (now < this.#periodEnd) return;
    this.#periodEnd = now + PERIOD_MS;
    this.#network = null;
    this.#isOne = true;
    this.#warned = false;
    this.#names.clear();
  }
}

export interface Origin {
  /** Address of the client for the audit: the nearest one that is no trusted proxy, else the first of the chain. */
  readonly address: string;
  /** Key for counting failed logins. */
  readonly source: LoginSource;
  readonly view: ClientView;
}

export function originReader(names: ProductNames, trustPeer: TrustPeer): (request: IncomingMessage) => Origin {
  const headers = new RequestHeaders({
    ...{ names, trustPeer },
    forwardedHeadersEnabled: true,
    viaToken: '',
    ownCookies: [],
    tracing: false,
    certificateHeader: null,
  });
  return (request) => ({ ...addressesOf(request, trustPeer), view: headers.clientOf(request) });
}

/**
 * The first elements of a chain can be written by anybody, so the chain is read from its end, up to the first address
 * that is no trusted proxy. Where all are trusted, failed logins count for the last one, which the proxy at the other end
 * of the connection has written: the others may be of the client's choice.
 */
function addressesOf(request: IncomingMessage, trustPeer: TrustPeer): Pick<Origin, 'address' | 'source'> {
  const peer = plainAddress(request.socket.remoteAddress);
  if (!trustPeer(peer)) return { address: peer, source: { address: peer, peer } };
  const line = [request.headers['x-forwarded-for'] ?? []].flat().join(',');
  const chain = line.split(',').map(hopOf);
  const readable = chain.slice(chain.lastIndexOf(null) + 1).filter((hop) => hop !== null);
  const untrusted = readable.findLast((address) => !trustPeer(address));
  if (untrusted !== undefined) return { address: untrusted, source: { address: untrusted, peer: untrusted } };
  return { address: readable[0] ?? peer, source: { address: readable.at(-1) ?? peer, peer } };
}

/** The address of an element, which some proxies write with a port; null if it is none. */
function hopOf(element: string): string | null {
  const text = element.trim();
  const [, bracketed, plain] = /^(?:\[([^\]]+)\](?::\d+)?|([^:]+):\d+)$/.exec(text) ?? [];
  const address = plainAddress(bracketed ?? plain ?? text);
  return isIP(address) === 0 ? null : address;
}
