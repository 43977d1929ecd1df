import type { X509Certificate } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { LRUCache } from 'lru-cache';
import { type CertificateNames, certificateNames } from '../../model/certificateNames.ts';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';
import { headerValues } from '../../model/rawHeaders.ts';
import { plainAddress, type TrustPeer } from '../headers/trustedProxies.ts';
import { certificateInHeader } from './certificateHeader.ts';
import type { MappedUser } from './mappingRules.ts';
import { byCertificate, type UserEvidence } from './userEvidence.ts';
import type { UserMapping } from './userMapping.ts';

export type CertificateUser =
  | { readonly kind: 'none' }
  | { readonly kind: 'user'; readonly user: string; readonly evidence: UserEvidence }
  /** The certificate is not trusted, or maps to no user; with a sentence for the client. */
  | { readonly kind: 'refused'; readonly why: string };

export interface ClientCertificatesOptions {
  /** The active mapping; a new one invalidates cached results. */
  readonly mapping: () => UserMapping;
  /** `server.clientCertificateHeader` with its trusted proxies; null: only certificates of connections count. */
  readonly header: { readonly name: string; readonly isProxy: TrustPeer } | null;
  readonly clock: Clock;
}

/** Result for a certificate with its expiry, in milliseconds since 1970. */
interface Reading {
  readonly result: CertificateUser;
  readonly from: number;
  readonly until: number;
}

const NONE: CertificateUser = { kind: 'none' };
const EXPIRED: CertificateUser = { kind: 'refused', why: 'The client certificate has expired or is not valid yet.' };
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
  readonly #options: ClientCertificatesOptions;
  #mapping: UserMapping;
  #connections = new WeakMap<Socket, Reading>();
  readonly #headers = new LRUCache<string, Reading>(growingTo(MAX_HEADERS));

  constructor(options: ClientCertificatesOptions) {
    this.#options = options;
    this.#mapping = options.mapping();
  }

  /** The user of a request's certificate. Never throws. */
  of(request: IncomingMessage): CertificateUser {
    const { header, clock, mapping } = this.#options;
    if (this.#mapping !== mapping()) {
      this.#mapping = mapping();
      this.#connections = new WeakMap();
      this.#headers.clear();
    }
    const isProxied = header?.isProxy(plainAddress(request.socket.remoteAddress)) === true;
    // The certificate of a proxy's own connection is not the client's.
    const reading = isProxied ? this.#ofHeader(request, header.name) : this.#ofConnection(request.socket);
    if (reading === null) return NONE;
    if (reading.result.kind !== 'user') return reading.result;
    const now = clock.now();
    return now >= reading.from && now < reading.until ? reading.result : EXPIRED;
  }

  #ofConnection(socket: Socket): Reading | null {
    const entry = this.#connections.get(socket);
    if (entry !== undefined) return entry;
    if (!(socket instanceof TLSSocket)) return null;
    const certificate = socket.getPeerX509Certificate();
    if (certificate === undefined) return null;
    const reading = socket.authorized ? this.#read(certificate) : refusedBy(socket.authorizationError);
    this.#connections.set(socket, reading);
    return reading;
  }

  #ofHeader(request: IncomingMessage, name: string): Reading | null {
    const [value, second] = headerValues(request.rawHeaders, name);
    if (value === undefined || value === '') return null;
    if (second !== undefined) return refused(`The header ${name} came twice.`);
    const entry = this.#headers.get(value);
    if (entry !== undefined) return entry;
    const certificate = certificateInHeader(value);
    const reading =
      certificate === null
        ? refused(`The header ${name} holds no certificate that can be read.`)
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
      return refused(`The client certificate stands for no user: ${why}.`);
    }
    if ('refusal' in mapped) return refused(`The client certificate stands for no user: ${mapped.refusal}.`);
    const { validFromDate, validToDate } = certificate;
    const result = { kind: 'user', user: mapped.user, evidence: byCertificate(names) } as const;
    return { result, from: validFromDate.getTime(), until: validToDate.getTime() };
  }
}

function refused(why: string): Reading {
  return { result: { kind: 'refused', why }, from: 0, until: Number.POSITIVE_INFINITY };
}

function refusedBy(verdict: Error | string | null | undefined): Reading {
  const code =
    verdict instanceof Error ? ((verdict as NodeJS.ErrnoException).code ?? verdict.message) : (verdict ?? '');
  return refused(`The client certificate is not accepted: ${verdicts[code] ?? code}.`);
}
