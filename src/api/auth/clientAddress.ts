import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { type ClientView, plainAddress, RequestHeaders, type TrustPeer } from '../../gateway/headers/requestHeaders.ts';
import type { ProductNames } from '../../model/names.ts';
import type { LoginSource } from './attemptLimit.ts';

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
