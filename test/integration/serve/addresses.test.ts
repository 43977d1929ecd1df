import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { closeAll, closing } from '../../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../../support/gatewayProcess.ts';
import { manifest as declared } from '../../support/manifest.ts';

let folder: string;
let gateway: GatewayProcess;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'addresses-'));
});
afterEach(async () => {
  await gateway.stop();
  await closeAll();
  await rm(folder, { recursive: true, force: true });
});

const sent = (name: string, proxyTo: string, more: object = {}) => ({
  name,
  proxyTo,
  active: true,
  routingGroup: 'adhoc',
  ...more,
});

async function write(operation: 'add' | 'update', cluster: object) {
  const response = await fetch(`${gateway.url}/gateway/backend/modify/${operation}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(cluster),
  });
  return {
    status: response.status,
    body: (await response.json()) as { readonly error?: Readonly<Record<string, unknown>> },
  };
}

const listed = async (): Promise<readonly string[]> => {
  const clusters = (await (await fetch(`${gateway.url}/gateway/backend/all`)).json()) as { readonly proxyTo: string }[];
  return clusters.map(({ proxyTo }) => proxyTo);
};

describe('addresses that clusters may not have', () => {
  const database = () => ({ dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` } });

  test('REST refuses them with the key that allows them, and takes those that are allowed', async () => {
    const engine = closing(await startSimulatedEngine({ name: 'a' }));
    gateway = await startGateway({ ...database(), resources: { allowedAddresses: ['169.254.7.0/24'] } });
    expect(await write('add', sent('m', 'http://169.254.169.254'))).toMatchObject({
      status: 422,
      body: {
        error: {
          code: 'EG_IMPOSSIBLE',
          field: 'proxyTo',
          message: expect.stringContaining('add 169.254.169.254 to resources.allowedAddresses'),
        },
      },
    });
    expect((await write('add', sent('z', 'http://0.0.0.0:8080'))).status).toBe(400);
    expect((await write('add', sent('d', 'http://2852039166'))).status).toBe(400);
    expect(await listed()).toEqual([]);
    // Loopback is for those who run the gateway: only they write here.
    expect((await write('add', sent('a', engine.url))).status).toBe(200);
    expect((await write('update', sent('a', 'http://metadata.google.internal'))).status).toBe(422);
    expect((await write('add', sent('l', 'http://169.254.7.1:8080'))).status).toBe(200);
    expect(await listed()).toEqual([engine.url, 'http://169.254.7.1:8080']);
  });

  test('a manifest with one is not accepted; the last good version stays', async () => {
    const file = join(folder, 'a.yaml');
    const manifest = (proxyTo: string) => stringify(declared('EngineCluster', 'a', { proxyTo, routingGroup: 'adhoc' }));
    await writeFile(file, manifest('http://engine-a.example:8080'));
    gateway = await startGateway({ ...database(), resources: { source: 'directory', directory: folder } });
    await expect.poll(listed).toEqual(['http://engine-a.example:8080']);
    await writeFile(file, manifest('http://[fd00:ec2::254]'));
    const condition = async () => await (await fetch(`${gateway.url}/api/clusters`)).text();
    await expect.poll(condition).toContain('AddressNotAllowed');
    expect(await listed()).toEqual(['http://engine-a.example:8080']);
  });
});
