import { BlockList, isIP } from 'node:net';

/** Says whether a peer's forwarded headers are believed. */
export type TrustPeer = (address: string) => boolean;

/**
 * Makes the trust decision (docs/routing.md#what-changes-on-the-way-and-what-does-not).
 * @param processForwarded `http-server.process-forwarded`: every peer is believed
 * @param trustedProxies addresses and networks in CIDR form, valid
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

/** An address as text without the IPv4-mapped form that dual-stack sockets give. */
export function plainAddress(address: string | undefined): string {
  if (address === undefined) return 'unknown';
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}
