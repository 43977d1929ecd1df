import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { signatureAlgorithms } from '../../model/signatureAlgorithms.ts';
import type { Claims } from './credentials.ts';
import { type JwtVerifier, jwtVerifier, type TokenCounter, type TokenIssuerSettings } from './tokens.ts';

/**
 * Names of users or groups of several issuers, separated by prefixes: an issuer cannot give the names of another
 * (docs/authentication.md#several-issuers). If one prefix begins with another, a name belongs to the longer one.
 */
export class UserNamespace {
  readonly prefix: string;
  readonly #others: readonly string[];

  /**
   * @param prefix of the issuer; empty: its names equal unprefixed names
   * @param all prefixes of all issuers, with or without its own
   */
  constructor(prefix: string, all: readonly string[]) {
    this.prefix = prefix;
    this.#others = all.filter((other) => !prefix.startsWith(other));
  }

  /** The full name of an issuer's user or group; null if it would be a name of another issuer. */
  nameOf(named: string): string | null {
    const name = this.prefix + named;
    return this.#others.some((other) => name.startsWith(other)) ? null : name;
  }
}

/** Prefix of an issuer's names: the configured one, else its name and a slash. */
export function userPrefixOf(name: string, configured: string | null): string {
  return configured ?? `${name}/`;
}

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

/** Minimum interval of warnings about tokens of unknown issuers, in milliseconds. */
const WARNING_PAUSE_MS = 60_000;
/** Maximum length of a logged issuer, in characters. */
const MAX_NAME_LENGTH = 200;

type Issuers = Readonly<Record<string, RequestTokenIssuer>>;

function namespace(issuers: Issuers, key: 'userPrefix' | 'groupPrefix', prefix: string): UserNamespace {
  return new UserNamespace(
    prefix,
    Object.entries(issuers).map(([name, issuer]) => userPrefixOf(name, issuer[key])),
  );
}

/** Names that a source of users without an issuer can give. */
export function namesWithoutPrefix(issuers: Issuers): IssuerNames {
  return {
    users: namespace(issuers, 'userPrefix', ''),
    groups: Object.keys(issuers).length === 0 ? null : namespace(issuers, 'groupPrefix', ''),
  };
}

/**
 * The issuers of tokens that identify users (docs/request-user.md#several-issuers): selected by the token's `iss`; no
 * other issuer's keys are tried.
 * @returns a function that returns the issuer of a token with unverified claims; null: its tokens are rejected
 */
export function requestIssuers(
  settings: RequestIssuerSettings,
  clock: Clock,
  logger: Logger,
  count: TokenCounter,
): (claims: Claims) => RequestIssuer | null {
  const { jwksUrl, issuer, audience, tokenUserField, tokenIssuers = {}, believesClaims = false } = settings;
  const verifier = (name: string, tokens: TokenIssuerSettings) =>
    believesClaims ? null : jwtVerifier(name, tokens, clock, logger, count);
  const byIssuer = new Map(
    Object.entries(tokenIssuers).map(([name, each]): [string, RequestIssuer] => [
      each.issuer,
      {
        userField: each.tokenUserField ?? tokenUserField,
        users: namespace(tokenIssuers, 'userPrefix', userPrefixOf(name, each.userPrefix)),
        groups: namespace(tokenIssuers, 'groupPrefix', userPrefixOf(name, each.groupPrefix)),
        verifier: verifier(name, { ...each, mustExpire: true }),
      },
    ]),
  );
  const tokens = {
    ...{ issuer, jwksUrl, requiredClaims: {}, mustExpire: false, algorithms: signatureAlgorithms },
    audiences: audience === null ? null : [audience],
  };
  const hasOnly = jwksUrl !== null || byIssuer.size === 0;
  const only: RequestIssuer | null = hasOnly
    ? {
        ...{ userField: tokenUserField, ...namesWithoutPrefix(tokenIssuers) },
        verifier: jwksUrl === null ? null : verifier('', tokens),
      }
    : null;
  let warned = Number.NEGATIVE_INFINITY;
  const noteUnknown = (iss: unknown): void => {
    count('verification', 'refused');
    const now = clock.monotonic();
    if (now - warned < WARNING_PAUSE_MS) return;
    warned = now;
    logger.warn(
      { issuer: typeof iss === 'string' ? iss.slice(0, MAX_NAME_LENGTH) : null },
      'a JWT names an issuer that is not one of requestAnalyzerConfig.tokenIssuers: its user is not recognised; add it there, or have clients send tokens of those',
    );
  };
  return ({ iss }) => {
    const named = typeof iss === 'string' ? byIssuer.get(iss) : undefined;
    if (named !== undefined) return named;
    if (byIssuer.size === 0 || (only !== null && iss === issuer)) return only;
    noteUnknown(iss);
    return null;
  };
}
