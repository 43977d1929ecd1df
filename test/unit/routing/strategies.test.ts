import fc from 'fast-check';
import { expect, test } from 'vitest';
import { productNames } from '../../../src/model/names.ts';
import { strategyNames } from '../../../src/model/strategies.ts';
import { type ClusterEntry, neverChecked } from '../../../src/routing/routingTable.ts';
import { makeStrategies } from '../../../src/routing/strategies/strategies.ts';
import { clusterAt } from '../../support/routableCluster.ts';

const count = fc.option(fc.nat(5), { nil: null });
const candidates = fc
  .array(fc.record({ weight: fc.nat(3), queued: count, running: count }), { minLength: 1, maxLength: 5 })
  .map((all) =>
    all.map(
      ({ weight, ...counts }, index): ClusterEntry => ({
        ...clusterAt(`c${index}`, `http://c${index}:8080`, { weight }),
        health: { ...neverChecked, status: 'HEALTHY', ...counts, countsAsOf: 1 },
      }),
    ),
  );

test.each(strategyNames)('%s picks one of the candidates, whatever their weights and counts', (name) => {
  fc.assert(
    fc.property(
      candidates,
      fc.option(fc.constantFrom('ann', '__proto__'), { nil: null }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (clusters, user, random) => {
        const strategy = makeStrategies({ random: () => random, monotonic: () => 2, names: productNames('Engine') })[
          name
        ];
        const picked = strategy.pick(clusters, { user, headers: [] }, () => ({ by: 'user' }));
        expect(clusters).toContain(picked);
        strategy.countSubmission?.(picked, { user, headers: [] }).confirm();
        strategy.retain?.(new Set());
        expect(clusters).toContain(strategy.pick(clusters, { user, headers: [] }, () => ({ by: 'user' })));
      },
    ),
  );
});
