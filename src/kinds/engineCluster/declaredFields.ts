import { isDeepStrictEqual } from 'node:util';
import { DEFAULT_WEIGHT } from '../../model/strategies.ts';
import type { RoutableCluster } from '../../routing/routingTable.ts';
import { withoutSlash } from './clusterOutcome.ts';

/** A field of a cluster: what its resource declares, and what is active. */
export interface DeclaredField {
  /** Name below `spec`. */
  readonly field: string;
  /** Null: it is not declared. */
  readonly declared: unknown;
  /** Null: nothing of the cluster is active, or there is no value. */
  readonly inForce: unknown;
  readonly differs: boolean;
}

interface Field {
  readonly of: (cluster: RoutableCluster) => unknown;
  /** Value that counts as declared if absent; default: the active value. */
  readonly absent?: unknown;
  readonly applied?: (declared: unknown) => unknown;
}

const url = (text: unknown) => (typeof text === 'string' ? withoutSlash(text) : text);
const fields: Readonly<Record<string, Field>> = {
  proxyTo: { of: ({ proxyTo }) => proxyTo, applied: url },
  // Values from a Service follow the Service.
  serviceRef: { of: ({ proxyTo }) => proxyTo },
  externalUrl: { of: ({ externalUrl }) => externalUrl, applied: url },
  routingGroup: { of: ({ routingGroup }) => routingGroup },
  active: { of: ({ active }) => active, absent: true },
  weight: { of: ({ weight }) => weight, absent: DEFAULT_WEIGHT },
  maxRunningQueries: { of: ({ maxRunningQueries }) => maxRunningQueries ?? null, absent: null },
  healthCheck: { of: ({ healthCheck }) => healthCheck, absent: null },
  tls: { of: ({ tls }) => tls, absent: null },
};

/**
 * Compares a resource's declaration with the active values, field by field: they differ if it is suspended, is not
 * accepted, or if `active` is overridden. Fields that are neither declared nor differ from their defaults are omitted.
 * @param spec of the resource, as written
 * @param routable the routed cluster, or null
 */
export function declaredFields(
  spec: Readonly<Record<string, unknown>>,
  routable: RoutableCluster | null,
): readonly DeclaredField[] {
  return Object.entries(fields).flatMap(
    ([field, { of, absent, applied = (value: unknown) => value }]): DeclaredField[] => {
      const declared = spec[field] ?? null;
      const inForce = routable === null ? null : (of(routable) ?? null);
      const wanted = declared === null ? absent : applied(declared);
      const isCompared = routable !== null && field !== 'serviceRef' && wanted !== undefined;
      const differs = routable === null ? declared !== null : isCompared && !isDeepStrictEqual(wanted, inForce);
      return declared === null && !differs ? [] : [{ field, declared, inForce, differs }];
    },
  );
}
