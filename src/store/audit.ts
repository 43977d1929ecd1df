import type { Kind, ResourceKey } from '../model/resource.ts';
import type { Fence } from './store.ts';

/** Where a change came from: `gateway` is the gateway itself, `database` another program that wrote into its tables. */
export const auditSources = ['rest', 'kubernetes', 'file', 'database', 'gateway'] as const;
export type AuditSource = (typeof auditSources)[number];

/** What a change did. */
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
  /** What changed: kind of resource, or name of another thing such as `QueuedQuery`. */
  readonly kind: string;
  /** Empty where it has none. */
  readonly namespace: string;
  /** Name that people know it by: of a cluster that in the registry. */
  readonly name: string;
  /** Name of its resource; empty where it has none. */
  readonly resource: string;
  /** In words, e.g. `cluster etl-1`. */
  readonly object: string;
  /** Who called; null where nobody did. */
  readonly user: string | null;
  /** Field managers that changed it (Kubernetes), or another program; null elsewhere. */
  readonly manager: string | null;
  /** How the caller was recognised, and with which roles. */
  readonly recognisedBy: string | null;
  readonly roles: readonly string[];
  readonly address: string | null;
  /** Method and path of the call. */
  readonly call: string | null;
  readonly requestId: string | null;
  /** JSON; null: it was not there. */
  readonly before: string | null;
  /** JSON; null: it is gone. */
  readonly after: string | null;
  /** Of what the source has of it afterwards; null where the source has nothing of it. */
  readonly digest: string | null;
}

/** Filters of the audit; absent means any. Times in milliseconds, `from` inclusive, `to` exclusive. */
export interface AuditFilter {
  readonly id?: string;
  readonly kind?: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly user?: string;
  readonly manager?: string;
  readonly source?: AuditSource;
  /** How texts match: `prefix` takes the beginning of all but id and source. Exactly by default. */
  readonly match?: 'exact' | 'prefix';
  readonly from?: number;
  readonly to?: number;
}

/** Which of the entries found are wanted: those after one in the order, which begins with the newest. */
export interface AuditPage {
  readonly limit: number;
  readonly after?: Pick<AuditEntry, 'at' | 'id'>;
}

/** What the audit knows of a resource of the source: a row of `eg_audited`. */
export interface AuditMark extends ResourceKey {
  readonly kind: Kind;
  /** Name that people know it by. */
  readonly title: string;
  /** Identity of the resource. */
  readonly uid: string;
  readonly digest: string;
  /** Who wrote it when, by field manager: JSON. */
  readonly writers: string;
  /** When that was noted, milliseconds since 1970. */
  readonly noted: number;
}

/** A mark with what the resource said: JSON as entries have it. */
export interface AuditedState extends AuditMark {
  readonly state: string;
}

/** A change of the source, to be recorded once. */
export interface SourceChange {
  readonly key: ResourceKey;
  /** Digest of the mark that it was compared with; null: there was none. */
  readonly from: string | null;
  /** What is known from now on; null: the resource is gone. */
  readonly to: AuditedState | null;
  /** The entry, without what the mark remembers as before; null: somebody recorded the change already. */
  readonly entry: Omit<AuditEntry, 'before'> | null;
}

/** `stale`: a mark is another by now, so that somebody else recorded the change; the others are recorded. */
export type SourceChangeResult = 'recorded' | 'stale' | 'fenced';

/** `eg_audit`, which is only added to, and `eg_audited`. */
export interface AuditRepository {
  insert(entries: readonly AuditEntry[]): Promise<void>;
  /** Newest first. */
  list(filter: AuditFilter, page: AuditPage): Promise<readonly AuditEntry[]>;
  /** All marks; null before the first of them were set by `begin`. */
  marks(): Promise<readonly AuditMark[] | null>;
  /** Sets the first marks: what there is when the audit begins is no change. False when leadership was lost. */
  begin(states: readonly AuditedState[], fence: Fence): Promise<boolean>;
  /** Records changes with their marks, at most 50 and each of another key, in one transaction: of several leaders one records each. */
  recordSourceChanges(changes: readonly SourceChange[], fence: Fence): Promise<SourceChangeResult>;
  /** True if the last entry of a call, or of the gateway itself, at or after a time left a resource like this. */
  isRecorded(key: ResourceKey, digest: string, since: number): Promise<boolean>;
  deleteBefore(before: number, fence?: Fence | null): Promise<number>;
  /** Deletes the oldest entries beyond a number; answers how many. */
  deleteBeyond(entries: number, fence?: Fence | null): Promise<number>;
}
