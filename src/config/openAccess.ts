import { isIP } from 'node:net';
import type { GatewayConfig } from './gatewayConfig.ts';

/** Value of `server.address` that stands for this machine alone: 127.0.0.1, and ::1 where there is IPv6. */
export const THIS_MACHINE = 'localhost';

/** True if every call of the API passes: authentication is not configured, or it is `none`. */
export function isOpenAccess({ authentication }: Pick<GatewayConfig, 'authentication'>): boolean {
  return authentication === null || authentication.defaultType === 'none';
}

/** True if an address to listen on is reached from this machine alone. */
export function isLoopback(address: string): boolean {
  if (isIP(address) === 4) return address.startsWith('127.');
  return address === '::1' || address.toLowerCase() === THIS_MACHINE;
}

/** The addresses that a `server.address` stands for, the one that must be there first. */
export function listenAddresses(address: string): readonly [string, ...string[]] {
  return address.toLowerCase() === THIS_MACHINE ? ['127.0.0.1', '::1'] : [address];
}
