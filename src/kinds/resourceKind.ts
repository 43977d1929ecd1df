import type { TSchema } from 'typebox';
import type { Problem } from '../model/errors.ts';
import type { Kind } from '../model/resource.ts';

/** A column of `kubectl get` (CustomResourceColumnDefinition). */
export interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'boolean' | 'date';
  readonly jsonPath: string;
  readonly description: string;
  /** 0: always shown; 1: with `-o wide`. */
  readonly priority?: number;
}

/** A column with the status of a condition. */
export const conditionColumn = (type: string, description: string, priority = 0): PrinterColumn => ({
  name: type,
  type: 'string',
  jsonPath: `.status.conditions[?(@.type=="${type}")].status`,
  description,
  ...(priority === 0 ? {} : { priority }),
});

/** What the gateway itself does with resources of a kind, and so must be allowed to (Kubernetes RBAC). */
export interface OwnAccess {
  readonly verbs: readonly ('get' | 'list' | 'watch' | 'create' | 'patch' | 'delete')[];
  /** One sentence for whoever reads the Role. */
  readonly why: string;
}

/**
 * A kind of resources: all that the gateway knows of it (docs/architecture.md#kinds-of-resources). What works on any kind
 * asks the registry for these, so that a kind is added by its folder and a line of `registry.ts`.
 */
export interface ResourceKind {
  /** Its name, as in `kind:` of a manifest. */
  readonly kind: Kind;
  /** Lower-case plural, as in paths of the API server and in RBAC. */
  readonly plural: string;
  readonly singular: string;
  /** For kubectl. */
  readonly shortName: string;
  /** Sentence of the CRD. */
  readonly description: string;
  /** Schema of `spec`, with what the API server checks by CEL. */
  readonly spec: TSchema;
  /** Schemas of what its status has beside `observedGeneration` and `conditions`. */
  readonly statusProperties: Readonly<Record<string, object>>;
  /** Columns of `kubectl get`, before the age. */
  readonly columns: readonly PrinterColumn[];
  /** Paths that `kubectl get --field-selector` takes. */
  readonly selectableFields: readonly string[];
  /** A spec that is valid, for pages and tests. */
  readonly example: Readonly<Record<string, unknown>>;
  readonly ownAccess: OwnAccess;
  /** Gauge of how many there are, without the product's prefix. */
  readonly gauge: { readonly name: string; readonly help: string };
  /**
   * What is wrong with a spec: all that the CRD's schema and its CEL rules say, for sources that have no API server in
   * front of them. Empty when it is fine.
   */
  specProblems(spec: unknown): readonly Problem[];
}
