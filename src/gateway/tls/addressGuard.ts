import { type LookupAddress, type LookupAllOptions, lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import type { ClusterAddresses } from '../../model/clusterAddresses.ts';

/** Resolves a name to all of its addresses, as `dns.lookup` does. */
export type ResolveAll = (
  name: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** A connection that was rejected because of its address. */
export class AddressRejected extends Error {
  override readonly name = 'AddressRejected';
}

/**
 * Prevents connections to special addresses (`resources.allowedAddresses`), regardless of the author of the address,
 * and by the resolution at the time of the connection: a name that was accepted may resolve to another address later
 * (DNS rebinding). Open connections stay.
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
   * Returns the reason that a host is rejected, before its name is resolved, or null.
   * @param host a name or an address; an IPv6 address with or without brackets
   */
  rejection(host: string): AddressRejected | null {
    const plain = isIP(host) === 6 ? `[${host}]` : host;
    const rejection = this.#addresses.hostRejection(plain);
    return rejection === null ? null : new AddressRejected(`address not allowed: ${host} ${rejection}`);
  }

  /** `lookup` of `net.connect`: only allowed addresses; an error if a name has no others. */
  readonly lookup: LookupFunction = (name, options, callback) => {
    this.#resolve(name, { ...options, all: true }, (error, resolution) => {
      if (error !== null) {
        callback(error, '');
        return;
      }
      const addresses = this.#addresses;
      const allowed = resolution.filter(({ address }) => addresses.rejection(address) === null);
      const [first] = allowed;
      if (first === undefined) {
        const [rejected] = resolution;
        const why =
          rejected === undefined
            ? 'has no address'
            : `is ${rejected.address}, which ${addresses.rejection(rejected.address)}`;
        callback(new AddressRejected(`address not allowed: ${name} ${why}`), '');
      } else if (options.all === true) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
}
