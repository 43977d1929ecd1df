import { errors, jwtVerify } from 'jose';
import { CLOCK_TOLERANCE_S, type TokenIssuer } from '../../gateway/user/tokenIssuer.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import { signatureAlgorithms } from '../../model/signatureAlgorithms.ts';
import type { TokenAuthority } from './issuedTokens.ts';
import type { LoginProvider } from './oidcLogin.ts';
import { providerAway } from './oidcProvider.ts';
import type { RoleMapping } from './privileges.ts';
import { type ClaimRules, userOfClaims } from './providerClaims.ts';

/** Bearer tokens that an OpenID provider of logins issued as JWTs: id tokens or access tokens (RFC 9068). */
export function providerTokens({ name, rolesOf, provider, rules }: LoginProvider, clock: Clock): TokenAuthority {
  return {
    ...{ name, rolesOf },
    isNamed: (issuer) => withoutSlash(issuer) === withoutSlash(provider.options.issuer),
    verify: async (token) => {
      const issuer = (await provider.configuration()).serverMetadata().issuer;
      const keys = await provider.keys();
      try {
        const { payload } = await jwtVerify(token, keys, {
          algorithms: [...signatureAlgorithms],
          issuer,
          requiredClaims: ['exp', 'aud'],
          clockTolerance: CLOCK_TOLERANCE_S,
          currentDate: new Date(clock.now()),
        });
        return userOfClaims(payload, rules);
      } catch (error) {
        if (error instanceof errors.JWTExpired) return 'The token has run out.';
        if (error instanceof errors.JWKSTimeout || !(error instanceof errors.JOSEError)) throw providerAway(error);
        // jose reports "Expected 200 OK" if the keys could not be fetched.
        if (error.code === 'ERR_JOSE_GENERIC') throw providerAway(error);
        return 'The token is not a valid one of the provider.';
      }
    },
  };
}

/** Discovery returns the issuer with or without the slash that the configuration has. */
function withoutSlash(issuer: string): string {
  return issuer.replace(/\/$/, '');
}

/** Bearer tokens of an issuer of programs' tokens (`authentication.tokenIssuers`), at which users cannot log in. */
export function apiTokens(name: string, issuer: TokenIssuer, rules: ClaimRules, rolesOf: RoleMapping): TokenAuthority {
  return {
    ...{ name, rolesOf },
    isNamed: (named) => named === issuer.settings.issuer,
    verify: async (token) => {
      const verified = await issuer.verify(token);
      if (verified.kind === 'accepted') return userOfClaims(verified.claims, rules);
      if (verified.kind === 'refused') return verified.why;
      const message = `The keys of the issuer ${name} cannot be had (authentication.tokenIssuers.${name}); try again soon.`;
      throw new GatewayError('EG_IDENTITY_UNAVAILABLE', message, { cause: verified.cause });
    },
  };
}
