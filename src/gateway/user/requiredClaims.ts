import { type Claims, claimOf } from './jwtClaims.ts';

/**
 * The first missing required claim.
 * @param required values by the name of the claim; a list must contain the value
 * @returns null if none is missing
 */
export function missingClaim(claims: Claims, required: Readonly<Record<string, string>>): string | null {
  for (const [name, value] of Object.entries(required)) {
    const values = [claimOf(claims, name)].flat();
    if (!values.some((each) => isScalar(each) && String(each) === value)) return name;
  }
  return null;
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}
