import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { registeredMetrics } from '../../../scripts/metricsPage.ts';

const root = join(import.meta.dirname, '../../..');

test('the gateway of docs/metrics.md has every metric that the sources name', async () => {
  const named = globSync('src/**/*.ts', { cwd: root }).flatMap((file) => {
    const text = readFileSync(join(root, file), 'utf8');
    return [...text.matchAll(/name: '((?:engine_gateway|controller_runtime|workqueue|leader_election)_[a-z_]+)'/g)].map(
      ([, name]) => name,
    );
  });
  const metrics = await registeredMetrics();
  const names = metrics.map(({ name }) => name);
  expect(named).toContain('engine_gateway_requests_total');
  expect(names).toEqual(expect.arrayContaining(named));
  // What the conventions of operators and processes say.
  const labels = Object.fromEntries(metrics.map(({ name, labelNames }) => [name, labelNames]));
  expect(labels).toMatchObject({
    controller_runtime_reconcile_total: ['controller', 'result'],
    controller_runtime_reconcile_errors_total: ['controller'],
    controller_runtime_reconcile_time_seconds: ['controller'],
    workqueue_depth: ['name'],
    workqueue_adds_total: ['name'],
    workqueue_retries_total: ['name'],
    workqueue_queue_duration_seconds: ['name'],
    workqueue_work_duration_seconds: ['name'],
    workqueue_unfinished_work_seconds: ['name'],
    workqueue_longest_running_processor_seconds: ['name'],
    rest_client_requests_total: ['code', 'method'],
    leader_election_master_status: ['name'],
    process_resident_memory_bytes: [],
  });
  expect(metrics).toContainEqual({
    name: 'engine_gateway_request_duration_seconds',
    type: 'histogram',
    help: expect.stringContaining('in seconds'),
    labelNames: ['kind'],
  });
});
