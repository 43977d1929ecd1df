import type { IncomingMessage } from 'node:http';
import type { ClientView } from '../../gateway/forwardedHeaders.ts';
import { RequestHeaders } from '../../gateway/requestHeaders.ts';
import { plainAddress, type TrustPeer } from '../../gateway/trustedProxies.ts';
import type { ProductNames } from '../../model/names.ts';

/** Where a request comes from, as far as it can be believed. */
export interface Origin {
  /** Address that failed logins are counted for: the nearest one that is no trusted proxy. */
  readonly address: string;
  /** What the client called the gateway. */
  readonly view: ClientView;
}

/** Makes the reader of origins. */
export function originReader(names: ProductNames, trustPeer: TrustPeer): (request: IncomingMessage) => Origin {
  const headers = new RequestHeaders({ names, forwardedHeadersEnabled: () => true, trustPeer, ownCookies: [] });
  return (request) => ({ address: nearestClient(request, trustPeer), view: headers.clientOf(request) });
}

/** The first element of a chain can be written by anybody, so the chain is read from its end. */
function nearestClient(request: IncomingMessage, trustPeer: TrustPeer): string {
  const peer = plainAddress(request.socket.remoteAddress);
  if (!trustPeer(peer)) return peer;
  const line = [request.headers['x-forwarded-for'] ?? []].flat().join(',');
  const chain = line
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  return chain.findLast((address) => !trustPeer(address)) ?? chain[0] ?? peer;
}
