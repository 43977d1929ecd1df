import { errors, jwtVerify } from 'jose';
import type { Clock } from '../../model/clock.ts';
import { IssuerKeys, isKeysFailure } from './issuerKeys.ts';
import type { Claims } from './jwtClaims.ts';
import { missingClaim } from './requiredClaims.ts';

export const CLOCK_TOLERANCE_S = 30;

export interface TokenIssuerSettings {
  /** The `iss` of its tokens; null: any, only for a single set of keys. */
  readonly issuer: string | null;
  /** Null: discovered from the issuer. */
  readonly jwksUrl: string | null;
  /** Accepted audiences; null: any. */
  readonly audiences: readonly string[] | null;
  readonly algorithms: readonly string[];
  readonly requiredClaims: Readonly<Record<string, string>>;
  /** True rejects tokens without expiry. */
  readonly mustExpire: boolean;
}

export type TokenVerification =
  | { readonly kind: 'accepted'; readonly claims: Claims }
  /** `why` is a sentence for users, without content of the token. */
  | { readonly kind: 'refused'; readonly why: string }
  /** `reason` is a code or a name. */
  | { readonly kind: 'unavailable'; readonly reason: string; readonly cause: unknown };

/**
 * Verifies JWTs of one issuer with its keys: algorithm, signature, issuer, times, audience and further claims (RFC
 * 8725). Key ids are only valid within the issuer's keys.
 */
export class TokenIssuer {
  readonly settings: TokenIssuerSettings;
  readonly #keys: IssuerKeys;
  readonly #clock: Clock;

  constructor(settings: TokenIssuerSettings, clock: Clock) {
    this.settings = settings;
    this.#keys = new IssuerKeys({ ...settings, clock });
    this.#clock = clock;
  }

  /** Never rejects. */
  async verify(token: string): Promise<TokenVerification> {
    const { issuer, audiences, algorithms, requiredClaims, mustExpire } = this.settings;
    try {
      const { payload } = await jwtVerify(token, this.#keys.get, {
        algorithms: [...algorithms],
        clockTolerance: CLOCK_TOLERANCE_S,
        currentDate: new Date(this.#clock.now()),
        requiredClaims: mustExpire ? ['exp'] : [],
        ...(issuer === null ? {} : { issuer }),
        ...(audiences === null ? {} : { audience: [...audiences] }),
      });
      const missing = missingClaim(payload, requiredClaims);
      if (missing !== null)
        return { kind: 'refused', why: `The token lacks the required value of its claim ${missing}.` };
      return { kind: 'accepted', claims: payload };
    } catch (error) {
      if (isKeysFailure(error)) {
        const reason = error instanceof errors.JOSEError ? error.code : error instanceof Error ? error.name : 'unknown';
        return { kind: 'unavailable', reason, cause: error };
      }
      return { kind: 'refused', why: whyRefused(error) };
    }
  }
}

function whyRefused(error: unknown): string {
  if (error instanceof errors.JWTExpired) return 'The token has run out.';
  if (error instanceof errors.JWTClaimValidationFailed && error.claim === 'aud') {
    return 'The token is meant for another audience.';
  }
  return 'The token is not a valid one of its issuer.';
}
