import type { BackendRow, DerivedRow } from './store.ts';

/** Fields of a row that may differ between two of one name. */
export const rowFields = ['routingGroup', 'proxyTo', 'externalUrl', 'active'] as const;
export type RowField = (typeof rowFields)[number];

/** What a projection does to the derived row of a resource, which other programs write as well. */
export interface MergedRow {
  /** What the table is to hold; null leaves the row deleted. */
  readonly row: BackendRow | null;
  /** What counts as projected last from now on. */
  readonly projected: BackendRow;
  /** Whether the row has a foreign write, which was left as it is. */
  readonly foreign: boolean;
}

/**
 * Merges three ways: a field that differs both from what was projected last and from what is projected now was written by
 * another program. It stays until the leader has settled it (docs/decisions/0020-foreign-writes.md). Pure.
 * @param projected what was projected last; null when that is not known: then the projection holds
 * @param present the row as it is; null when there is none
 * @param wanted the row that the resource gives
 */
export function mergeRow(projected: BackendRow | null, present: BackendRow | null, wanted: BackendRow): MergedRow {
  if (projected === null) return { row: wanted, projected: wanted, foreign: false };
  if (present === null) return { row: null, projected, foreign: true };
  const foreign = rowFields.filter((field) => present[field] !== projected[field] && present[field] !== wanted[field]);
  return {
    row: withFields(wanted, present, foreign),
    projected: withFields(wanted, projected, foreign),
    foreign: foreign.length > 0,
  };
}

/**
 * The same once a foreign write was settled: what the row had then is replaced by what the resource gives, and what was
 * written since is not. Pure.
 * @param settled what was decided on
 */
export function settleRow(
  projected: BackendRow | null,
  present: BackendRow | null,
  wanted: BackendRow,
  settled: DerivedRow,
): MergedRow {
  if (projected === null) return mergeRow(null, present, wanted);
  const before = settled.present;
  if (present === null || before === null) {
    const isSame = present === before && rowFields.every((field) => projected[field] === settled.projected[field]);
    return mergeRow(isSame ? null : projected, present, wanted);
  }
  // A value that comes back after a projection is another write.
  const sameFields = rowFields.filter(
    (field) => present[field] === before[field] && projected[field] === settled.projected[field],
  );
  return mergeRow(withFields(projected, present, sameFields), present, wanted);
}

/** A row with fields of another one. */
function withFields(row: BackendRow, other: BackendRow, fields: readonly RowField[]): BackendRow {
  return { ...row, ...Object.fromEntries(fields.map((field) => [field, other[field]])) };
}

/** What `eg_resources` keeps of the derived row of a resource. */
export interface KeptRow {
  /** As it was projected last. */
  readonly projected: BackendRow;
  /**
   * Values of a foreign write that is being settled: where the resource takes one over, it counts as projected. A later
   * write, also of the value before, is another one then.
   */
  readonly seen: Partial<Omit<BackendRow, 'name'>>;
  /** When it was looked at, in milliseconds since 1970 by the database's clock; 0: never. */
  readonly seenAt: number;
  /** Whether the row was missing when that was looked at: one that is there again is not the resource's. */
  readonly missing: boolean;
}

/** How long a foreign write is being settled at most, in milliseconds: later the resource has a value for other reasons. */
const SETTLING_MS = 60_000;

/** What is kept once a foreign write was looked at. */
export function seenRow(projected: BackendRow, present: BackendRow | null, seenAt: number): KeptRow {
  if (present === null) return { projected, seen: {}, seenAt, missing: true };
  const fields = rowFields.filter((field) => present[field] !== projected[field]);
  return {
    projected,
    seen: Object.fromEntries(fields.map((field) => [field, present[field]])),
    seenAt,
    missing: false,
  };
}

/** `mergeRow` after what is kept; answers what is to be kept then. Pure. */
export function mergeKept(
  kept: KeptRow | null,
  present: BackendRow | null,
  wanted: BackendRow,
): { readonly merged: MergedRow; readonly kept: KeptRow } {
  if (kept === null) {
    const merged = mergeRow(null, present, wanted);
    return { merged, kept: { projected: merged.projected, seen: {}, seenAt: 0, missing: false } };
  }
  const { projected, seen, seenAt } = kept;
  const taken = rowFields.filter((field) => field in seen && seen[field] === wanted[field]);
  const merged = mergeRow(withFields(projected, wanted, taken), present, wanted);
  const open = rowFields.filter((field) => field in seen && !taken.includes(field));
  return {
    merged,
    kept: {
      projected: merged.projected,
      seen: Object.fromEntries(open.map((field) => [field, seen[field]])),
      seenAt,
      missing: kept.missing && present === null,
    },
  };
}

/** Text that a row is kept as; the same for equal ones. */
export function keptText({ projected, seen, seenAt, missing }: KeptRow): string {
  const { name, routingGroup, proxyTo, externalUrl, active } = projected;
  const row = { name, routingGroup, proxyTo, externalUrl, active };
  const isSettling = Object.keys(seen).length > 0;
  return JSON.stringify({ ...row, ...(isSettling ? { seen, seenAt } : {}), ...(missing ? { missing } : {}) });
}

/** What such a text says. */
export function keptOfText(text: string): KeptRow {
  const { seen = {}, seenAt = 0, missing = false, ...projected } = JSON.parse(text) as BackendRow & Partial<KeptRow>;
  return { projected, seen, seenAt, missing };
}

/** What is kept at a time: a foreign write that was looked at long ago is not being settled any more. */
export function keptAt(kept: KeptRow, now: number): KeptRow {
  return now - kept.seenAt < SETTLING_MS ? kept : { ...kept, seen: {}, seenAt: 0 };
}
