import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A key pair of sessions in files, as `authentication.form.selfSignKeyPair` wants it. */
export function sessionKeyPair(bits = 2048) {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: bits });
  const folder = mkdtempSync(join(tmpdir(), 'session-keys-'));
  const paths = { privateKeyRsa: join(folder, 'private.pem'), publicKeyRsa: join(folder, 'public.pem') };
  writeFileSync(paths.privateKeyRsa, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  writeFileSync(paths.publicKeyRsa, publicKey.export({ type: 'spki', format: 'pem' }));
  return { ...paths, folder, privateKey };
}

let paths: { readonly privateKeyRsa: string; readonly publicKeyRsa: string } | undefined;

/** Paths of one key pair, for tests that sign nothing with it. */
export function sessionKeyPaths() {
  if (paths === undefined) {
    const { privateKeyRsa, publicKeyRsa } = sessionKeyPair();
    paths = { privateKeyRsa, publicKeyRsa };
  }
  return paths;
}
