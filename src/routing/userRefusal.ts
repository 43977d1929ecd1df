import type { RequestUser } from '../model/requestUser.ts';
import type { Refusal } from './refusal.ts';

/** The rejection of a request with a user that the user mapping rejects; null for others. */
export function userRefusal({ refusal }: RequestUser): Refusal | null {
  return refusal === undefined ? null : { reason: 'user_mapping', message: refusal, queryId: null };
}
