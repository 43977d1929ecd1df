import { AddressList, embeddedIpv4, isAddress, type SpecialAddress, specialAddress } from './networkAddress.ts';

export interface ClusterAddressOptions {
  /** `resources.allowedAddresses`: addresses and networks in CIDR form. */
  readonly allowed: readonly string[];
  /**
   * True if clusters may be on the gateway's own machine. False if other users than the gateway's operators register
   * clusters: the gateway's API, and sidecars of its pod, listen there.
   */
  readonly loopback: boolean;
}

/** Names that resolvers of clouds and operating systems map to a special address. */
const knownNames: readonly (readonly [RegExp, SpecialAddress, address: string])[] = [
  [/^(.+\.)?localhost$|^localhost\.localdomain$|^ip6-(localhost|loopback)$/, 'loopback', '127.0.0.1'],
  [/^metadata(\.google\.internal|\.goog)?$|^instance-data(\.ec2\.internal)?$/, 'metadata', '169.254.169.254'],
];

const words: Readonly<Record<SpecialAddress, string>> = {
  unusable: 'is not an address that a server can have',
  loopback: "is the gateway's own machine",
  linkLocal: 'is a link-local address',
  metadata: 'is the metadata service of a cloud, which hands out credentials',
};

/**
 * Checks the addresses of clusters: all but link-local addresses, metadata services of clouds and, depending on the
 * options, the gateway's own machine; plus addresses in `resources.allowedAddresses` (docs/resources.md).
 */
export class ClusterAddresses {
  readonly #allowed: AddressList;
  readonly #loopback: boolean;

  constructor({ allowed, loopback }: ClusterAddressOptions) {
    this.#allowed = new AddressList(allowed);
    this.#loopback = loopback;
  }

  /**
   * Returns the reason that connections to an address are rejected, as a sentence that continues after the address;
   * null if allowed.
   * @param address IPv4 or IPv6, from a resolver
   */
  rejection(address: string): string | null {
    const kind = specialAddress(address);
    return kind === null || this.#allows(kind, address) ? null : sentence(kind, address);
  }

  /**
   * Returns the reason that a URL's host cannot be a cluster's, before names are resolved; null if allowed, and for
   * names that must be resolved first.
   * @param host as in a URL: a name, an IPv4 address, or an IPv6 address in brackets
   */
  hostRejection(host: string): string | null {
    // As the URL parser, and so every connection, interprets it: 0x7f.1 and 2130706433 are 127.0.0.1.
    const read = URL.parse(`http://${host}`)?.hostname ?? host;
    const plain = read
      .replace(/^\[(.*)\]$/, '$1')
      .replace(/\.$/, '')
      .toLowerCase();
    if (isAddress(plain)) return this.rejection(plain);
    const special = knownNames.find(([pattern]) => pattern.test(plain));
    if (special === undefined) return null;
    const [, kind, address] = special;
    return this.#allows(kind, address) ? null : sentence(kind, address);
  }

  /** Returns the reason that a cluster may not have a URL; null if it may, and for text that is not a URL. */
  urlRejection(url: string): string | null {
    const parsed = URL.parse(url);
    const rejection = parsed === null ? null : this.hostRejection(parsed.hostname);
    return rejection === null ? null : `${parsed?.hostname ?? ''} ${rejection}`;
  }

  #allows(kind: SpecialAddress, address: string): boolean {
    if (kind === 'unusable') return false;
    if (kind === 'loopback' && this.#loopback) return true;
    return this.#allowed.has(address) || this.#allowed.has(embeddedIpv4(address) ?? '');
  }
}

function sentence(kind: SpecialAddress, address: string): string {
  if (kind === 'unusable') return words.unusable;
  return `${words[kind]}; add ${address} to resources.allowedAddresses if a cluster is there`;
}

/** Allows the gateway's own machine as well. */
export const openAddresses = new ClusterAddresses({ allowed: [], loopback: true });
