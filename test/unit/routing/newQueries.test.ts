import { expect, test } from 'vitest';
import type { GroupPolicy } from '../../../src/routing/admissionPolicy.ts';
import { type NewQueries, newQueriesWithout, takersOf } from '../../../src/routing/newQueries.ts';
import { neverChecked } from '../../../src/routing/routingTable.ts';
import { RoutingTableHolder } from '../../../src/routing/tableHolder.ts';
import { groupPolicy, groupsOf } from '../../support/groupPolicy.ts';
import { clusterAt } from '../../support/routableCluster.ts';

/** Clusters as `group/name`, healthy unless a sign says otherwise: `-` off, `!` unhealthy. */
function tableOf(clusters: readonly string[], policy?: GroupPolicy) {
  const holder = new RoutingTableHolder();
  const parsed = clusters.map((text) => {
    const [, routingGroup = '', name = '', sign = ''] = /^(\w+)\/(\w+)([-!]?)$/.exec(text) ?? [];
    return { ...clusterAt(name, `http://${name}`, { routingGroup, active: sign !== '-' }), sign };
  });
  const groups = policy === undefined ? new Map() : groupsOf(policy);
  holder.setInputs({ clusters: parsed, admission: { groups, limits: [] } });
  for (const { name, proxyTo, sign } of parsed)
    holder.setHealth(name, proxyTo, { ...neverChecked, status: sign === '!' ? 'UNHEALTHY' : 'HEALTHY', reason: 'r' });
  return holder.current;
}

const wait = groupPolicy('etl', { queue: { whenUnavailable: 'wait', maxQueued: 7, maxWaitMs: 1000 } });
test.each<[string, readonly string[], GroupPolicy | undefined, NewQueries]>([
  ['alone', ['etl/a'], undefined, { outcome: 'refused' }],
  [
    'the default group',
    ['etl/a', 'adhoc/b', 'adhoc/c'],
    undefined,
    { outcome: 'default', routingGroup: 'adhoc', clusters: ['b', 'c'] },
  ],
  ['a default group that is sick', ['etl/a', 'adhoc/b!'], undefined, { outcome: 'refused' }],
  [
    'the first fallback that takes queries',
    ['etl/a', 'spill/b-', 'more/c', 'adhoc/d'],
    groupPolicy('etl', { fallbacks: ['spill', 'more'] }),
    { outcome: 'fallback', routingGroup: 'more', clusters: ['c'] },
  ],
  [
    'waiting, in place of the default group',
    ['etl/a', 'adhoc/b'],
    wait,
    { outcome: 'wait', maxQueued: 7, maxWaitMillis: 1000 },
  ],
  [
    'best effort tries none that is off',
    ['etl/a', 'etl/x!'],
    groupPolicy('etl', { bestEffort: true }),
    { outcome: 'refused' },
  ],
])('what new queries get when nothing of the group takes them: %s', (_what, clusters, policy, expected) => {
  expect(newQueriesWithout(tableOf(clusters, policy), 'etl', 'adhoc')).toEqual(expected);
});

test('the default group has itself as no fallback', () => {
  expect(newQueriesWithout(tableOf(['adhoc/a']), 'adhoc', 'adhoc')).toEqual({ outcome: 'refused' });
});

test('clusters that take new queries are active and healthy', () => {
  expect(takersOf(tableOf(['etl/a', 'etl/b-', 'etl/c!', 'adhoc/d']), 'etl')).toEqual(['a']);
  expect(takersOf(tableOf([]), 'etl')).toEqual([]);
});
