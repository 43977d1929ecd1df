/** A count; a dash where nothing counts. */
export function counted(count: number | null): string {
  return count === null ? '–' : String(count);
}

/** A count of its limit: `3 of 10`, `3`, or `– of 10`. */
export function ofLimit(count: number | null, limit: number | undefined): string {
  return limit === undefined ? counted(count) : `${counted(count)} of ${limit}`;
}
