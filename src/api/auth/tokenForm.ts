import { decodeJwt, decodeProtectedHeader } from 'jose';
import { signatureAlgorithms } from '../../model/signatureAlgorithms.ts';

/** Local expectations of Kubernetes tokens, checked before a call of the API server. */
export interface TokenExpectations {
  /** `authentication.kubernetes.audiences`; null: the API server's own, which are not known here. */
  readonly audiences: readonly string[] | null;
  /** True if tokens that are not JWTs may be ones of the cluster. */
  readonly opaqueTokens: boolean;
}

export interface PlausibleToken {
  /** End by its own words, milliseconds since 1970; null if it has none. */
  readonly expires: number | null;
}

/** Difference to the API server's clock that is forgiven, in milliseconds. */
const TOLERANCE_MS = 60_000;

const jwtForm = /^[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}$/;

/**
 * Looks at a token without asking anybody: its form, its algorithm, its end, and the audience of tokens of service
 * accounts. Nothing of it is believed; it only keeps what cannot be right from the API server.
 * @param now milliseconds since 1970
 * @returns why the API server would not take it, as a sentence
 */
export function plausibleToken(
  token: string,
  { audiences, opaqueTokens }: TokenExpectations,
  now: number,
): PlausibleToken | string {
  if (!jwtForm.test(token)) {
    return opaqueTokens
      ? { expires: null }
      : 'The token is not a JWT; clusters with other tokens need authentication.kubernetes.opaqueTokens: true.';
  }
  let claims: Readonly<Record<string, unknown>>;
  try {
    const algorithm = decodeProtectedHeader(token).alg;
    if (!signatureAlgorithms.some((name) => name === algorithm)) return 'The token is not signed.';
    claims = decodeJwt(token);
  } catch {
    return 'The token is not a JWT that can be read.';
  }
  const { exp, aud } = claims;
  if (exp !== undefined && typeof exp !== 'number') return 'The token is not a JWT that can be read.';
  if (exp !== undefined && exp * 1000 + TOLERANCE_MS <= now) return 'The token has expired.';
  // Other issuers' audiences are a matter of the API server's own configuration.
  if (audiences !== null && 'kubernetes.io' in claims && aud !== undefined) {
    const named = [aud].flat();
    if (!audiences.some((audience) => named.includes(audience))) return 'The token is for another audience.';
  }
  return { expires: exp === undefined ? null : exp * 1000 };
}
