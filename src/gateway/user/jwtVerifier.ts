import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { Claims } from './jwtClaims.ts';
import { EXCHANGE_MEMORY_MS, FAILURE_MEMORY_MS } from './tokenExchange.ts';
import { CLOCK_TOLERANCE_S, type TokenIssuer } from './tokenIssuer.ts';
import { type Remembered, TokenMemory } from './tokenMemory.ts';
import type { UserMetrics } from './userMetrics.ts';

const KEYS_FAILURE_MEMORY_MS = 5_000;
const LIMITS = { entries: 10_000, inFlight: 256 } as const;

export interface JwtVerifierOptions {
  /** Name in `requestAnalyzerConfig.tokenIssuers`; empty for `requestAnalyzerConfig.jwksUrl`. */
  readonly name: string;
  readonly issuer: TokenIssuer;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: UserMetrics;
}

/** Claims of a verified token; null if it was rejected. */
export interface Verified {
  readonly claims: Claims | null;
}

const unverified: Verified = { claims: null };

/**
 * Verifies JWTs of one issuer. Caches successes until the token expires, at most 10 minutes, and failures for 30
 * seconds.
 */
export class JwtVerifier {
  readonly #options: JwtVerifierOptions;
  readonly #memory: TokenMemory<Verified>;

  constructor(options: JwtVerifierOptions) {
    this.#options = options;
    this.#memory = new TokenMemory<Verified>(LIMITS, options.clock);
  }

  /** Claims of a token, if it is valid; synchronously if cached. Never rejects. */
  verify(token: string): Verified | Promise<Verified> {
    return this.#memory.get(token, () => this.#verify(token), unverified);
  }

  async #verify(token: string): Promise<Remembered<Verified>> {
    const { name, issuer, logger, metrics } = this.#options;
    const verified = await issuer.verify(token);
    switch (verified.kind) {
      case 'accepted':
        metrics.token('verification', 'accepted', name);
        return { answer: { claims: verified.claims }, forMs: this.#lifetime(verified.claims) };
      case 'refused':
        metrics.token('verification', 'refused', name);
        return { answer: unverified, forMs: FAILURE_MEMORY_MS };
      case 'unavailable': {
        metrics.token('verification', 'failed', name);
        const { jwksUrl, issuer: iss } = issuer.settings;
        logger.warn({ issuer: iss, jwksUrl, reason: verified.reason }, 'the keys of JWTs cannot be had');
        return { answer: unverified, forMs: KEYS_FAILURE_MEMORY_MS };
      }
    }
  }

  #lifetime({ exp }: Claims): number {
    if (typeof exp !== 'number') return EXCHANGE_MEMORY_MS;
    const left = (exp + CLOCK_TOLERANCE_S) * 1000 - this.#options.clock.now();
    return Math.max(0, Math.min(EXCHANGE_MEMORY_MS, left));
  }
}
