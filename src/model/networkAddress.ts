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
