import fc from 'fast-check';
import { expect, test } from 'vitest';
import { clusterUrlProblem, storedClusterUrl } from '../../../src/model/clusterAddresses.ts';

test.each([
  'http://a',
  'http://a/',
  'https://engine-1.example:8443',
  'http://engine_1.ns.svc.cluster.local.:8080',
  'http://127.0.0.1:1',
  'http://[::1]:65535',
  'https://proxy.example/engines/one',
  'http://a/%20x',
  'http://xn--bcher-kva.example',
])('accepts %s', (url) => {
  expect(clusterUrlProblem(url)).toBeNull();
});

test.each([
  ['', 'is empty'],
  ['nohost', 'must start with http:// or https://'],
  ['engine:8080', 'must start with'],
  ['//engine:8080', 'must start with'],
  ['ftp://engine', 'must start with'],
  ['file:///etc/passwd', 'must start with'],
  ['javascript:alert(1)', 'must start with'],
  ['HTTP://engine', 'lower case'],
  ['http:/engine', 'must start with'],
  ['http:\\\\engine', 'must start with'],
  ['http://', 'names no host'],
  ['http:///path', 'names no host'],
  ['http://user@engine', 'credentials'],
  ['http://user:secret@engine:8080', 'credentials'],
  ['http://engine?x=1', 'query'],
  ['http://engine/?', 'query'],
  ['http://engine#top', 'fragment'],
  ['http://engine:', 'no valid host and port'],
  ['http://engine:port', 'no valid host and port'],
  ['http://engine:0', 'has port 0'],
  ['http://engine:65536', 'has port 65536'],
  ['http://engine:99999999999999999999', 'has port 99999999999999999999'],
  ['http://-engine', 'no valid host and port'],
  ['http://eng*ine', 'no valid host and port'],
  ['http://%65ngine', 'no valid host and port'],
  ['http://[::1', 'no valid host and port'],
  ['http://[::zz]', 'no valid host and port'],
  ['http://8080', 'no valid host and port'],
  ['http://0x7f.1', 'no valid host and port'],
  ['http://2130706433', 'no valid host and port'],
  ['http://0177.0.0.1', 'no valid host and port'],
  ['http://127.1', 'no valid host and port'],
  ['http://0.0.0.0:8080', 'which no server can have'],
  ['http://[::]:8080', 'which no server can have'],
  ['http://[::ffff:0.0.0.0]', 'which no server can have'],
  ['http://224.0.0.1', 'which no server can have'],
  ['http://255.255.255.255', 'which no server can have'],
  ['http://[ff02::1]', 'which no server can have'],
  ['http://999.1.1.1', 'no valid host and port'],
  ['http://engine\\@evil', 'credentials'],
  ['http://engine/a\\b', 'backslash'],
  ['http://engine/../x', '. or .. segment'],
  ['http://engine/%2e%2E/x', '. or .. segment'],
  ['http://engine/./x', '. or .. segment'],
  [' http://engine', 'white space'],
  ['http://engine\n', 'white space'],
  ['http://en\u0000gine', 'control'],
  ['http://bücher.example', 'ASCII form'],
  [`http://${'a'.repeat(250)}`, 'at most 256'],
])('refuses %j: %s', (url, words) => {
  expect(clusterUrlProblem(url)).toContain(words);
});

test('what is accepted is a URL without credentials, query and fragment, whose host is the one that is written', () => {
  const pieces = [
    'http',
    'https',
    '://',
    ':',
    '/',
    '@',
    '?',
    '#',
    'a',
    'b.c',
    '[::1]',
    '8080',
    '\\',
    '%2e',
    '..',
    ' ',
    'ü',
  ];
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 9 }), (parts) => {
      const text = parts.join('');
      if (clusterUrlProblem(text) !== null) return;
      const url = new URL(text);
      expect([url.username, url.password, url.search, url.hash]).toEqual(['', '', '', '']);
      expect(text.slice(`${url.protocol}//`.length).startsWith(url.hostname)).toBe(true);
    }),
    { numRuns: 3000 },
  );
});

test('one trailing slash is cut', () => {
  expect(['http://a', 'http://a/', 'http://a//', 'http://a/b/'].map(storedClusterUrl)).toEqual([
    'http://a',
    'http://a',
    'http://a/',
    'http://a/b',
  ]);
});
