import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { noUser, type RequestUser } from '../../model/requestUser.ts';
import { credentialsOf } from './credentials.ts';
import { type Claims, unverifiedClaims } from './jwtClaims.ts';
import { FAILURE_MEMORY_MS, type TokenCounter } from './tokenIssuer.ts';
import { type TimedResponse, TokenMemory } from './tokenMemory.ts';
import { byTokenReview, EvidentUser } from './userEvidence.ts';
import { userName } from './userName.ts';

/** Settings `requestAnalyzerConfig.kubernetesTokens` (docs/request-user.md#kubernetes). */
export interface KubernetesTokenSettings {
  readonly audiences: readonly string[];
  /** Cache time of the API server's response, milliseconds. */
  readonly cacheDuration: number;
  readonly forward: boolean;
}

/**
 * Requests a TokenReview from the API server, with its own timeout. Null: not authenticated. A rejection means that it
 * is unavailable.
 */
export type ReviewToken = (
  token: string,
) => Promise<{ readonly name: string; readonly groups: readonly string[] } | null>;

const MAX_IN_FLIGHT = 16;
const UNAVAILABLE_MEMORY_MS = 2_000;

/**
 * Users of service account tokens by TokenReview of the API server. Tokens are stored as hashes, and results cached no
 * longer than the token is valid.
 */
export class KubernetesTokens {
  readonly #settings: KubernetesTokenSettings;
  readonly #review: ReviewToken;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #count: TokenCounter;
  readonly #memory: TokenMemory<RequestUser>;

  constructor(
    settings: KubernetesTokenSettings,
    review: ReviewToken,
    clock: Clock,
    logger: Logger,
    count: TokenCounter,
  ) {
    this.#settings = settings;
    this.#review = review;
    this.#clock = clock;
    this.#logger = logger;
    this.#count = count;
    this.#memory = new TokenMemory(MAX_IN_FLIGHT, clock);
  }

  /**
   * The user of a token; synchronously if cached. Never rejects. Null: not a service account token for the audiences.
   */
  user(token: string, claims: Claims): RequestUser | Promise<RequestUser> | null {
    if (!isServiceAccountToken(claims, this.#settings.audiences)) return null;
    const { exp } = claims;
    if (typeof exp !== 'number' || exp * 1000 <= this.#clock.now()) return noUser;
    return this.#memory.get(token, () => this.#ask(token, exp * 1000), noUser);
  }

  async #ask(token: string, end: number): Promise<TimedResponse<RequestUser>> {
    try {
      const identity = await this.#review(token);
      const name = userName(identity?.name);
      this.#count('review', name === null ? 'refused' : 'accepted');
      if (identity === null || name === null) return { answer: noUser, forMs: FAILURE_MEMORY_MS };
      const forMs = Math.min(this.#settings.cacheDuration, end - this.#clock.now());
      return { answer: new EvidentUser(name, byTokenReview(identity.groups)), forMs };
    } catch (error) {
      this.#count('review', 'failed');
      const reason = error instanceof Error ? error.message : String(error);
      this.#logger.warn({ reason }, 'failed to review service account token; request has no user');
      return { answer: noUser, forMs: UNAVAILABLE_MEMORY_MS };
    }
  }
}

/**
 * True if headers contain a service account token for the audiences, valid or not.
 * @param authorization value of the header
 */
export function holdsServiceAccountToken(authorization: string, audiences: readonly string[]): boolean {
  const token = credentialsOf(authorization, 'bearer');
  const claims = token === null ? null : unverifiedClaims(token);
  return claims !== null && isServiceAccountToken(claims, audiences);
}

function isServiceAccountToken(claims: Claims, audiences: readonly string[]): boolean {
  if (!('kubernetes.io' in claims)) return false;
  return [claims.aud].flat().some((audience) => typeof audience === 'string' && audiences.includes(audience));
}
