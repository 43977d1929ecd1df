import { expect, test } from 'vitest';
import { ClusterChanges } from '../../../../src/gateway/health/clusterChanges.ts';
import { type HealthVerdict, neverChecked } from '../../../../src/routing/routingTable.ts';
import { RoutingTableHolder } from '../../../../src/routing/tableHolder.ts';
import { clusterAt } from '../../../support/routableCluster.ts';

let now = 0;
const clock = { now: () => 1_000_000 + now, monotonic: () => now };
const verdict = (status: HealthVerdict['status'], reason: string): HealthVerdict => ({
  ...neverChecked,
  status,
  reason,
  checkedAt: now,
});

function started() {
  now = 0;
  const table = new RoutingTableHolder();
  const changes = new ClusterChanges(table, clock);
  const declare = (...actives: readonly boolean[]) =>
    table.setInputs({ clusters: actives.map((active, index) => clusterAt('ab'[index]!, 'http://x', { active })) });
  const check = (status: HealthVerdict['status'], reason: string) =>
    table.setHealth('a', 'http://x', verdict(status, reason));
  const lines = () =>
    changes.of('a').map(({ since, status, reason, active }) => `${since - 1_000_000} ${status} ${reason} ${active}`);
  return { changes, declare, check, lines };
}

test('each change of state is kept with its reason and time, and nothing else', () => {
  const { changes, declare, check, lines } = started();
  declare(true, true);
  for (const [at, status, reason] of [
    [1, 'HEALTHY', 'fine'],
    [2, 'HEALTHY', 'fine, again'],
    [3, 'UNHEALTHY', 'refused'],
    [4, 'UNHEALTHY', 'timed out'],
  ] as const) {
    now = at;
    check(status, reason);
  }
  now = 5;
  declare(false, true);
  expect(lines()).toEqual([
    '5 UNHEALTHY timed out false',
    '3 UNHEALTHY refused true',
    '1 HEALTHY fine true',
    '0 PENDING not checked yet true',
  ]);
  expect(changes.of('b')).toHaveLength(1);
  declare();
  expect(changes.of('a')).toEqual([]);
});

test('for how long a cluster is off begins with its switch, whatever its health does', () => {
  const { changes, declare, check } = started();
  declare(true);
  expect(changes.offFor('a')).toBeNull();
  now = 10;
  declare(false);
  now = 15;
  check('UNHEALTHY', 'refused');
  expect(changes.offFor('a')).toBe(5);
  declare(true);
  expect(changes.offFor('a')).toBeNull();
  expect(changes.offFor('none')).toBeNull();
});

test('a cluster that flaps, with long reasons, has a bounded list', () => {
  const { changes, declare, check } = started();
  declare(true);
  for (let count = 0; count < 200; count += 1) check(count % 2 === 0 ? 'UNHEALTHY' : 'HEALTHY', 'x'.repeat(5_000));
  expect(changes.of('a')).toHaveLength(50);
  expect(changes.of('a')[0]?.reason).toHaveLength(300);
});
