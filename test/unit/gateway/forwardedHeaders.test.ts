import { expect, test } from 'vitest';
import {
  directView,
  forwardedLines,
  forwardedView,
  type IncomingForwarded,
} from '../../../src/gateway/headers/forwardedHeaders.ts';
import { plainAddress, trustPeers } from '../../../src/gateway/headers/trustedProxies.ts';

const direct = {
  peer: '10.0.0.1',
  scheme: 'http' as const,
  hostHeader: 'gw:8080',
  localAddress: '10.9.9.9',
  localPort: 8080,
};

test.each([
  ['gw:8080', 'gw', 8080],
  ['gw', 'gw', 80],
  ['[::1]:8080', '[::1]', 8080],
  ['[::1]', '[::1]', 80],
  ['gw:', 'gw', 80],
  ['gw:99999', 'gw', 80],
  ['a b', '10.9.9.9', 8080],
  ['evil"quote', '10.9.9.9', 8080],
  [undefined, '10.9.9.9', 8080],
])('Host %s without proxies', (hostHeader, host, port) => {
  expect(directView({ ...direct, hostHeader })).toEqual({ address: '10.0.0.1', scheme: 'http', host, port });
});

test.each<[IncomingForwarded, string]>([
  [{}, '10.0.0.1 http gw 8080'],
  [{ for: '1.1.1.1' }, '1.1.1.1 http gw 8080'],
  [{ for: '1.1.1.1, 2.2.2.2' }, '1.1.1.1 http gw 8080'],
  [{ for: '1.1.1.1:5000' }, '1.1.1.1 http gw 8080'],
  [{ for: '[2001:db8::1]:5000' }, '2001:db8::1 http gw 8080'],
  [{ for: '2001:db8::1' }, '2001:db8::1 http gw 8080'],
  [{ proto: 'https' }, '10.0.0.1 https gw 8080'],
  [{ proto: 'HTTPS, http' }, '10.0.0.1 https gw 8080'],
  [{ proto: 'gopher' }, '10.0.0.1 http gw 8080'],
  [{ proto: 'https', host: 'pub.example' }, '10.0.0.1 https pub.example 443'],
  [{ proto: 'https', host: 'pub.example:8443' }, '10.0.0.1 https pub.example 8443'],
  [{ proto: 'https', host: 'pub.example', port: '9443' }, '10.0.0.1 https pub.example 9443'],
  [{ host: 'pub.example', port: 'x' }, '10.0.0.1 http pub.example 80'],
  [{ host: 'pub.example, inner' }, '10.0.0.1 http pub.example 80'],
  [{ forwarded: 'for=1.1.1.1;proto=https;host=pub.example' }, '1.1.1.1 https pub.example 443'],
  [{ forwarded: 'For="[2001:db8::1]:99"; Proto=https; Host="pub:8443", for=2.2.2.2' }, '2001:db8::1 https pub 8443'],
  [{ forwarded: 'for=1.1.1.1, for=2.2.2.2;proto=https', proto: 'http' }, '1.1.1.1 http gw 8080'],
  [{ forwarded: 'nonsense', for: '3.3.3.3' }, '3.3.3.3 http gw 8080'],
])('believed: %j', (incoming, expected) => {
  const view = forwardedView(direct, incoming);
  expect(`${view.address} ${view.scheme} ${view.host} ${view.port}`).toBe(expected);
});

test.each([
  [undefined, '10.0.0.1', '10.0.0.1'],
  [undefined, '1.1.1.1', '1.1.1.1, 10.0.0.1'],
  ['1.1.1.1', '1.1.1.1', '1.1.1.1, 10.0.0.1'],
  ['1.1.1.1, 2.2.2.2', '1.1.1.1', '1.1.1.1, 2.2.2.2, 10.0.0.1'],
])('the chain %s of client %s goes on as %s', (chain, address, expected) => {
  const lines = forwardedLines({ address, scheme: 'https', host: 'gw', port: 443 }, '10.0.0.1', chain, true);
  expect(lines[1]).toBe(expected);
  expect(lines.at(-1)).toBe(
    expected
      .split(', ')
      .map((one, index) => `for=${one}${index === 0 ? ';host="gw:443";proto=https' : ''}`)
      .join(', '),
  );
});

test('IPv6 addresses are quoted in Forwarded', () => {
  const lines = forwardedLines({ address: '::1', scheme: 'http', host: 'gw', port: 80 }, '::1', undefined, true);
  expect(lines.at(-1)).toBe('for="[::1]";host="gw:80";proto=http');
});

test('trust goes by address and network', () => {
  const trust = trustPeers(false, ['10.0.0.1', '192.168.0.0/16', '2001:db8::/32']);
  expect(['10.0.0.1', '192.168.7.7', '2001:db8::7'].map(trust)).toEqual([true, true, true]);
  expect(['10.0.0.2', '192.169.0.1', '2001:db9::1', 'unknown'].map(trust)).toEqual([false, false, false, false]);
  expect(trustPeers(true, [])('6.6.6.6')).toBe(true);
  expect(trustPeers(false, [])('127.0.0.1')).toBe(false);
  expect(plainAddress('::ffff:10.0.0.1')).toBe('10.0.0.1');
});
