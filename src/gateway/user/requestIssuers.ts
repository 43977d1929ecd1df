import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { signatureAlgorithms } from '../../model/signatureAlgorithms.ts';
import type { Claims } from './jwtClaims.ts';
import { JwtVerifier } from './jwtVerifier.ts';
import { TokenIssuer, type TokenIssuerSettings } from './tokenIssuer.ts';
import type { UserMetrics } from './userMetrics.ts';
import { UserNamespace, userPrefixOf } from './userNamespace.ts';

/** `requestAnalyzerConfig.tokenIssuers.{name}`. */
export interface RequestTokenIssuer extends Omit<TokenIssuerSettings, 'mustExpire'> {
  readonly issuer: string;
  /** Claim that holds the user's name; null: `requestAnalyzerConfig.tokenUserField`. */
  readonly tokenUserField: string | null;
  /** What stands before the names of its users and groups; null: its name and a slash. */
  readonly userPrefix: string | null;
  readonly groupPrefix: string | null;
}

/** How tokens of requests are verified (`requestAnalyzerConfig`). */
export interface RequestIssuerSettings {
  readonly tokenUserField: string;
  /** Keys of a single issuer; null for none. */
  readonly jwksUrl: string | null;
  /** Its `iss` and its audience; null for any. */
  readonly issuer: string | null;
  readonly audience: string | null;
  /** Further issuers by name; left out for none. */
  readonly tokenIssuers?: Readonly<Record<string, RequestTokenIssuer>>;
  /** Whether claims count as they stand: for requests that are only described. */
  readonly believesClaims?: boolean;
}

/** Names of users and groups that one issuer can give. */
export interface IssuerNames {
  readonly users: UserNamespace;
  /** Null: any, as there are no other issuers. */
  readonly groups: UserNamespace | null;
}

/** How the users and groups of one issuer's tokens are named. */
export interface RequestIssuer extends IssuerNames {
  readonly userField: string;
  /** Null: claims are believed. */
  readonly verifier: JwtVerifier | null;
}

/** What the issuers are given. */
export interface RequestIssuersDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: UserMetrics;
}

/** Time between two warnings about tokens of unknown issuers, in milliseconds. */
const WARNING_PAUSE_MS = 60_000;
/** Longest issuer that the log repeats, in characters. */
const LONGEST_NAME = 200;

/** Makes the names of one issuer of these, by its prefix. */
function issuerNames(
  issuers: Readonly<Record<string, RequestTokenIssuer>>,
  key: 'userPrefix' | 'groupPrefix',
): (prefix: string) => UserNamespace {
  const prefixes = Object.entries(issuers).map(([name, issuer]) => userPrefixOf(name, issuer[key]));
  return (prefix) => new UserNamespace(prefix, prefixes);
}

/** Names that a source of users beside these issuers can give. */
export function namesWithoutPrefix(issuers: Readonly<Record<string, RequestTokenIssuer>>): IssuerNames {
  return {
    users: issuerNames(issuers, 'userPrefix')(''),
    groups: Object.keys(issuers).length === 0 ? null : issuerNames(issuers, 'groupPrefix')(''),
  };
}

/**
 * The issuers of tokens that name users (docs/request-user.md#several-issuers): the `iss` of a token says whose it is, and no
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

  /** The issuer of a token with these claims, none of which is believed yet; null: its tokens are not accepted. */
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
    const issuer = typeof iss === 'string' ? iss.slice(0, LONGEST_NAME) : null;
    logger.warn(
      { issuer },
      'a JWT names an issuer that is not one of requestAnalyzerConfig.tokenIssuers: its user is not recognised; add it there, or have clients send tokens of those',
    );
  }
}
