import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { sessionKeys } from '../../../src/api/auth/sessionKeys.ts';
import { Sessions } from '../../../src/api/auth/sessions.ts';

const folder = mkdtempSync(join(tmpdir(), 'session-keys-'));
afterAll(() => rmSync(folder, { recursive: true }));

const pem = {
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
} as const;
const ec = (namedCurve: string) => generateKeyPairSync('ec', { namedCurve, ...pem });
const rsa = (modulusLength: number) => generateKeyPairSync('rsa', { modulusLength, ...pem });

let pairs = 0;
function written({ privateKey, publicKey }: { readonly privateKey: string; readonly publicKey: string }) {
  pairs += 1;
  const [privateKeyPath, publicKeyPath] = ['private', 'public'].map((name) => join(folder, `${name}${pairs}.pem`)) as [
    string,
    string,
  ];
  writeFileSync(privateKeyPath, privateKey);
  writeFileSync(publicKeyPath, publicKey);
  return { privateKeyPath, publicKeyPath };
}

const sessionsWith = (keys: Awaited<ReturnType<typeof sessionKeys>>) =>
  new Sessions({
    keyring: async () => [keys],
    issuer: 'gateway',
    lifetime: 60_000,
    revocations: { isRevoked: async () => false } as never,
    clock: { now: () => 1_000_000, monotonic: () => 0 },
  });

describe('key pairs of form logins sign sessions', () => {
  test.each([
    ['RSA', () => rsa(2048), 'RS256'],
    ['P-256', () => ec('prime256v1'), 'ES256'],
    ['P-384', () => ec('secp384r1'), 'ES384'],
    ['P-521', () => ec('secp521r1'), 'ES512'],
  ] as const)('%s', async (_name, make, algorithm) => {
    const keys = await sessionKeys(written(make()));
    expect(keys.algorithm).toBe(algorithm);
    const sessions = sessionsWith(keys);
    const { token } = await sessions.start('ann', 'form' as never);
    expect(await sessions.read(token)).toMatchObject({ session: { user: 'ann' } });
    const others = sessionsWith(await sessionKeys(written(make())));
    expect(await others.read(token)).toBeNull();
  });

  test.each([
    ['a short RSA key', () => rsa(1024)],
    ['another curve', () => ec('secp256k1')],
    ['another kind', () => generateKeyPairSync('ed25519', pem)],
  ] as const)('%s is refused with the key of the configuration', async (_name, make) => {
    await expect(sessionKeys(written(make()))).rejects.toThrow(
      /selfSignKeyPair\.privateKeyRsa: .* must hold an RSA key of at least 2048 bits, or an EC key of P-256, P-384 or P-521/,
    );
  });

  test('keys that do not belong together are refused', async () => {
    const pair = { privateKey: ec('prime256v1').privateKey, publicKey: ec('prime256v1').publicKey };
    await expect(sessionKeys(written(pair))).rejects.toThrow('is not the public key of privateKeyRsa');
  });
});
