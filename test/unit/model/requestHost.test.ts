import fc from 'fast-check';
import { expect, test } from 'vitest';
import { namesOneOf, parseHost } from '../../../src/model/http.ts';

test.each([
  ['admin.example', 'admin.example', null],
  ['Admin.EXAMPLE:8081', 'admin.example', 8081],
  ['admin.example.', 'admin.example', null],
  ['admin.example.:443', 'admin.example', 443],
  ['admin.example:', 'admin.example', null],
  ['a_b', 'a_b', null],
  ['127.0.0.1:80', '127.0.0.1', 80],
  ['[::1]:8081', '[::1]', 8081],
  ['[0:0:0:0:0:0:0:1]', '[::1]', null],
  ['[::FFFF:7F00:1]', '[::ffff:7f00:1]', null],
])('%s is read', (text, name, port) => {
  expect(parseHost(text)).toEqual({ name, port });
});

test.each([
  '',
  '.',
  'a..b',
  '.a',
  'a b',
  ' a',
  'a:0',
  'a:65536',
  'a:8x',
  'a:1:2',
  'user@a',
  'a/b',
  'a?b',
  'a#b',
  'a,b',
  'a\\b',
  '::1',
  '[::1',
  '[g::1]',
  '[::1]x',
  '127.1',
  '0x7f.1',
  '2130706433',
  'a.0x1',
  '256.0.0.1',
  'ädmin.example',
  `${'a'.repeat(64)}.example`,
  'a.'.repeat(130),
])('%j is not a host', (text) => {
  expect(parseHost(text)).toBeNull();
});

test('what is read is what a browser understands by it', () => {
  const label = fc.stringMatching(/^[A-Za-z0-9]{1,8}$/);
  const name = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => labels.join('.'));
  const text = fc.oneof(
    name,
    fc.ipV4(),
    fc.ipV6().map((address) => `[${address}]`),
    fc.string({ maxLength: 30 }),
  );
  fc.assert(
    fc.property(text, fc.option(fc.integer({ min: 1, max: 65_535 })), (host, port) => {
      const sent = port === null ? host : `${host}:${port}`;
      const read = parseHost(sent);
      if (read === null) return;
      const url = new URL(`http://${sent}/`);
      // The port of the scheme itself is left out of a URL.
      expect([read.name, String(read.port ?? 80)]).toEqual([url.hostname.replace(/\.$/, ''), url.port || '80']);
    }),
  );
});

test.each([
  ['admin.example', 'admin.example:8081', true],
  ['admin.example:8081', 'admin.example:8081', true],
  ['admin.example:8081', 'admin.example', false],
  ['admin.example:443', 'admin.example', true],
  ['admin.example', 'queries.example', false],
  ['admin.example', 'admin.example.evil', false],
  ['admin.example', 'x.admin.example', false],
])('%s and a request for %s: %s', (host, sent, expected) => {
  expect(namesOneOf([parseHost(host)!], parseHost(sent)!)).toBe(expected);
});
