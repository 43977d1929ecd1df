import { createRemoteJWKSet, errors, type JWTPayload, jwtVerify } from 'jose';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { Claims } from './jwtClaims.ts';
import { EXCHANGE_MEMORY_MS, FAILURE_MEMORY_MS } from './tokenExchange.ts';
import { type Remembered, TokenMemory } from './tokenMemory.ts';
import type { UserMetrics } from './userMetrics.ts';

/** Time after which fetching keys counts as failed. */
const KEYS_TIMEOUT_MS = 5_000;
/** Time that keys are used before they are fetched again. */
const KEYS_MAX_AGE_MS = 10 * 60_000;
/** Difference of clocks that is let pass, in seconds. */
const CLOCK_TOLERANCE_S = 30;
/** Time that is remembered that the keys could not be had. */
const KEYS_FAILURE_MEMORY_MS = 5_000;
const LIMITS = { entries: 10_000, inFlight: 256 } as const;

/** What verification needs (`requestAnalyzerConfig.jwksUrl`, `issuer`, `audience`). */
export interface JwtVerifierOptions {
  readonly jwksUrl: string;
  /** Issuer that tokens must name; null for any. */
  readonly issuer: string | null;
  /** Audience that tokens must name; null for any. */
  readonly audience: string | null;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: UserMetrics;
}

/** Claims of a token that was verified; null when it was not accepted. */
export interface Verified {
  readonly claims: Claims | null;
}

const unverified: Verified = { claims: null };

/**
 * Verifies JWTs by the keys of a JWKS endpoint: signature, expiry, issuer and audience. Remembers what it verified until
 * the token expires, at most 10 minutes, and what failed 30 seconds.
 */
export class JwtVerifier {
  readonly #options: JwtVerifierOptions;
  readonly #memory: TokenMemory<Verified>;
  readonly #keys: ReturnType<typeof createRemoteJWKSet>;

  constructor(options: JwtVerifierOptions) {
    this.#options = options;
    this.#memory = new TokenMemory<Verified>(LIMITS, options.clock);
    this.#keys = createRemoteJWKSet(new URL(options.jwksUrl), {
      timeoutDuration: KEYS_TIMEOUT_MS,
      cacheMaxAge: KEYS_MAX_AGE_MS,
    });
  }

  /** Claims of a token, if it is genuine; at once when it is remembered. Never rejects. */
  verify(token: string): Verified | Promise<Verified> {
    return this.#memory.get(token, () => this.#verify(token), unverified);
  }

  async #verify(token: string): Promise<Remembered<Verified>> {
    const { clock, issuer, audience, logger, metrics, jwksUrl } = this.#options;
    try {
      const { payload } = await jwtVerify(token, this.#keys, {
        clockTolerance: CLOCK_TOLERANCE_S,
        currentDate: new Date(clock.now()),
        ...(issuer === null ? {} : { issuer }),
        ...(audience === null ? {} : { audience }),
      });
      metrics.token('verification', 'accepted');
      return { answer: { claims: payload as Claims }, forMs: this.#lifetime(payload) };
    } catch (error) {
      const code = error instanceof errors.JOSEError ? error.code : null;
      const ownFault =
        code === null || code === 'ERR_JWKS_TIMEOUT' || code === 'ERR_JWKS_INVALID' || code === 'ERR_JOSE_GENERIC';
      metrics.token('verification', ownFault ? 'failed' : 'refused');
      if (ownFault) logger.warn({ jwksUrl, reason: code ?? (error as Error).name }, 'the keys of JWTs cannot be had');
      return { answer: unverified, forMs: ownFault ? KEYS_FAILURE_MEMORY_MS : FAILURE_MEMORY_MS };
    }
  }

  /** Time that a verified token is believed without looking again. */
  #lifetime(payload: JWTPayload): number {
    if (payload.exp === undefined) return EXCHANGE_MEMORY_MS;
    const left = (payload.exp + CLOCK_TOLERANCE_S) * 1000 - this.#options.clock.now();
    return Math.max(0, Math.min(EXCHANGE_MEMORY_MS, left));
  }
}
