import { createPrivateKey, createPublicKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { type SignatureAlgorithm, signatureAlgorithm, USABLE_KEYS } from '../../gateway/user/clusterTokens.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import type { Secret } from '../../model/secret.ts';

export interface SessionKeys {
  readonly algorithm: SignatureAlgorithm | 'HS256';
  readonly sign: KeyObject | Uint8Array;
  readonly verify: KeyObject | Uint8Array;
  /** 32 bytes that seal the state of a login at a provider (A256GCM). */
  readonly seal: Uint8Array;
  /** 32 bytes for marks of passwords. */
  readonly mark: Uint8Array;
}

/** Source of the keys: the configured pair, a secret of all replicas, or only this process. */
export type KeySource =
  | { readonly privateKeyPath: string; readonly publicKeyPath: string }
  | {
      readonly secret: Secret;
      /** Sessions that these secrets signed stay valid. */
      readonly previous: readonly Secret[];
      readonly minLength: number;
    }
  | null;

/** Returns the keys of sessions: the first ones sign and seal, all of them verify and open. */
export type SessionKeyring = () => Promise<readonly [SessionKeys, ...SessionKeys[]]>;

/** Milliseconds between two readings of the files of session secrets. */
const REFRESH_MS = 1_000;

/**
 * Opens the keys of sessions, which follow the files of their secrets (docs/secrets.md). A secret that is too short is not taken.
 * @throws GatewayError as `sessionKeys`
 */
export async function openKeyring(
  source: KeySource,
  { clock, logger }: { readonly clock: Pick<Clock, 'monotonic'>; readonly logger: Logger },
): Promise<SessionKeyring> {
  const keys = await sessionKeys(source);
  if (source === null || !('secret' in source)) return async () => [keys];
  const { secret, previous, minLength } = source;
  const usable = (texts: readonly string[]) => texts.filter((text) => text.length >= minLength).map(keysOf);
  let texts = [secret, ...previous].map(({ text }) => text);
  let ring: Awaited<ReturnType<SessionKeyring>> = [keys, ...usable(texts.slice(1))];
  const refresh = async () => {
    const next = await Promise.all([secret, ...previous].map((each) => each.read()));
    if (isDeepStrictEqual(next, texts)) return ring;
    texts = next;
    const [signing] = usable(texts.slice(0, 1));
    ring = [signing ?? ring[0], ...usable(texts.slice(1))];
    if (signing === undefined) logger.error({ minLength }, 'session secret is too short; the earlier one stays active');
    else logger.info({ previousSecrets: ring.length - 1 }, 'session secrets changed');
    return ring;
  };
  let readAt = clock.monotonic();
  let current = Promise.resolve(ring);
  return () => {
    if (clock.monotonic() - readAt >= REFRESH_MS) {
      readAt = clock.monotonic();
      // Requests that arrive meanwhile wait for it: they may bring sessions of the new secret.
      current = refresh();
    }
    return current;
  };
}

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
  return keysOf(source === null ? randomBytes(32) : source.secret.text);
}

function keysOf(text: string | Uint8Array): SessionKeys {
  const secret = Buffer.from(text);
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
