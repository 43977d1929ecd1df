import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { KubeApi } from '../../../src/operator/sources/kubernetes/kubeApi.ts';
import { loadKubeConfig, type PooledKubeConfig } from '../../../src/operator/sources/kubernetes/kubeConfig.ts';
import { kubeconfigText } from '../../support/kubeconfig.ts';

let folder: string;
let server: Server;
let credentials: (string | undefined)[];
let config: PooledKubeConfig | undefined;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'kubeconfig-'));
  credentials = [];
  server = createServer((request, response) => {
    credentials.push(request.headers.authorization);
    response.setHeader('Content-Type', 'application/json');
    response.end('{"items":[],"metadata":{"resourceVersion":"1"}}');
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
});
afterEach(async () => {
  vi.useRealTimers();
  await config?.destroy();
  server.closeAllConnections();
  await new Promise((closed) => server.close(closed));
  await rm(folder, { recursive: true, force: true });
});

test.each(['token', 'absolute'] as const)('a tokenFile (%s) is read again when it changes', async (place) => {
  const file = join(folder, 'token');
  const path = join(folder, 'kubeconfig');
  const { port } = server.address() as AddressInfo;
  await writeFile(file, 'one\n');
  const cluster = { server: `http://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true };
  await writeFile(path, kubeconfigText(cluster, { tokenFile: place === 'absolute' ? file : 'token' }));
  vi.useFakeTimers({ toFake: ['Date'], now: 1_800_000_000_000 });
  config = loadKubeConfig(path);
  const api = new KubeApi(config, 10_000);
  const list = () => api.list('EngineCluster', 'default', 1, undefined);
  await list();
  await writeFile(file, 'two');
  vi.setSystemTime(1_800_000_061_000);
  await list();
  expect(credentials).toEqual(['Bearer one', 'Bearer two']);
});
