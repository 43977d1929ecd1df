import { pino } from 'pino';
import { expect, test } from 'vitest';
import type { DatabaseLeadership } from '../../../src/operator/leadership/leadership.ts';
import { LeaseLeadership } from '../../../src/operator/leadership/leaseLeadership.ts';
import type { KubeApi, Lease } from '../../../src/operator/sources/kubernetes/kubeApi.ts';

test('a Lease that is renewed too late is reported, as writes in between were skipped', async () => {
  let now = 0;
  let lease: Lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'l', namespace: 'n' } };
  let renewals = 0;
  const replaceLease = async (_namespace: string, _name: string, written: Lease): Promise<Lease> => {
    renewals += 1;
    lease = written;
    return lease;
  };
  const row = {
    onChange: () => () => undefined,
    start: async () => undefined,
    stop: async () => undefined,
    fence: { holder: 'a', epoch: 1 },
  };
  const leadership = new LeaseLeadership({
    api: { readLease: async () => lease, replaceLease } as unknown as KubeApi,
    namespace: 'n',
    name: 'engine-gateway',
    holder: 'a',
    row: row as unknown as DatabaseLeadership,
    clock: { now: () => now, monotonic: () => now },
    logger: pino({ level: 'silent' }),
    retryMs: 2,
  });
  await leadership.start();
  expect(leadership.isLeader).toBe(true);
  const changes: boolean[] = [];
  leadership.onChange(() => changes.push(leadership.isLeader));
  const before = renewals;
  await expect.poll(() => renewals).toBeGreaterThan(before + 1);
  expect(changes).toEqual([]);

  // The process did not run for 11 s, as on a machine that is too busy.
  now += 11_000;
  expect(leadership.isLeader).toBe(false);
  await expect.poll(() => changes).toEqual([true]);
  await leadership.stop();
});
