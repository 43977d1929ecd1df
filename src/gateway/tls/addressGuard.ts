import { type LookupAddress, type LookupAllOptions, lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import type { ClusterAddresses } from '../../model/clusterAddresses.ts';

/** Resolves a name to all of its addresses, as `dns.lookup` does. */
export type ResolveAll = (
  name: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** A connection that was not made, as the address is not one that clusters may have. */
export class AddressRefused extends Error {
  override readonly name = 'AddressRefused';
}

/**
 * Keeps connections to clusters away from addresses that these may not have (`resources.allowedAddresses`), no matter who wrote
 * the address, and whatever a name stands for at the moment of the connection: what was fine when a resource was accepted
 * may resolve to something else later (DNS rebinding). Connections that are open stay as they are.
 */
export class AddressGuard {
  readonly #addresses: ClusterAddresses;
  readonly #resolve: ResolveAll;

  /**
   * @param addresses which addresses clusters may have
   * @param resolve resolves names; the system's resolver by default
   */
  constructor(addresses: ClusterAddresses, resolve: ResolveAll = systemLookup) {
    this.#addresses = addresses;
    this.#resolve = resolve;
  }

  /**
   * Why a host may not be connected to, before its name is resolved; null when it may.
   * @param host a name or an address; an IPv6 address with or without brackets
   */
  refusal(host: string): AddressRefused | null {
    const plain = isIP(host) === 6 ? `[${host}]` : host;
    const refusal = this.#addresses.hostRefusal(plain);
    return refusal === null ? null : new AddressRefused(`address not allowed: ${host} ${refusal}`);
  }

  /** `lookup` of `net.connect`: only addresses that clusters may have; an error where a name has no other ones. */
  readonly lookup: LookupFunction = (name, options, callback) => {
    this.#resolve(name, { ...options, all: true }, (error, resolution) => {
      if (error !== null) {
        callback(error, '');
        return;
      }
      const addresses = this.#addresses;
      const allowed = resolution.filter(({ address }) => addresses.refusal(address) === null);
      const [first] = allowed;
      if (first === undefined) {
        const [refused] = resolution;
        const why =
          refused === undefined
            ? 'has no address'
            : `is ${refused.address}, which ${addresses.refusal(refused.address)}`;
        callback(new AddressRefused(`address not allowed: ${name} ${why}`), '');
      } else if (options.all === true) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
}
