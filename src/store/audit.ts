import type { ResourceKey } from '../model/resource.ts';

/** Source of a change: `gateway` is the gateway itself, `database` another program that wrote into its tables. */
export const auditSources = ['rest', 'kubernetes', 'file', 'database', 'gateway'] as const;
export type AuditSource = (typeof auditSources)[number];

export const auditActions = ['create', 'change', 'delete'] as const;
export type AuditAction = (typeof auditActions)[number];

/** A row of `eg_audit`: one change (docs/authentication.md#audit). Texts that do not fit are cut. */
export interface AuditEntry {
  /** Unique; an entry that is inserted twice is there once. */
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly source: AuditSource;
  readonly action: AuditAction;
  /** Changed object: kind of resource, or name of another thing such as `QueuedQuery`. */
  readonly kind: string;
  readonly namespace: string;
  /** Name that people know it by: of a cluster that in the registry. */
  readonly name: string;
  /** Name of its resource; empty if it has none. */
  readonly resource: string;
  /** In words, e.g. `cluster etl-1`. */
  readonly object: string;
  /** The caller, or null. */
  readonly user: string | null;
  /** Field managers that changed it (Kubernetes), or another program; null elsewhere. */
  readonly manager: string | null;
  /** Authentication method and roles of the caller. */
  readonly recognisedBy: string | null;
  readonly roles: readonly string[];
  readonly address: string | null;
  readonly call: string | null;
  readonly requestId: string | null;
  /** JSON; null: it was not there. */
  readonly before: string | null;
  /** JSON; null: it is gone. */
  readonly after: string | null;
  /** Of what a call, or the gateway itself, left of a resource; null for other changes. */
  readonly digest: string | null;
}

/** Filters of the audit; absent means any. Times in milliseconds, `from` inclusive, `to` exclusive. */
export type AuditFilter = Partial<
  Pick<AuditEntry, 'id' | 'kind' | 'namespace' | 'name' | 'source'> & Record<'user' | 'manager', string>
> & {
  /** Matching of texts: `prefix` matches the beginning of all but id and source. Default: exact. */
  readonly match?: 'exact' | 'prefix';
  readonly from?: number;
  readonly to?: number;
};

/** Audit state of a resource of the source: a row of `eg_audited`. */
export interface AuditMark extends ResourceKey {
  readonly title: string;
  readonly uid: string;
  readonly digest: string;
  /** Authors and times by field manager: JSON. */
  readonly writers: string;
  /** When that was noted, milliseconds since 1970. */
  readonly noted: number;
  /** JSON as entries have it. */
  readonly state: string;
}

export interface SourceChange {
  readonly key: ResourceKey;
  /** New state; null: the resource is deleted. */
  readonly to: AuditMark | null;
  /** Null: no change, or one that a call recorded. */
  readonly entry: AuditEntry | null;
}
