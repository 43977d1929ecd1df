/** A count; a dash if unknown. */
export function counted(count: number | null): string {
  return count === null ? '–' : String(count);
}

/** A count with its limit: `3 of 10`, `3`, or `– of 10`. */
export function ofLimit(count: number | null, limit: number | undefined): string {
  return limit === undefined ? counted(count) : `${counted(count)} of ${limit}`;
}
