import { expect, test } from 'vitest';
import { neverChecked, type RoutableCluster } from '../../../src/routing/routingTable.ts';
import { RoutingTableHolder } from '../../../src/routing/tableHolder.ts';
import { clusterAt } from '../../support/routableCluster.ts';

const cluster = (name: string, more: Partial<RoutableCluster> = {}): RoutableCluster =>
  clusterAt(name, `http://${name}:8080`, more);
const healthy = { ...neverChecked, status: 'HEALTHY', reason: 'ok' } as const;

test('a request keeps the table it started with', () => {
  const holder = new RoutingTableHolder();
  holder.setInputs({ clusters: [cluster('b'), cluster('a')] });
  const started = holder.current;
  holder.setInputs({ clusters: [] });
  expect(started.groups.get('adhoc')?.map((entry) => entry.name)).toEqual(['a', 'b']);
  expect(holder.current.clusters.size).toBe(0);
});

test('a verdict survives a change of the group, not of the address', () => {
  const holder = new RoutingTableHolder();
  holder.setInputs({ clusters: [cluster('a')] });
  holder.setHealth('a', 'http://a:8080', healthy);
  holder.setInputs({ clusters: [cluster('a', { routingGroup: 'etl' })] });
  expect(holder.current.clusters.get('a')?.health.status).toBe('HEALTHY');
  holder.setInputs({ clusters: [cluster('a', { proxyTo: 'http://other:1' })] });
  expect(holder.current.clusters.get('a')?.health.status).toBe('PENDING');
});

test('a late verdict for an old address, or of a deleted cluster, is ignored', () => {
  const holder = new RoutingTableHolder();
  holder.setInputs({ clusters: [cluster('a')] });
  const { version } = holder.current;
  holder.setHealth('a', 'http://old:1', healthy);
  holder.setHealth('gone', 'http://gone:8080', healthy);
  expect(holder.current.version).toBe(version);
});

test('listeners see the new table and the one before, until they are removed', () => {
  const holder = new RoutingTableHolder();
  const sizes: [number, number][] = [];
  const remove = holder.onChange((table, before) => sizes.push([before.clusters.size, table.clusters.size]));
  holder.setInputs({ clusters: [cluster('a')] });
  remove();
  holder.setInputs({ clusters: [] });
  expect(sizes).toEqual([[0, 1]]);
});
