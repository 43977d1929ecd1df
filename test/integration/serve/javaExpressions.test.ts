import { beforeAll, describe, expect, test } from 'vitest';
import { GatewayExit, type GatewayProcess, startGateway } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { sessionKeyPaths } from '../../support/sessionKeyPair.ts';
import { basic, call, worldOf } from '../../support/world.ts';

const presetUsers = {
  boss: { password: 'abc', privileges: 'ADMIN_API' },
  reader: { password: 'abc', privileges: 'ADMIN_API_readonly' },
  guest: { password: 'abc', privileges: 'GUEST' },
};

describe("expressions in Java's syntax", () => {
  const world = worldOf('suite');
  let gateway: GatewayProcess;
  beforeAll(async () => {
    const { url } = await world.engine({ name: 'one' });
    await world.declare(manifest('EngineCluster', 'one', { proxyTo: url, routingGroup: 'adhoc' }));
    gateway = await world.startReady({
      presetUsers,
      authentication: { form: { selfSignKeyPair: sessionKeyPaths() } },
      authorization: { admin: '(?i).*ADMIN_API$', api: '.*\\p{Upper}_API.*+' },
      extraWhitelistPaths: ['/v1/[a-z&&[^ip]]++', '(?i)/EXTRA/.*\\Q.html\\E'],
    });
  });

  test.each([
    ['boss', 200, 200],
    ['reader', 200, 403],
    ['guest', 403, 403],
  ])('authorization: %s', async (user, api, admin) => {
    const statusOf = async (path: string) => (await call(gateway, 'GET', path, undefined, basic(user, 'abc'))).status;
    expect([await statusOf('/gateway/backend/all'), await statusOf('/entity')]).toEqual([api, admin]);
  });

  test.each([
    ['/v1/further', true],
    ['/v1/private', false],
    ['/extra/page.html', true],
    ['/extra/page.js', false],
  ])('extraWhitelistPaths: %s', async (path, isProxied) => {
    // What is not proxied is a path that the gateway does not have.
    expect((await call(gateway, 'GET', path)).text.includes('EG_NOT_FOUND')).toBe(!isProxied);
  });
});

test('look-around and back references are mistakes at start, with their keys', async () => {
  const start = startGateway({
    authorization: { admin: '(ADMIN|USER)_\\1', api: '.*(?<!read)API' },
    extraWhitelistPaths: ['/v1/(?!info).*', '(?>a|ab)c'],
  });
  await expect(start).rejects.toThrow(GatewayExit);
  for (const message of [
    /authorization\.admin: .* back references are not available; write what the group stands for/,
    /authorization\.api: .* look-behind is not available; list what matches instead/,
    /extraWhitelistPaths\[0\]: .* look-ahead is not available; list what matches instead/,
    /extraWhitelistPaths\[1\]: .* atomic groups are not available; use a plain group/,
  ]) {
    await expect(start).rejects.toThrow(message);
  }
});
