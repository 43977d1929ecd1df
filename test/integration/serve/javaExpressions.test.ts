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

describe("expressions with look-around, which Trino Gateway's configuration takes", () => {
  let gateway: GatewayProcess;
  let engine: SimulatedEngine;
  beforeAll(async () => {
    engine = await startSimulatedEngine({ name: 'one' });
    gateway = await startGateway({
      ...{ authentication, presetUsers },
      dataStore: { jdbcUrl: 'jdbc:sqlite::memory:' },
      authorization: { admin: '(?i)^(?!.*readonly)(?=.*ADMIN).*$', api: '.*(?<!read)API.*(?<!x)' },
      extraWhitelistPaths: ['/v1/(?!info|private)[^/]+', '(?i)/EXTRA/.*(?<!\\.js)'],
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
    const answer = await fetch(`${gateway.url}${path}`);
    // What is not proxied is a path that the gateway does not have.
    expect((await answer.text()).includes('EG_NOT_FOUND')).toBe(!isProxied);
  });
});

test('what cannot be matched in linear time is refused at start, by name', async () => {
  const start = startGateway({ authorization: { admin: '(ADMIN|USER)_\\1' }, extraWhitelistPaths: ['(?>a|ab)c'] });
  await expect(start).rejects.toThrow(GatewayExit);
  await expect(start).rejects.toThrow(
    /authorization\.admin: .* has a back reference, which cannot be matched in linear/,
  );
  await expect(start).rejects.toThrow(/extraWhitelistPaths\[0\]: .* has an atomic group with a choice/);
});
