import { expect, test } from 'vitest';
import { declaredFields } from '../../../src/kinds/engineCluster/declaredFields.ts';
import type { RoutableCluster } from '../../../src/routing/routingTable.ts';
import { clusterAt } from '../../support/routableCluster.ts';

const spec = { proxyTo: 'http://a:1/', routingGroup: 'adhoc' };
const inForce = (more: Partial<RoutableCluster> = {}) => clusterAt('a', 'http://a:1', more);

test.each<[string, object, RoutableCluster | null, readonly string[]]>([
  ['as declared; a slash at the end is no difference', spec, inForce(), ['proxyTo', 'routingGroup']],
  ['switched off by an override', spec, inForce({ active: false }), ['proxyTo', 'routingGroup', 'active!']],
  ['declared as off', { ...spec, active: false }, inForce({ active: false }), ['proxyTo', 'routingGroup', 'active']],
  [
    'an earlier version is in force',
    { ...spec, routingGroup: 'etl', weight: 5 },
    inForce(),
    ['proxyTo', 'routingGroup!', 'weight!'],
  ],
  [
    'a limit that was removed, but is in force',
    spec,
    inForce({ maxRunningQueries: 3 }),
    ['proxyTo', 'routingGroup', 'maxRunningQueries!'],
  ],
  [
    'a health check of the same settings',
    { ...spec, healthCheck: { type: 'METRICS' } },
    inForce({ healthCheck: { type: 'METRICS' } }),
    ['proxyTo', 'routingGroup', 'healthCheck'],
  ],
  [
    'a Service',
    { serviceRef: { name: 's', port: 1 }, routingGroup: 'adhoc' },
    inForce(),
    ['serviceRef', 'routingGroup'],
  ],
  ['nothing is routed', spec, null, ['proxyTo!', 'routingGroup!']],
])('%s', (_what, declared, routable, expected) => {
  const fields = declaredFields(declared as Record<string, unknown>, routable);
  expect(fields.map(({ field, differs }) => `${field}${differs ? '!' : ''}`)).toEqual(expected);
});

test('both values are shown', () => {
  expect(declaredFields({ ...spec, routingGroup: 'etl' }, inForce())).toContainEqual({
    field: 'routingGroup',
    declared: 'etl',
    inForce: 'adhoc',
    differs: true,
  });
});
