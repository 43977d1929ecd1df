import { isIP } from 'node:net';

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
