import { describe, expect, test } from 'vitest';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { call, worldOf } from '../../support/world.ts';

const world = worldOf('test');
let gateway: GatewayProcess;

const sent = (name: string, proxyTo: string, more: object = {}) => ({
  name,
  proxyTo,
  active: true,
  routingGroup: 'adhoc',
  ...more,
});

const write = (operation: 'add' | 'update', cluster: object) =>
  call(gateway, 'POST', `/gateway/backend/modify/${operation}`, cluster);
const listed = async (): Promise<readonly string[]> =>
  (await call(gateway, 'GET', '/gateway/backend/all')).json.map(({ proxyTo }: { readonly proxyTo: string }) => proxyTo);

describe('addresses that clusters may not have', () => {
  test('REST refuses them with the key that allows them, and takes those that are allowed', async () => {
    const engine = await world.engine({ name: 'a' });
    gateway = await world.start({ resources: { allowedAddresses: ['169.254.7.0/24'] } });
    expect(await write('add', sent('m', 'http://169.254.169.254'))).toMatchObject({
      status: 422,
      json: {
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
    const declare = (proxyTo: string) =>
      world.declare(manifest('EngineCluster', 'a', { proxyTo, routingGroup: 'adhoc' }));
    await declare('http://engine-a.example:8080');
    gateway = await world.start();
    await expect.poll(listed).toEqual(['http://engine-a.example:8080']);
    await declare('http://[fd00:ec2::254]');
    const condition = async () => (await call(gateway, 'GET', '/api/clusters')).text;
    await expect.poll(condition).toContain('AddressNotAllowed');
    expect(await listed()).toEqual(['http://engine-a.example:8080']);
  });
});
