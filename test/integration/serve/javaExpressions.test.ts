import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type SimulatedEngine, startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { GatewayExit, type GatewayProcess, startGateway } from '../../support/gatewayProcess.ts';
import { sessionKeyPair } from '../../support/sessionKeyPair.ts';

const { privateKeyRsa, publicKeyRsa } = sessionKeyPair();
const authentication = { form: { selfSignKeyPair: { privateKeyRsa, publicKeyRsa } } };
const presetUsers = {
  boss: { password: 'abc', privileges: 'ADMIN_API' },
  reader: { password: 'abc', privileges: 'ADMIN_API_readonly' },
  guest: { password: 'abc', privileges: 'GUEST' },
};
const basic = (user: string) => `Basic ${Buffer.from(`${user}:abc`).toString('base64')}`;

describe("expressions in Java's syntax", () => {
  let gateway: GatewayProcess;
  let engine: SimulatedEngine;
  beforeAll(async () => {
    engine = await startSimulatedEngine({ name: 'one' });
    gateway = await startGateway({
      ...{ authentication, presetUsers },
      dataStore: { jdbcUrl: 'jdbc:sqlite::memory:' },
      authorization: { admin: '(?i).*ADMIN_API$', api: '.*\\p{Upper}_API.*+' },
      extraWhitelistPaths: ['/v1/[a-z&&[^ip]]++', '(?i)/EXTRA/.*\\Q.html\\E'],
    });
    const body = JSON.stringify({ name: 'one', proxyTo: engine.url, active: true, routingGroup: 'adhoc' });
    const headers = { authorization: basic('boss'), 'content-type': 'application/json' };
    await fetch(`${gateway.url}/gateway/backend/modify/add`, { method: 'POST', headers, body });
  });
  afterAll(async () => {
    await gateway?.stop();
    await engine?.close();
  });

  test.each([
    ['boss', 200, 200],
    ['reader', 200, 403],
    ['guest', 403, 403],
  ])('authorization: %s', async (user, api, admin) => {
    const headers = { authorization: basic(user) };
    expect((await fetch(`${gateway.url}/gateway/backend/all`, { headers })).status).toBe(api);
    expect((await fetch(`${gateway.url}/entity`, { headers })).status).toBe(admin);
  });

  test.each([
    ['/v1/further', true],
    ['/v1/private', false],
    ['/extra/page.html', true],
    ['/extra/page.js', false],
  ])('extraWhitelistPaths: %s', async (path, isProxied) => {
    const response = await fetch(`${gateway.url}${path}`);
    // What is not proxied is a path that the gateway does not have.
    expect((await response.text()).includes('EG_NOT_FOUND')).toBe(!isProxied);
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
