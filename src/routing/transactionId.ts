/** Engines send UUIDs; other text does not identify a transaction. */
const form = /^[0-9A-Za-z-]{8,64}$/;

/**
 * The id of a transaction in a header's value, or null. Clients of the statement protocol send `NONE` outside of
 * transactions.
 */
export function transactionIdOf(value: unknown): string | null {
  return typeof value === 'string' && form.test(value) ? value : null;
}
