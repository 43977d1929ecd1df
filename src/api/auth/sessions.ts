import {
  createCipheriv,
  createDecipheriv,
  createPrivateKey,
  createPublicKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
  randomUUID,
} from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { jwtVerify, SignJWT } from 'jose';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { type SignatureAlgorithm, signatureAlgorithm, USABLE_KEYS } from '../../gateway/user/clusterTokens.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import { growingTo } from '../../model/growingCache.ts';
import type { Secret } from '../../model/secret.ts';
import type { EndedSessionRepository } from '../../store/endedSessionRepository.ts';

/** Header `typ` of our tokens: nothing else that the same key signs is a session (RFC 8725 §3.11). */
const TYPE = 'session+jwt';

export type SessionOrigin =
  | { readonly kind: 'preset'; readonly mark: string }
  | { readonly kind: 'ldap' }
  /** At an OpenID provider; `privileges` is null if the configuration names no claim that holds them. */
  | { readonly kind: 'provider'; readonly provider: string; readonly privileges: string | null }
  /** `token` is sealed ({@link SealedTexts}): the API server is asked about it again. */
  | { readonly kind: 'kubernetes'; readonly token: string };

export interface Session {
  readonly id: string;
  readonly user: string;
  readonly origin: SessionOrigin;
  /** Token that writes with a cookie must repeat in a header. */
  readonly csrfToken: string;
  /** End, milliseconds since 1970. */
  readonly expires: number;
}

/** A token that was looked at: a session, one that has ended, or nothing of ours. */
export type SessionToken = { readonly session: Session } | { readonly ended: string } | null;

/** Issues and reads session tokens: JWTs that are signed, expire, and can be ended. Nothing in them is secret in clear text. */
export class Sessions {
  readonly #keyring: SessionKeyring;
  readonly #issuer: string;
  readonly #lifetime: number;
  readonly #revocations: Revocations;
  readonly #clock: Clock;

  /** @param lifetime milliseconds */
  constructor(keyring: SessionKeyring, issuer: string, lifetime: number, revocations: Revocations, clock: Clock) {
    this.#keyring = keyring;
    this.#issuer = issuer;
    this.#lifetime = lifetime;
    this.#revocations = revocations;
    this.#clock = clock;
  }

  /** The clock that sessions run out by, milliseconds since 1970. */
  now(): number {
    return this.#clock.now();
  }

  /**
   * Starts a session.
   * @param endsAt when what the user logged in with ends, milliseconds since 1970: the session ends then at the latest
   */
  async start(
    user: string,
    origin: SessionOrigin,
    endsAt: number | null = null,
  ): Promise<{ readonly token: string; readonly session: Session }> {
    const [keys] = await this.#keyring();
    const issuedAt = Math.floor(this.#clock.now() / 1000);
    const latest = issuedAt + Math.ceil(this.#lifetime / 1000);
    const expires = endsAt === null ? latest : Math.min(latest, Math.floor(endsAt / 1000));
    const session: Session = {
      id: randomUUID(),
      user,
      origin,
      csrfToken: randomBytes(24).toString('base64url'),
      expires: expires * 1000,
    };
    const token = await new SignJWT({ org: origin, csrf: session.csrfToken })
      .setProtectedHeader({ alg: keys.algorithm, typ: TYPE })
      .setIssuer(this.#issuer)
      .setAudience(this.#issuer)
      .setSubject(user)
      .setJti(session.id)
      .setIssuedAt(issuedAt)
      .setExpirationTime(expires)
      .sign(keys.sign);
    return { token, session };
  }

  /** Reads a token; anything forged, of another kind, run out or ended is no session. */
  async read(token: string): Promise<SessionToken> {
    let payload: Record<string, unknown> | null = null;
    for (const keys of await this.#keyring()) {
      try {
        payload = await this.#verify(token, keys);
        break;
      } catch (error) {
        if ((error as { code?: string }).code === 'ERR_JWT_EXPIRED') return { ended: 'The session has run out.' };
      }
    }
    if (payload === null) return null;
    const session: Session = {
      id: payload.jti as string,
      user: payload.sub as string,
      origin: payload.org as SessionOrigin,
      csrfToken: payload.csrf as string,
      expires: (payload.exp as number) * 1000,
    };
    if (await this.#revocations.isRevoked(session.id)) return { ended: 'The session was ended by logging out.' };
    return { session };
  }

  async #verify(token: string, keys: SessionKeys): Promise<Record<string, unknown>> {
    const { payload } = await jwtVerify(token, keys.verify, {
      algorithms: [keys.algorithm],
      typ: TYPE,
      issuer: this.#issuer,
      audience: this.#issuer,
      requiredClaims: ['sub', 'jti', 'exp', 'csrf', 'org'],
      currentDate: new Date(this.#clock.now()),
    });
    return payload;
  }

  async end(session: Session): Promise<void> {
    await this.#revocations.revoke(session.id, session.expires);
  }
}

const CAPACITY = 100_000;

/** Time that "not revoked" is believed without asking the store again, in milliseconds. */
const BELIEVED_MS = 5_000;

/**
 * Sessions that were ended, and one-time values that were used. Kept in memory (the newest 100,000) and, where there is
 * a store, in the database, so that other replicas learn of it within 5 s. While the database is unavailable each replica
 * knows its own.
 */
export class Revocations {
  readonly #revoked: LRUCache<string, true>;
  readonly #good: LRUCache<string, true>;
  readonly #store: EndedSessionRepository | null;
  readonly #clock: Clock;
  readonly #logger: Logger;

  /** @param store null: ended sessions are known to this process only */
  constructor(store: EndedSessionRepository | null, clock: Clock, logger: Logger) {
    const perf = { now: () => clock.monotonic() };
    this.#revoked = new LRUCache({ ...growingTo(CAPACITY), perf, ttl: 1, ttlResolution: 0 });
    this.#good = new LRUCache({ ...growingTo(CAPACITY), perf, ttl: BELIEVED_MS, ttlResolution: 0 });
    this.#store = store;
    this.#clock = clock;
    this.#logger = logger;
  }

  /**
   * Ends an id.
   * @param until when it would have run out by itself, milliseconds since 1970
   * @returns false when it was ended before: a one-time value that comes a second time
   */
  async revoke(id: string, until: number): Promise<boolean> {
    const ttl = until - this.#clock.now();
    if (ttl <= 0) return false;
    const first = !this.#revoked.has(id);
    this.#revoked.set(id, true, { ttl });
    this.#good.delete(id);
    if (!first || this.#store === null) return first;
    try {
      return await this.#store.add(id, until);
    } catch (err) {
      this.#logger.warn({ err }, 'failed to store ended session; other replicas accept it until it expires');
      return first;
    }
  }

  async isRevoked(id: string): Promise<boolean> {
    if (this.#revoked.has(id)) return true;
    if (this.#store === null || this.#good.has(id)) return false;
    try {
      const isRevoked = await this.#store.has(id);
      if (!isRevoked) this.#good.set(id, true);
      return isRevoked;
    } catch {
      // The data plane's rule holds here as well: the API does not stop because the database is unavailable.
      return false;
    }
  }
}

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;
/** Maximum size of an unpacked text, in bytes; longer tokens are not accepted as credentials either. */
const MAX_SEALED = 16_384;

/**
 * Seals texts that leave the gateway and return (AES-256-GCM), so that every replica can read them and no one else: tokens of
 * the Kubernetes cluster in sessions, and the state of a login. A seal is bound to a context, such as the session's user.
 */
export class SealedTexts {
  readonly #keyring: SessionKeyring;

  constructor(keyring: SessionKeyring) {
    this.#keyring = keyring;
  }

  /** The sealed text in base64url. */
  async seal(text: string, context: string): Promise<string> {
    const [{ seal }] = await this.#keyring();
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, seal, iv).setAAD(Buffer.from(context));
    const sealed = Buffer.concat([cipher.update(deflateRawSync(text)), cipher.final()]);
    return Buffer.concat([iv, sealed, cipher.getAuthTag()]).toString('base64url');
  }

  /** The text; null if it was not sealed for this context. */
  async open(sealed: string, context: string): Promise<string | null> {
    const bytes = Buffer.from(sealed, 'base64url');
    if (bytes.length <= IV_BYTES + TAG_BYTES) return null;
    for (const { seal } of await this.#keyring()) {
      try {
        const decipher = createDecipheriv(CIPHER, seal, bytes.subarray(0, IV_BYTES))
          .setAAD(Buffer.from(context))
          .setAuthTag(bytes.subarray(-TAG_BYTES));
        const packed = Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
        return inflateRawSync(packed, { maxOutputLength: MAX_SEALED }).toString();
      } catch {
        // Sealed with other keys, or not by a gateway.
      }
    }
    return null;
  }
}

export interface SessionKeys {
  readonly algorithm: SignatureAlgorithm | 'HS256';
  readonly sign: KeyObject | Uint8Array;
  readonly verify: KeyObject | Uint8Array;
  /** 32 bytes for `SealedTexts`. */
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
