import { AddressList, embeddedIpv4, isAddress, type SpecialAddress, specialAddress } from './networkAddress.ts';

/** Which special addresses clusters may have. */
export interface ClusterAddressOptions {
  /** `resources.allowedAddresses`: addresses and networks in CIDR form. */
  readonly allowed: readonly string[];
  /**
   * Whether clusters may be on the gateway's own machine. Not where others than the gateway's operators register
   * clusters: the gateway's own API, and sidecars of its pod, listen there.
   */
  readonly loopback: boolean;
}

/** Names that resolvers of clouds and operating systems give a special address. */
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
 * Which addresses clusters may have: everything but link-local addresses, metadata services of clouds and, where the
 * options say so, the gateway's own machine; plus what `resources.allowedAddresses` lists (docs/resources.md).
 */
export class ClusterAddresses {
  readonly #allowed: AddressList;
  readonly #loopback: boolean;

  constructor({ allowed, loopback }: ClusterAddressOptions) {
    this.#allowed = new AddressList(allowed);
    this.#loopback = loopback;
  }

  /**
   * Why an address may not be connected to, as a sentence that goes on after the address; null when it may.
   * @param address IPv4 or IPv6, as a resolver gives it
   */
  refusal(address: string): string | null {
    const kind = specialAddress(address);
    return kind === null || this.#allows(kind, address) ? null : sentence(kind, address);
  }

  /**
   * Why a URL's host may not be a cluster's, before names are resolved; null when it may, and for names that must be
   * resolved first.
   * @param host as in a URL: a name, an IPv4 address, or an IPv6 address in brackets
   */
  hostRefusal(host: string): string | null {
    // As the URL parser reads it, and so every connection: 0x7f.1 and 2130706433 are 127.0.0.1.
    const read = URL.parse(`http://${host}`)?.hostname ?? host;
    const plain = read
      .replace(/^\[(.*)\]$/, '$1')
      .replace(/\.$/, '')
      .toLowerCase();
    if (isAddress(plain)) return this.refusal(plain);
    const special = knownNames.find(([pattern]) => pattern.test(plain));
    if (special === undefined) return null;
    const [, kind, address] = special;
    return this.#allows(kind, address) ? null : sentence(kind, address);
  }

  /** Why a cluster may not have a URL; null when it may, and for text that is not a URL. */
  urlRefusal(url: string): string | null {
    const parsed = URL.parse(url);
    const refusal = parsed === null ? null : this.hostRefusal(parsed.hostname);
    return refusal === null ? null : `${parsed?.hostname ?? ''} ${refusal}`;
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
