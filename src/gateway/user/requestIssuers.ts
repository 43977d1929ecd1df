import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { signatureAlgorithms } from '../../model/signatureAlgorithms.ts';
import type { Claims } from './jwtClaims.ts';
import { JwtVerifier } from './jwtVerifier.ts';
import { TokenIssuer, type TokenIssuerSettings } from './tokenIssuer.ts';
import type { UserMetrics } from './userMetrics.ts';
import { UserNamespace, userPrefixOf } from './userNamespace.ts';

/** Settings `requestAnalyzerConfig.tokenIssuers.{name}`. */
export interface RequestTokenIssuer extends Omit<TokenIssuerSettings, 'mustExpire'> {
  readonly issuer: string;
  /** Claim with the user's name; null: `requestAnalyzerConfig.tokenUserField`. */
  readonly tokenUserField: string | null;
  /** Prefix of its users and groups; null: its name and a slash. */
  readonly userPrefix: string | null;
  readonly groupPrefix: string | null;
}

/** Settings of token verification (`requestAnalyzerConfig`). */
export interface RequestIssuerSettings {
  readonly tokenUserField: string;
  /** Keys of a single issuer, or null. */
  readonly jwksUrl: string | null;
  /** Its `iss` and its audience; null for any. */
  readonly issuer: string | null;
  readonly audience: string | null;
  readonly tokenIssuers?: Readonly<Record<string, RequestTokenIssuer>>;
  /** True trusts claims without verification, for described requests. */
  readonly believesClaims?: boolean;
}

export interface IssuerNames {
  readonly users: UserNamespace;
  /** Null: any, as there are no other issuers. */
  readonly groups: UserNamespace | null;
}

/** Names and verifier of one issuer's tokens. */
export interface RequestIssuer extends IssuerNames {
  readonly userField: string;
  /** Null: claims are trusted. */
  readonly verifier: JwtVerifier | null;
}

export interface RequestIssuersDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: UserMetrics;
}

/** Minimum interval of warnings about tokens of unknown issuers, in milliseconds. */
const WARNING_PAUSE_MS = 60_000;
/** Maximum length of a logged issuer, in characters. */
const MAX_NAME_LENGTH = 200;

function issuerNames(
  issuers: Readonly<Record<string, RequestTokenIssuer>>,
  key: 'userPrefix' | 'groupPrefix',
): (prefix: string) => UserNamespace {
  const prefixes = Object.entries(issuers).map(([name, issuer]) => userPrefixOf(name, issuer[key]));
  return (prefix) => new UserNamespace(prefix, prefixes);
}

/** Names that a source of users without an issuer can give. */
export function namesWithoutPrefix(issuers: Readonly<Record<string, RequestTokenIssuer>>): IssuerNames {
  return {
    users: issuerNames(issuers, 'userPrefix')(''),
    groups: Object.keys(issuers).length === 0 ? null : issuerNames(issuers, 'groupPrefix')(''),
  };
}

/**
 * The issuers of tokens that identify users (docs/request-user.md#several-issuers): selected by the token's `iss`; no
 * other issuer's keys are tried.
 */
export class RequestIssuers {
  readonly #byIssuer: ReadonlyMap<string, RequestIssuer>;
  readonly #only: RequestIssuer | null;
  readonly #onlyIssuer: string | null;
  readonly #dependencies: RequestIssuersDependencies;
  #warned = Number.NEGATIVE_INFINITY;

  constructor(settings: RequestIssuerSettings, dependencies: RequestIssuersDependencies) {
    const { jwksUrl, issuer, audience, tokenUserField, tokenIssuers = {}, believesClaims = false } = settings;
    const { clock } = dependencies;
    const users = issuerNames(tokenIssuers, 'userPrefix');
    const groups = issuerNames(tokenIssuers, 'groupPrefix');
    const verifier = (name: string, tokens: TokenIssuerSettings) =>
      believesClaims ? null : new JwtVerifier({ name, issuer: new TokenIssuer(tokens, clock), ...dependencies });
    this.#dependencies = dependencies;
    this.#byIssuer = new Map(
      Object.entries(tokenIssuers).map(([name, each]): [string, RequestIssuer] => [
        each.issuer,
        {
          userField: each.tokenUserField ?? tokenUserField,
          users: users(userPrefixOf(name, each.userPrefix)),
          groups: groups(userPrefixOf(name, each.groupPrefix)),
          verifier: verifier(name, { ...each, mustExpire: true }),
        },
      ]),
    );
    this.#onlyIssuer = issuer;
    const tokens: TokenIssuerSettings = {
      ...{ issuer, jwksUrl, requiredClaims: {}, mustExpire: false, algorithms: signatureAlgorithms },
      audiences: audience === null ? null : [audience],
    };
    const only = { userField: tokenUserField, ...namesWithoutPrefix(tokenIssuers) };
    if (jwksUrl !== null) this.#only = { ...only, verifier: verifier('', tokens) };
    else this.#only = this.#byIssuer.size === 0 ? { ...only, verifier: null } : null;
  }

  /** The issuer of a token with these unverified claims; null: its tokens are rejected. */
  of(claims: Claims): RequestIssuer | null {
    const { iss } = claims;
    if (this.#byIssuer.size === 0) return this.#only;
    const named = typeof iss === 'string' ? this.#byIssuer.get(iss) : undefined;
    if (named !== undefined) return named;
    if (this.#only !== null && iss === this.#onlyIssuer) return this.#only;
    this.#refuse(iss);
    return null;
  }

  #refuse(iss: unknown): void {
    const { clock, logger, metrics } = this.#dependencies;
    metrics.token('verification', 'refused');
    const now = clock.monotonic();
    if (now - this.#warned < WARNING_PAUSE_MS) return;
    this.#warned = now;
    const issuer = typeof iss === 'string' ? iss.slice(0, MAX_NAME_LENGTH) : null;
    logger.warn(
      { issuer },
      'a JWT names an issuer that is not one of requestAnalyzerConfig.tokenIssuers: its user is not recognised; add it there, or have clients send tokens of those',
    );
  }
}
