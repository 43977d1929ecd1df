import { createHash, createPublicKey, type KeyObject, sign as signBytes } from 'node:crypto';

/** Signature algorithms of keys for tokens (RFC 7518 §3.1). */
export type SignatureAlgorithm = 'RS256' | 'ES256' | 'ES384' | 'ES512';

/** Algorithms of elliptic curves by their name in OpenSSL (RFC 7518 §3.4). */
const CURVES: ReadonlyMap<string | undefined, SignatureAlgorithm> = new Map([
  ['prime256v1', 'ES256'],
  ['secp384r1', 'ES384'],
  ['secp521r1', 'ES512'],
]);

/** Minimum RSA modulus in bits for RS256 (RFC 7518 §3.3). */
export const MIN_RSA_BITS = 2048;

export const USABLE_KEYS = `must hold an RSA key of at least ${MIN_RSA_BITS} bits, or an EC key of P-256, P-384 or P-521`;

/** Signature algorithm of a key; null for unsupported keys. */
export function signatureAlgorithm({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): SignatureAlgorithm | null {
  if (asymmetricKeyType === 'ec') return CURVES.get(asymmetricKeyDetails?.namedCurve) ?? null;
  const bits = asymmetricKeyDetails?.modulusLength ?? 0;
  return asymmetricKeyType === 'rsa' && bits >= MIN_RSA_BITS ? 'RS256' : null;
}

/** A public key in a JWKS (RFC 7517 §4). */
export type PublishedKey = Readonly<Record<string, string>> & { readonly kid: string };

export interface SigningKey {
  readonly published: PublishedKey;
  /** Returns a token in compact form with these claims (RFC 7519). */
  sign(claims: Readonly<Record<string, unknown>>): string;
}

/**
 * A public key for a JWKS.
 * @param kid its id; null: the thumbprint of the key (RFC 7638)
 */
export function publishedKey(key: KeyObject, kid: string | null): PublishedKey {
  const jwk = key.export({ format: 'jwk' }) as Readonly<Record<string, string>>;
  const members = jwk.kty === 'EC' ? ['crv', 'kty', 'x', 'y'] : ['e', 'kty', 'n'];
  const required = JSON.stringify(Object.fromEntries(members.map((name) => [name, jwk[name]])));
  const thumbprint = createHash('sha256').update(required).digest('base64url');
  return { ...jwk, kid: kid ?? thumbprint, use: 'sig', alg: signatureAlgorithm(key) ?? '' };
}

/**
 * Creates a signing key from a supported private key.
 * @param kid see `publishedKey`
 */
export function signingKey(key: KeyObject, kid: string | null): SigningKey {
  const published = publishedKey(createPublicKey(key as never), kid);
  const { alg = '' } = published;
  const head = base64Json({ alg, typ: 'JWT', kid: published.kid });
  const hash = `sha${alg.slice(2)}`;
  return {
    published,
    sign(claims) {
      const signed = `${head}.${base64Json(claims)}`;
      // RFC 7518 §3.4: both numbers of the signature concatenated, not in DER.
      const signature = signBytes(hash, Buffer.from(signed), { key, dsaEncoding: 'ieee-p1363' });
      return `${signed}.${signature.toString('base64url')}`;
    },
  };
}

function base64Json(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}
