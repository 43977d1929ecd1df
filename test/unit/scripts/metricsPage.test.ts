import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { registeredMetrics } from '../../../scripts/metricsPage.ts';

const root = join(import.meta.dirname, '../../..');

test('the gateway of docs/metrics.md has every metric that the sources name', async () => {
  const named = globSync('src/**/*.ts', { cwd: root }).flatMap((file) => {
    const text = readFileSync(join(root, file), 'utf8');
    return [...text.matchAll(/name: '(engine_gateway_[a-z_]+)'/g)].map(([, name]) => name);
  });
  const metrics = await registeredMetrics();
  const names = metrics.map(({ name }) => name);
  expect(named).toContain('engine_gateway_requests_total');
  expect(names).toEqual(expect.arrayContaining(named));
  expect(metrics).toContainEqual({
    name: 'engine_gateway_request_duration_seconds',
    type: 'histogram',
    help: expect.stringContaining('in seconds'),
    labelNames: ['kind'],
  });
});
