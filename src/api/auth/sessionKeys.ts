import { createPrivateKey, createPublicKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type SignatureAlgorithm, signatureAlgorithm, USABLE_KEYS } from '../../gateway/user/signingKey.ts';
import { GatewayError } from '../../model/errors.ts';

/** Keys of sessions, the same on all replicas. */
export interface SessionKeys {
  readonly algorithm: SignatureAlgorithm | 'HS256';
  readonly sign: KeyObject | Uint8Array;
  readonly verify: KeyObject | Uint8Array;
  /** 32 bytes that seal the state of a login at a provider (A256GCM). */
  readonly seal: Uint8Array;
  /** 32 bytes for marks of passwords. */
  readonly mark: Uint8Array;
}

/** Where the keys come from: the configured pair, a secret that all replicas know, or nothing but this process. */
export type KeySource =
  | { readonly privateKeyPath: string; readonly publicKeyPath: string }
  | { readonly secret: string }
  | null;

/**
 * Makes the keys of sessions.
 * @throws GatewayError EG_IMPOSSIBLE naming the key of the configuration whose file cannot be used
 */
export async function sessionKeys(source: KeySource): Promise<SessionKeys> {
  if (source !== null && 'privateKeyPath' in source) {
    const base = 'authentication.form.selfSignKeyPair';
    const sign = await readKey(source.privateKeyPath, `${base}.privateKeyRsa`, createPrivateKey);
    const verify = await readKey(source.publicKeyPath, `${base}.publicKeyRsa`, createPublicKey);
    const own = createPublicKey(sign as never).export({ type: 'spki', format: 'der' });
    if (!own.equals(verify.export({ type: 'spki', format: 'der' }))) {
      const field = `${base}.publicKeyRsa`;
      throw new GatewayError('EG_IMPOSSIBLE', `${field} is not the public key of privateKeyRsa.`, { field });
    }
    const secret = sign.export({ type: 'pkcs8', format: 'der' });
    return {
      algorithm: signatureAlgorithm(sign) ?? 'RS256',
      sign,
      verify,
      seal: derived(secret, 'seal'),
      mark: derived(secret, 'mark'),
    };
  }
  const secret = source === null ? randomBytes(32) : Buffer.from(source.secret);
  const key = derived(secret, 'sessions');
  return { algorithm: 'HS256', sign: key, verify: key, seal: derived(secret, 'seal'), mark: derived(secret, 'mark') };
}

function derived(secret: Uint8Array, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, '', `engine-gateway ${purpose}`, 32));
}

async function readKey(path: string, field: string, parse: (pem: string) => KeyObject): Promise<KeyObject> {
  const fail = (why: string, cause?: unknown) =>
    new GatewayError('EG_IMPOSSIBLE', `${field}: ${path} ${why}.`, { field, cause });
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    throw fail(`cannot be read: ${(cause as NodeJS.ErrnoException).code}`, cause);
  }
  let key: KeyObject;
  try {
    key = parse(text);
  } catch {
    // The parser's own words may repeat the file.
    throw fail('holds no key in PEM form that can be read without a password');
  }
  if (signatureAlgorithm(key) === null) throw fail(USABLE_KEYS);
  return key;
}
