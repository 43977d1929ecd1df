import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, randomUUID } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { jwtVerify, SignJWT } from 'jose';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';
import type { EndedSessionRepository } from '../../store/endedSessionRepository.ts';
import type { SessionKeyring, SessionKeys } from './sessionKeys.ts';

/** Header `typ` of our tokens: nothing else that the same key signs is a session (RFC 8725 §3.11). */
const TYPE = 'session+jwt';

export type SessionOrigin =
  | { readonly kind: 'preset'; readonly mark: string }
  | { readonly kind: 'ldap' }
  /** At `authentication.oauth`; `privileges` is null if the configuration names no claim that holds them. */
  | { readonly kind: 'oauth'; readonly privileges: string | null }
  /** At one of `authentication.providers`. */
  | { readonly kind: 'provider'; readonly provider: string; readonly privileges: string | null }
  /** `token` is sealed ({@link SealedTokens}): the API server is asked about it again. */
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
/** Maximum size of an unpacked token, in bytes; longer ones are not accepted as credentials either. */
const MAX_TOKEN = 16_384;

/**
 * Seals tokens of the Kubernetes cluster into sessions (AES-256-GCM, bound to the session's user), so that every replica
 * can ask again if the token is still valid, and a reader of the session does not get the token.
 */
export class SealedTokens {
  readonly #keyring: SessionKeyring;

  constructor(keyring: SessionKeyring) {
    this.#keyring = keyring;
  }

  /** The sealed token in base64url. */
  async seal(token: string, user: string): Promise<string> {
    const [keys] = await this.#keyring();
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, keyOf(keys), iv).setAAD(Buffer.from(user));
    const sealed = Buffer.concat([cipher.update(deflateRawSync(token)), cipher.final()]);
    return Buffer.concat([iv, sealed, cipher.getAuthTag()]).toString('base64url');
  }

  /** The token; null if the text was not sealed for this user. */
  async open(text: string, user: string): Promise<string | null> {
    const bytes = Buffer.from(text, 'base64url');
    if (bytes.length <= IV_BYTES + TAG_BYTES) return null;
    for (const keys of await this.#keyring()) {
      try {
        const decipher = createDecipheriv(CIPHER, keyOf(keys), bytes.subarray(0, IV_BYTES))
          .setAAD(Buffer.from(user))
          .setAuthTag(bytes.subarray(-TAG_BYTES));
        const packed = Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
        return inflateRawSync(packed, { maxOutputLength: MAX_TOKEN }).toString();
      } catch {
        // Sealed with other keys, or not by a gateway.
      }
    }
    return null;
  }
}

function keyOf({ seal }: SessionKeys): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', seal, '', 'engine-gateway tokens in sessions', 32));
}
