import { afterEach, expect, test } from 'vitest';
import { type SimulatedEngine, startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { closeAll, closing, clusterAt, startGateway } from '../../support/gateway.ts';
import { submit } from '../../support/statementClient.ts';

afterEach(closeAll);

test('with the default check, a cluster that joins a group with leastLoaded gets its share of the queries', async () => {
  const engines: SimulatedEngine[] = [];
  for (const name of ['a', 'b', 'c']) engines.push(closing(await startSimulatedEngine({ name })));
  const clusters = engines.map(({ url }, index) => clusterAt(['a', 'b', 'c'][index] as string, url));
  let passed = 0;
  const gateway = await startGateway({
    clusters: clusters.slice(0, 2),
    settings: { strategy: 'leastLoaded' },
    clock: { now: () => Date.now(), monotonic: () => performance.now() + passed },
  });
  const sendQueries = async (count: number) => {
    const before = engines.map(({ queries }) => queries.length);
    for (let sent = 0; sent < count; sent++) await submit(gateway.url, 'SELECT 1');
    return engines.map(({ queries }, index) => queries.length - (before[index] as number));
  };
  expect(await sendQueries(300)).toEqual([150, 150, 0]);
  passed += 1_000;
  gateway.table.setInputs({ clusters });
  gateway.setHealthy('c');
  expect(await sendQueries(300)).toEqual([100, 100, 100]);
});
