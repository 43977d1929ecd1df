import { expect, test } from 'vitest';
import { parseRegistryCluster } from '../../../src/model/registryCluster.ts';

const whole = { name: 'Trino Prod_1', proxyTo: 'http://e:1/', active: true, routingGroup: 'adhoc' };

test('fills in externalUrl, cuts one trailing slash, leaves unknown fields out', () => {
  expect(parseRegistryCluster({ ...whole, extra: 1 })).toEqual({
    ok: true,
    value: { ...whole, proxyTo: 'http://e:1', externalUrl: 'http://e:1' },
  });
  expect(parseRegistryCluster({ ...whole, externalUrl: null })).toMatchObject({ value: { externalUrl: 'http://e:1' } });
  expect(parseRegistryCluster({ ...whole, externalUrl: 'https://x/' })).toMatchObject({
    value: { externalUrl: 'https://x' },
  });
});

test.each<[unknown, string[]]>([
  [null, [' must be an object, not null']],
  [[], [' must be an object, not a list']],
  ['a', [' must be an object, not a text']],
  [{}, ['name is required', 'proxyTo is required', 'active is required', 'routingGroup is required']],
  [{ ...whole, active: 'true' }, ['active must be true or false, not a text']],
  [{ ...whole, active: null }, ['active must be true or false, not null']],
  [{ ...whole, name: 7 }, ['name must be a text, not 7']],
  [{ ...whole, name: '' }, ['name must not be empty']],
  [{ ...whole, name: 'x'.repeat(257) }, ['name must have at most 256 characters']],
  [{ ...whole, name: 'a ' }, ['name must not hold control characters, nor start or end with a space']],
  [{ ...whole, routingGroup: '' }, ['routingGroup must not be empty']],
  [{ ...whole, routingGroup: 'a\nb' }, ['routingGroup must not hold control characters']],
  [{ ...whole, routingGroup: null }, ['routingGroup must be a text, not null']],
  [{ ...whole, externalUrl: 5 }, ['externalUrl must be a text, not 5']],
  [{ ...whole, externalUrl: 'x' }, ['externalUrl must start with http:// or https://, in lower case']],
  [
    { ...whole, active: 1, proxyTo: 'ftp://e' },
    ['active must be true or false, not 1', 'proxyTo must start with http:// or https://, in lower case'],
  ],
])('refuses %j', (value, expected) => {
  const checked = parseRegistryCluster(value);
  expect(checked.ok ? [] : checked.problems.map((problem) => `${problem.field} ${problem.message}`)).toEqual(expected);
});

test('256 characters beyond the basic plane are a name', () => {
  expect(parseRegistryCluster({ ...whole, name: '😀'.repeat(256) }).ok).toBe(true);
});
