import { storedClusterUrl } from '../model/clusterAddresses.ts';
import type { BackendRow } from './store.ts';

/** Fields of a row that may differ between two of one name. */
const rowFields = ['active', 'routingGroup', 'proxyTo', 'externalUrl'] as const;

/** A field of a row of `gateway_backend` that another program changed. */
export interface FieldChange {
  readonly field: (typeof rowFields)[number];
  /** Its value in the row. */
  readonly row: string | boolean;
  /** Its value before, as the resource has it. */
  readonly resource: string | boolean;
}

/** Returns the fields in which a row differs from how it was written last, whatever the form of its URLs. Pure. */
export function rowChanges(written: BackendRow, present: BackendRow): readonly FieldChange[] {
  if (rowFields.every((field) => written[field] === present[field])) return [];
  const [before, after] = [comparable(written), comparable(present)];
  return rowFields
    .filter((field) => before[field] !== after[field])
    .map((field) => ({ field, row: after[field], resource: before[field] }));
}

/** A row with its URLs in the form in which the gateway writes them. */
export function comparable(row: BackendRow): BackendRow {
  const proxyTo = storedClusterUrl(row.proxyTo);
  return { ...row, proxyTo, externalUrl: row.externalUrl === '' ? proxyTo : storedClusterUrl(row.externalUrl) };
}
