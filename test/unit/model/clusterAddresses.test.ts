import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ClusterAddresses, specialAddress } from '../../../src/model/clusterAddresses.ts';

const strict = new ClusterAddresses({ allowed: [], loopback: false });

describe('special addresses', () => {
  test.each<[string, string | null]>([
    ['169.254.169.254', 'metadata'],
    ['169.254.170.2', 'metadata'],
    ['100.100.100.200', 'metadata'],
    ['168.63.129.16', 'metadata'],
    ['192.0.0.192', 'metadata'],
    ['fd00:ec2::254', 'metadata'],
    ['fd20:ce::254', 'metadata'],
    ['fd00:42::42', 'metadata'],
    ['169.254.0.1', 'linkLocal'],
    ['169.254.255.255', 'linkLocal'],
    ['fe80::1', 'linkLocal'],
    ['febf:ffff::1', 'linkLocal'],
    ['fe80::1%eth0', 'linkLocal'],
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback'],
    ['::1', 'loopback'],
    ['0.0.0.0', 'unusable'],
    ['0.1.2.3', 'unusable'],
    ['::', 'unusable'],
    ['0:0:0:0:0:0:0:0', 'unusable'],
    ['224.0.0.1', 'unusable'],
    ['239.255.255.255', 'unusable'],
    ['255.255.255.255', 'unusable'],
    ['ff02::1', 'unusable'],
    // Addresses of IPv4 within those of IPv6.
    ['::ffff:169.254.169.254', 'metadata'],
    ['::ffff:a9fe:a9fe', 'metadata'],
    ['0:0:0:0:0:ffff:a9fe:a9fe', 'metadata'],
    ['::ffff:0:169.254.169.254', 'metadata'],
    ['64:ff9b::a9fe:a9fe', 'metadata'],
    ['64:ff9b::6464:64c8', 'metadata'],
    ['2002:a9fe:a9fe::1', 'metadata'],
    ['::169.254.169.254', 'metadata'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::ffff:0.0.0.0', 'unusable'],
    // Ordinary ones.
    ['10.0.0.1', null],
    ['169.253.255.255', null],
    ['169.255.0.0', null],
    ['100.100.100.201', null],
    ['192.168.1.1', null],
    ['172.17.0.1', null],
    ['8.8.8.8', null],
    ['::ffff:10.0.0.1', null],
    ['2001:db8::1', null],
    ['fd12:3456::1', null],
    ['fec0::1', null],
    ['engine-a', null],
    ['', null],
  ])('%s: %s', (address, kind) => {
    expect(specialAddress(address)).toBe(kind);
  });

  test('every way of writing an IPv4 address within an IPv6 address is judged as the address itself', () => {
    const byte = fc.integer({ min: 0, max: 255 });
    fc.assert(
      fc.property(fc.tuple(byte, byte, byte, byte), (bytes) => {
        const plain = bytes.join('.');
        const groups = [0, 2].map((index) => (((bytes[index] ?? 0) << 8) | (bytes[index + 1] ?? 0)).toString(16));
        const kind = specialAddress(plain);
        for (const form of [`::ffff:${plain}`, `::ffff:${groups.join(':')}`, `64:ff9b::${groups.join(':')}`]) {
          expect(specialAddress(form)).toBe(kind);
        }
      }),
    );
  });
});

describe('hosts of clusters', () => {
  test.each<[string, string | null]>([
    ['http://169.254.169.254/latest/meta-data', 'metadata service'],
    ['http://[fd00:ec2::254]:80', 'metadata service'],
    ['http://[::ffff:169.254.169.254]', 'metadata service'],
    ['http://metadata.google.internal', 'metadata service'],
    ['http://Metadata.Google.Internal.', 'metadata service'],
    ['http://metadata', 'metadata service'],
    ['http://instance-data', 'metadata service'],
    ['http://169.254.1.1:8080', 'link-local'],
    ['http://[fe80::1]:8080', 'link-local'],
    ['http://127.0.0.1:8080', "gateway's own machine"],
    ['http://localhost:8080', "gateway's own machine"],
    ['http://a.localhost', "gateway's own machine"],
    ['http://ip6-localhost', "gateway's own machine"],
    // The forms that the URL parser turns into addresses.
    ['http://2852039166', 'metadata service'],
    ['http://0xa9fea9fe', 'metadata service'],
    ['http://0251.0376.0251.0376', 'metadata service'],
    ['http://0x7f.1', "gateway's own machine"],
    ['http://0', 'not an address'],
    ['http://engine-a:8080', null],
    ['http://metadata.trino.svc:8080', null],
    ['http://localhost.example:8080', null],
    ['https://10.1.2.3', null],
    ['nonsense', null],
  ])('%s: %s', (url, words) => {
    const refusal = strict.urlRejection(url);
    if (words === null) expect(refusal).toBeNull();
    else expect(refusal).toContain(words);
  });

  test('a refusal names the key that allows the address', () => {
    expect(strict.urlRejection('http://169.254.1.1')).toBe(
      '169.254.1.1 is a link-local address; add 169.254.1.1 to resources.allowedAddresses if a cluster is there',
    );
  });

  test.each<[string[], boolean, string, boolean]>([
    [['169.254.0.0/16'], false, 'http://169.254.1.1', true],
    [['169.254.0.0/16'], false, 'http://169.254.169.254', true],
    [['169.254.0.0/16'], false, 'http://[::ffff:169.254.1.1]', true],
    [['169.254.0.0/16'], false, 'http://metadata.google.internal', true],
    [['169.254.1.1'], false, 'http://169.254.1.1', true],
    [['169.254.1.1'], false, 'http://169.254.1.2', false],
    [['fe80::/10'], false, 'http://[fe80::1]', true],
    [['fd00:ec2::254'], false, 'http://[fd00:ec2::254]', true],
    [['127.0.0.0/8'], false, 'http://localhost:1', true],
    [['127.0.0.0/8'], false, 'http://127.0.0.1:1', true],
    [['127.0.0.0/8'], false, 'http://[::1]:1', false],
    [['::1'], false, 'http://[::1]:1', true],
    [[], true, 'http://127.0.0.1:1', true],
    [[], true, 'http://[::1]:1', true],
    [[], true, 'http://169.254.169.254', false],
    [['0.0.0.0/0', '::/0'], true, 'http://0.0.0.0', false],
    [['0.0.0.0/0'], false, 'http://169.254.169.254', true],
  ])('allowed %j, loopback %s: %s is allowed: %s', (allowed, loopback, url, expected) => {
    expect(new ClusterAddresses({ allowed, loopback }).urlRejection(url) === null).toBe(expected);
  });
});
