import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLocalJWKSet, decodeJwt, type JSONWebKeySet, jwtVerify } from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { type ClusterTokenSettings, ClusterTokens } from '../../../src/gateway/user/clusterTokens.ts';
import { openSigningKeys, type SigningKeySettings, type SigningKeys } from '../../../src/gateway/user/signingKeys.ts';
import { capturingLogger } from '../../support/gateway.ts';

const START = 1_800_000_000_000;
const [SECOND, MINUTE] = [1000, 60_000];

describe('tokens for clusters', () => {
  let folder: string;
  let now = START;
  let opened: SigningKeys[] = [];
  const clock = { now: () => now, monotonic: () => now - START };

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'tokens-'));
  });
  afterEach(() => {
    for (const keys of opened) keys.stop();
    opened = [];
    now = START;
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const file = (name: string) => join(folder, `${name}.pem`);
  function putKey(name: string) {
    const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    writeFileSync(file(name), pair.privateKey.export({ type: 'pkcs8', format: 'pem' }));
    writeFileSync(file(`${name}-public`), pair.publicKey.export({ type: 'spki', format: 'pem' }));
  }
  async function openKeys(settings: Partial<SigningKeySettings> = {}): Promise<SigningKeys> {
    const keys = await openSigningKeys(
      {
        privateKey: file('key'),
        publicKey: null,
        publishedKeys: [],
        keyId: null,
        publishAhead: 20 * MINUTE,
        lifetime: 5 * MINUTE,
        ...settings,
      },
      { refreshTime: 5, clock, logger: capturingLogger([]) },
    );
    opened.push(keys);
    return keys;
  }
  const idsOf = (keys: SigningKeys) => keys.published().keys.map(({ kid }) => kid);
  const jwksOf = (keys: SigningKeys) => createLocalJWKSet(keys.published() as unknown as JSONWebKeySet);

  async function openTokens(settings: Partial<ClusterTokenSettings> = {}, log: Record<string, unknown>[] = []) {
    putKey('key');
    const keys = await openKeys();
    const defaults = {
      principalClaim: 'sub',
      issuer: null,
      audiences: ['{cluster}', 'all'],
      clusterAudiences: { b: ['other'] },
      lifetime: 5 * MINUTE,
      hosts: null,
    };
    const tokens = new ClusterTokens({
      settings: { ...defaults, ...settings },
      keys,
      clock,
      logger: capturingLogger(log),
    });
    return { tokens, keys };
  }
  const at = (name: string, proxyTo = `https://${name}.example`) => ({ name, proxyTo });

  test('are used again until their last minute', async () => {
    const { tokens, keys } = await openTokens();
    const first = tokens.tokenFor('ann', at('a')) ?? '';
    now = START + 4 * MINUTE - 1;
    expect(tokens.tokenFor('ann', at('a'))).toBe(first);
    const { payload } = await jwtVerify(first, jwksOf(keys), { currentDate: new Date(now) });
    expect(payload).toEqual({
      sub: 'ann',
      aud: ['a', 'all'],
      iat: START / 1000,
      nbf: START / 1000 - 60,
      exp: START / 1000 + 300,
    });
    now += 1;
    const second = tokens.tokenFor('ann', at('a')) ?? '';
    expect([second === first, decodeJwt(second).exp]).toEqual([false, now / 1000 + 300]);
    expect(decodeJwt(tokens.tokenFor('bob', at('a')) ?? '').sub).toBe('bob');
    expect(decodeJwt(tokens.tokenFor('ann', at('b')) ?? '').aud).toEqual(['other']);
  });

  test.each<[readonly string[] | null, string, boolean]>([
    [null, 'https://a.example', true],
    [null, 'http://a.example', false],
    [['a.example'], 'http://a.example:8080', true],
    [['*.example'], 'https://a.example', true],
    [['b.example'], 'https://a.example', false],
    [[], 'https://a.example', false],
  ])('with tokenHosts %j %s gets one: %s', async (hosts, proxyTo, gets) => {
    const log: Record<string, unknown>[] = [];
    const { tokens } = await openTokens({ hosts }, log);
    expect(tokens.tokenFor('ann', at('a', proxyTo)) !== null).toBe(gets);
    expect(tokens.tokenFor('ann', at('a', proxyTo)) !== null).toBe(gets);
    // Said once.
    expect(log).toHaveLength(gets ? 0 : 1);
    // An address without a cluster gets none.
    expect(tokens.tokenFor('ann', at('', proxyTo))).toBeNull();
  });

  test('a new key signs after its time, and the old one is published until nobody needs it', async () => {
    putKey('key');
    const keys = await openKeys();
    const [first = ''] = idsOf(keys);
    putKey('key');
    await vi.waitFor(() => expect(idsOf(keys)).toHaveLength(2), { timeout: 10_000, interval: 5 });
    const [, second = ''] = idsOf(keys);
    now = START + 20 * MINUTE - 1;
    expect([keys.current.published.kid, idsOf(keys)]).toEqual([first, [first, second]]);
    now += 1;
    expect([keys.current.published.kid, idsOf(keys)]).toEqual([second, [second, first]]);
    now += 25 * MINUTE - 1;
    expect(idsOf(keys)).toEqual([second, first]);
    now += 1;
    expect(idsOf(keys)).toEqual([second]);
  });

  test('with an id of its own a new key signs at once, and no two keys have one id', async () => {
    putKey('key');
    const keys = await openKeys({ keyId: 'one' });
    const before = keys.published().keys;
    putKey('key');
    await vi.waitFor(() => expect(keys.published().keys).not.toEqual(before), { timeout: 10_000, interval: 5 });
    expect(idsOf(keys)).toEqual(['one']);
    await jwtVerify(keys.current.sign({ sub: 'ann' }), jwksOf(keys));
  });

  test('further keys are published beside it, and a pair has to fit', async () => {
    putKey('key');
    putKey('next');
    const keys = await openKeys({ publicKey: file('key-public'), publishedKeys: [file('next-public')] });
    expect(idsOf(keys)).toEqual([idsOf(keys)[0], idsOf(await openKeys({ privateKey: file('next') }))[0]]);
    await expect(openKeys({ publicKey: file('next-public') })).rejects.toThrow(
      `clientCertificateJwtAuthentication.jwtSigningKeyPair.publicKey: ${file('next-public')} is not the public key of privateKey.`,
    );
  });

  test('many users take no more memory than ten thousand do', async () => {
    const { tokens } = await openTokens();
    const first = tokens.tokenFor('user-0', at('a'));
    now += SECOND;
    for (let user = 1; user <= 10_000; user += 1) tokens.tokenFor(`user-${user}`, at('a'));
    // The one unused for the longest time is made again.
    expect(tokens.tokenFor('user-0', at('a'))).not.toBe(first);
  });
});
