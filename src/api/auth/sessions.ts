import { randomBytes, randomUUID } from 'node:crypto';
import { jwtVerify, SignJWT } from 'jose';
import type { Clock } from '../../model/clock.ts';
import type { Revocations } from './revocations.ts';
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
