import { BlockList, isIP } from 'node:net';

export type TrustPeer = (address: string) => boolean;

/**
 * Returns the trust decision (docs/routing.md#what-changes-on-the-way-and-what-does-not).
 * @param processForwarded `http-server.process-forwarded`: every peer is trusted
 * @param trustedProxies valid addresses and networks in CIDR form
 */
export function trustPeers(processForwarded: boolean, trustedProxies: readonly string[]): TrustPeer {
  if (processForwarded) return () => true;
  if (trustedProxies.length === 0) return () => false;
  const list = new BlockList();
  for (const entry of trustedProxies) {
    const [address = '', prefix] = entry.split('/');
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    if (prefix === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(prefix), family);
  }
  return (address) => list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

/** An address without the IPv4-mapped form of dual-stack sockets. */
export function plainAddress(address: string | undefined): string {
  if (address === undefined) return 'unknown';
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}
