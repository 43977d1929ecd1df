import { storedClusterUrl } from '../../model/clusterUrl.ts';
import type { RegistryCluster } from '../../model/registryCluster.ts';
import type { BackendRow } from '../../store/store.ts';

/** Fields of a cluster that a row has, as resources and the REST API name them. */
export const clusterFields = ['active', 'routingGroup', 'proxyTo', 'externalUrl'] as const;
export type ClusterField = (typeof clusterFields)[number];

/** A field that another program wrote into the row of a cluster. */
export interface FieldChange {
  readonly field: ClusterField;
  /** Its value in the row. */
  readonly row: string | boolean;
  /** Its value by the resource. */
  readonly resource: string | boolean;
  /** The resource has changed it as well since the last projection. */
  readonly overruled: boolean;
}

/** What another program did to the row of a cluster since it was projected last. */
export type RowChange =
  | { readonly kind: 'deleted'; readonly overruled: boolean }
  /** Without fields: only the form differs, such as a slash at the end of a URL. */
  | { readonly kind: 'changed'; readonly fields: readonly FieldChange[] };

/**
 * Compares three ways what was projected last, the row as it is, and what the resource gives now. Pure.
 * @param present null: the row was deleted
 */
export function rowChange(projected: BackendRow, present: BackendRow | null, wanted: BackendRow): RowChange {
  const base = registryClusterOf(projected);
  const ours = registryClusterOf(wanted);
  if (present === null)
    return { kind: 'deleted', overruled: clusterFields.some((field) => base[field] !== ours[field]) };
  const theirs = registryClusterOf(present);
  const fields = clusterFields
    .filter((field) => theirs[field] !== base[field] && theirs[field] !== ours[field])
    .map((field) => ({
      field,
      row: theirs[field],
      resource: ours[field],
      overruled: ours[field] !== base[field],
    }));
  return { kind: 'changed', fields };
}

/** A row as the registry shows it, whatever the form of its URLs. */
export function registryClusterOf(row: BackendRow): RegistryCluster {
  const proxyTo = storedClusterUrl(row.proxyTo);
  return { ...row, proxyTo, externalUrl: row.externalUrl === '' ? proxyTo : storedClusterUrl(row.externalUrl) };
}
