import type { RequestUser } from '../model/requestUser.ts';
import type { Refusal } from './refusal.ts';

/** The refusal of a request in the name of a user whom the user mapping refuses; null for others. */
export function userRefusal({ refusal }: RequestUser): Refusal | null {
  return refusal === undefined ? null : { reason: 'user_mapping', message: refusal, queryId: null };
}
