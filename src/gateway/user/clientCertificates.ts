import { X509Certificate } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { LRUCache } from 'lru-cache';
import type { FileWatch } from '../../config/followedFiles.ts';
import { type CertificateNames, certificateNames } from '../../model/certificateNames.ts';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';
import { headerValues } from '../../model/http.ts';
import { plainAddress, type TrustPeer } from '../headers/requestHeaders.ts';
import { byCertificate, type UserEvidence } from './userExtractor.ts';
import type { MappedUser, UserMapping } from './userMapping.ts';

/** Pages, logins and probes: their clients cannot present a certificate. */
const open = /^\/(?:ui|oauth2|v1\/info|v1\/node)(?:\/|$)/;

/**
 * True if a proxied path requires the user of a client certificate: all but the engines' web pages, logins and probes.
 * Further proxied paths are included.
 * @param path without dot segments, as sent
 */
export function isAuthenticated(path: string): boolean {
  return !open.test(path);
}

export type CertificateUser =
  | { readonly kind: 'none' }
  | { readonly kind: 'user'; readonly user: string; readonly evidence: UserEvidence }
  /** The certificate is not trusted, or maps to no user; with a sentence for the client. */
  | { readonly kind: 'rejected'; readonly why: string };

/** Result for a certificate with its expiry, in milliseconds since 1970. */
interface Reading {
  readonly result: CertificateUser;
  readonly from: number;
  readonly until: number;
}

const NONE: CertificateUser = { kind: 'none' };
const EXPIRED: CertificateUser = { kind: 'rejected', why: 'The client certificate has expired or is not valid yet.' };
const MAX_HEADERS = 1000;

/** OpenSSL's verdicts that clients can fix. */
const verdicts: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'it has expired',
  CERT_NOT_YET_VALID: 'it is not valid yet',
  CERT_REVOKED: 'it was revoked',
  INVALID_PURPOSE: 'it is not one for clients',
  UNABLE_TO_GET_ISSUER_CERT: 'no trusted authority has issued it',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'no trusted authority has issued it',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'no trusted authority has issued it',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'no trusted authority has issued it',
  SELF_SIGNED_CERT_IN_CHAIN: 'no trusted authority has issued it',
};

/**
 * Finds the users of verified client certificates: of connections, and in the configured header of trusted proxies
 * (docs/client-certificates.md).
 */
export class ClientCertificates {
  readonly #watch: Pick<FileWatch<UserMapping>, 'current'>;
  readonly #header: { readonly name: string; readonly isProxy: TrustPeer } | null;
  readonly #clock: Clock;
  #mapping: UserMapping;
  #connections = new WeakMap<Socket, Reading>();
  readonly #headers = new LRUCache<string, Reading>(growingTo(MAX_HEADERS));

  /**
   * @param mapping a new one invalidates cached results
   * @param header `server.clientCertificateHeader` with its trusted proxies; null: only certificates of connections count
   */
  constructor(
    mapping: Pick<FileWatch<UserMapping>, 'current'>,
    header: { readonly name: string; readonly isProxy: TrustPeer } | null,
    clock: Clock,
  ) {
    this.#watch = mapping;
    this.#header = header;
    this.#clock = clock;
    this.#mapping = mapping.current;
  }

  /** The user of a request's certificate. Never throws. */
  of(request: IncomingMessage): CertificateUser {
    const header = this.#header;
    if (this.#mapping !== this.#watch.current) {
      this.#mapping = this.#watch.current;
      this.#connections = new WeakMap();
      this.#headers.clear();
    }
    const isProxied = header?.isProxy(plainAddress(request.socket.remoteAddress)) === true;
    // The certificate of a proxy's own connection is not the client's.
    const reading = isProxied ? this.#ofHeader(request, header.name) : this.#ofConnection(request.socket);
    if (reading === null) return NONE;
    if (reading.result.kind !== 'user') return reading.result;
    const now = this.#clock.now();
    return now >= reading.from && now < reading.until ? reading.result : EXPIRED;
  }

  #ofConnection(socket: Socket): Reading | null {
    const entry = this.#connections.get(socket);
    if (entry !== undefined) return entry;
    if (!(socket instanceof TLSSocket)) return null;
    const certificate = socket.getPeerX509Certificate();
    if (certificate === undefined) return null;
    const reading = socket.authorized ? this.#read(certificate) : rejectionOf(socket.authorizationError);
    this.#connections.set(socket, reading);
    return reading;
  }

  #ofHeader(request: IncomingMessage, name: string): Reading | null {
    const [value, second] = headerValues(request.rawHeaders, name);
    if (value === undefined || value === '') return null;
    if (second !== undefined) return rejection(`The header ${name} came twice.`);
    const entry = this.#headers.get(value);
    if (entry !== undefined) return entry;
    const certificate = certificateInHeader(value);
    const reading =
      certificate === null
        ? rejection(`The header ${name} holds no certificate that can be read.`)
        : this.#read(certificate);
    this.#headers.set(value, reading);
    return reading;
  }

  #read(certificate: X509Certificate): Reading {
    let mapped: MappedUser;
    let names: CertificateNames;
    try {
      names = certificateNames(certificate);
      mapped = this.#mapping(names);
    } catch (error) {
      const why = `its names cannot be read (${error instanceof Error ? error.message : String(error)})`;
      return rejection(`The client certificate stands for no user: ${why}.`);
    }
    if ('rejection' in mapped) return rejection(`The client certificate stands for no user: ${mapped.rejection}.`);
    const { validFromDate, validToDate } = certificate;
    const result = { kind: 'user', user: mapped.user, evidence: byCertificate(names) } as const;
    return { result, from: validFromDate.getTime(), until: validToDate.getTime() };
  }
}

function rejection(why: string): Reading {
  return { result: { kind: 'rejected', why }, from: 0, until: Number.POSITIVE_INFINITY };
}

function rejectionOf(verdict: Error | string | null | undefined): Reading {
  const code =
    verdict instanceof Error ? ((verdict as NodeJS.ErrnoException).code ?? verdict.message) : (verdict ?? '');
  return rejection(`The client certificate is not accepted: ${verdicts[code] ?? code}.`);
}

/** Maximum length of a parsed header value, in characters: a chain of a few certificates. */
const MAX_HEADER_LENGTH = 65_536;

/**
 * Parses the client's certificate in a header of a proxy: PEM, also with `%` escapes (nginx, HAProxy) or with spaces
 * for line ends; base64 of DER (Traefik; of several, with commas between, the first); `:base64:` (RFC 9440,
 * `Client-Cert`); or the `Cert` of the last element of Envoy's `X-Forwarded-Client-Cert`.
 * @returns the certificate; null for an invalid value
 */
export function certificateInHeader(value: string): X509Certificate | null {
  if (value.length > MAX_HEADER_LENGTH) return null;
  const plain = decoded(envoyCertificate(value) ?? value);
  if (plain === null) return null;
  const pem = /-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]*)-----END CERTIFICATE-----/.exec(plain)?.[1];
  const base64 = pem ?? /^\s*:?([A-Za-z0-9+/]+={0,2})(?::\s*$|\s*$|\s*,)/.exec(plain)?.[1];
  if (base64 === undefined) return null;
  try {
    return new X509Certificate(Buffer.from(base64.replace(/\s+/g, ''), 'base64'));
  } catch {
    return null;
  }
}

/** The last element is that of the proxy at the other end of the connection; earlier ones were sent to it. */
function envoyCertificate(value: string): string | null {
  if (!/(?:^|[;,])\s*(?:By|Hash|Cert|Chain|Subject|URI|DNS)=/i.test(value)) return null;
  const last = elementsOf(value).at(-1) ?? '';
  return /(?:^|;)\s*Cert="?([^";,]*)"?/i.exec(last)?.[1] ?? '';
}

function elementsOf(value: string): readonly string[] {
  const elements: string[] = [];
  let isQuoted = false;
  let start = 0;
  for (let at = 0; at < value.length; at += 1) {
    const char = value[at];
    if (isQuoted && char === '\\') at += 1;
    else if (char === '"') isQuoted = !isQuoted;
    else if (char === ',' && !isQuoted) {
      elements.push(value.slice(start, at));
      start = at + 1;
    }
  }
  elements.push(value.slice(start));
  return elements;
}

function decoded(text: string): string | null {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
