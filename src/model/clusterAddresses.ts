/**
 * Special purpose of an address:
 * - `unusable`: the unspecified address, multicast and broadcast; no server responds there
 * - `loopback`: the gateway's own machine or pod
 * - `linkLocal`: the gateway's own network segment (RFC 3927, RFC 4291 §2.5.6)
 * - `metadata`: metadata services of clouds, which return credentials to any caller on the machine
 */
export type SpecialAddress = 'unusable' | 'loopback' | 'linkLocal' | 'metadata';

interface Address {
  readonly bits: 32 | 128;
  readonly value: bigint;
}

export class AddressList {
  readonly #networks: readonly (Address & { readonly prefix: number })[];

  /** @param entries addresses, or networks in CIDR form; invalid entries are ignored */
  constructor(entries: readonly string[]) {
    this.#networks = entries.flatMap((entry) => {
      const [text = '', prefix] = entry.split('/');
      const address = readAddress(text);
      return address === null ? [] : [{ ...address, prefix: prefix === undefined ? address.bits : Number(prefix) }];
    });
  }

  has(text: string): boolean {
    const address = readAddress(text);
    return (
      address !== null &&
      this.#networks.some(
        ({ bits, value, prefix }) => bits === address.bits && (value ^ address.value) >> BigInt(bits - prefix) === 0n,
      )
    );
  }
}

const byte = '(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
const ipv4 = new RegExp(`^${byte}(?:\\.${byte}){3}$`);

function readAddress(text: string): Address | null {
  if (ipv4.test(text)) return { bits: 32, value: fromParts(text.split('.'), 10, 8n) };
  if (!text.includes(':')) return null;
  // The URL parser writes every form, also one that ends in dotted decimals, as shortened hexadecimal groups.
  const host = URL.parse(`http://[${text.replace(/%.*$/, '')}]`)?.hostname;
  if (host === undefined) return null;
  const [head = '', tail] = host.slice(1, -1).split('::');
  const groups = (part: string): string[] => (part === '' ? [] : part.split(':'));
  const [first, last] = [groups(head), tail === undefined ? [] : groups(tail)];
  const zeros = new Array<string>(8 - first.length - last.length).fill('0');
  return { bits: 128, value: fromParts([...first, ...zeros, ...last], 16, 16n) };
}

function fromParts(parts: readonly string[], radix: number, width: bigint): bigint {
  return parts.reduce((value, part) => (value << width) | BigInt(Number.parseInt(part, radix)), 0n);
}

/** Networks of each purpose. Order matters: the metadata addresses lie within other networks. */
const networks: Readonly<Record<SpecialAddress, readonly string[]>> = {
  metadata: [
    // Amazon, Azure, Google, Oracle, OpenStack and others; and containers of Amazon ECS and EKS.
    ...['169.254.169.254', '169.254.170.2', '169.254.170.23'],
    // Alibaba Cloud; Azure's WireServer; Oracle's older address.
    ...['100.100.100.200', '168.63.129.16', '192.0.0.192'],
    // Amazon (fd00:ec2::254, fd00:ec2::23), Google, Scaleway.
    ...['fd00:ec2::/32', 'fd20:ce::254', 'fd00:42::42'],
  ],
  unusable: ['0.0.0.0/8', '224.0.0.0/4', '255.255.255.255', '::', 'ff00::/8'],
  loopback: ['127.0.0.0/8', '::1'],
  linkLocal: ['169.254.0.0/16', 'fe80::/10'],
};

const lists = Object.entries(networks).map(
  ([kind, members]) => [kind as SpecialAddress, new AddressList(members)] as const,
);

/** IPv6 networks with embedded IPv4 addresses, and the number of bits after the IPv4 address. */
const embeddings: readonly (readonly [network: AddressList, bitsAfter: bigint])[] = [
  // IPv4-mapped, IPv4-translated (RFC 2765), NAT64 (RFC 6052), IPv4-compatible (RFC 4291 §2.5.5.1); 6to4 (RFC 3056).
  [new AddressList(['::ffff:0:0/96', '::ffff:0:0:0/96', '64:ff9b::/96', '::/96']), 0n],
  [new AddressList(['2002::/16']), 80n],
];

/**
 * The special purpose of an address; null for ordinary addresses, and for text that is not an address. An IPv6 address
 * with an embedded IPv4 address has its purpose.
 * @param address without brackets; a zone (`%eth0`) is ignored
 */
export function specialAddress(address: string): SpecialAddress | null {
  const kind = lists.find(([, list]) => list.has(address))?.[0] ?? null;
  if (kind !== null) return kind;
  const inner = embeddedIpv4(address);
  return inner === null ? null : specialAddress(inner);
}

/** The IPv4 address embedded in an IPv6 address, or null. */
export function embeddedIpv4(address: string): string | null {
  const read = readAddress(address);
  const embedding = read?.bits === 128 ? embeddings.find(([network]) => network.has(address)) : undefined;
  if (read === null || embedding === undefined) return null;
  const value = Number((read.value >> embedding[1]) & 0xffffffffn);
  return [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255].join('.');
}

/** True if a text is an IPv4 address of four decimal numbers, or an IPv6 address without brackets. */
export function isAddress(text: string): boolean {
  return readAddress(text) !== null;
}

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

/** Maximum length of a URL in cluster columns (contract: `gateway_backend.backend_url varchar(256)`). */
export const MAX_CLUSTER_URL_LENGTH = 256;

/** Scheme, host (name, IPv4 or bracketed IPv6), port, path; all in printable ASCII. */
const form = /^(https?):\/\/(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?\.?)(?::([0-9]+))?(\/.*)?$/;

/**
 * Returns the mistake in a cluster's URL (`proxyTo`, `externalUrl`), or null. Requests go to `<url><raw path>?<raw
 * query>`, so a query, a fragment or credentials in it have no meaning.
 * @returns a sentence with the mistake and the fix, without the field's name
 */
export function clusterUrlProblem(text: string): string | null {
  if (text === '') return 'is empty; give a URL such as http://engine-1.example:8080';
  if (text.length > MAX_CLUSTER_URL_LENGTH) {
    return `has ${text.length} characters; at most ${MAX_CLUSTER_URL_LENGTH} fit`;
  }
  if (/[^\x21-\x7e]/.test(text)) {
    return 'holds white space, control or non-ASCII characters; write the host name in its ASCII form (xn--…) and percent-encode the path';
  }
  if (!/^https?:\/\//.test(text)) return 'must start with http:// or https://, in lower case';
  const authority = text.slice(text.indexOf('//') + 2).split(/[/?#]/, 1)[0] ?? '';
  if (authority.includes('@')) {
    return 'must not hold credentials; leave out the part before the @ (health checks take theirs from the configuration or a Secret)';
  }
  if (text.includes('?')) return 'must not hold a query; leave out everything from the ?';
  if (text.includes('#')) return 'must not hold a fragment; leave out everything from the #';
  if (authority === '') return 'names no host; write it after http:// or https://';
  const match = form.exec(text);
  const port = match?.[3];
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)) {
    return `has port ${port}; ports are 1 to 65535`;
  }
  if (match === null || !hostIsAsWritten(text, match[2] ?? '')) {
    return `has no valid host and port: ${JSON.stringify(authority)}`;
  }
  const address = (match[2] ?? '').replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  if (specialAddress(address) === 'unusable') {
    return `names the address ${address}, which no server can have; give that of the cluster`;
  }
  const path = match[4] ?? '';
  if (path.includes('\\') || path.split('/').some(isDotSegment)) {
    return 'must not hold a backslash or a . or .. segment in its path';
  }
  return null;
}

/** The stored form of cluster URLs: without one trailing `/` (docs/compatibility.md#cluster-registry). */
export function storedClusterUrl(text: string): string {
  return text.endsWith('/') ? text.slice(0, -1) : text;
}

/**
 * WHATWG URLs read `http://8080` as 0.0.31.144 and `http://0x7f.1` as 127.0.0.1: both are almost certainly mistakes.
 */
function hostIsAsWritten(text: string, host: string): boolean {
  const url = URL.parse(text);
  return url !== null && (host.startsWith('[') || url.hostname === host.toLowerCase());
}

function isDotSegment(segment: string): boolean {
  const plain = segment.replaceAll(/%2e/gi, '.');
  return plain === '.' || plain === '..';
}
