import type { RequestUser } from '../../model/requestUser.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { QuerySlots } from '../admission/admission.ts';
import type { BodyStart } from '../bodies/requestBodies.ts';

export interface Submission {
  readonly body: BodyStart;
  readonly user: RequestUser;
  readonly decision: GroupDecision;
  /** The id of the gateway's own under which it waited; left out if it did not. */
  readonly queuedAs?: string;
  /** Milliseconds that it waited under that id, at all replicas. */
  readonly waitedMs?: number;
  /** The query that the statement is about (kill_query): it goes to that query's cluster; null for all others. */
  readonly about: { readonly queryId: string; readonly cluster: ClusterEntry } | null;
  /**
   * The transaction that the statement belongs to, with the cluster that began it (null if no one knows it); null for
   * statements outside of transactions.
   */
  readonly transaction: { readonly id: string; readonly cluster: ClusterEntry | null } | null;
  /** Version of the rules that it was decided by, of one that waited in the queue. */
  readonly rulesVersion?: string | undefined;
  /** Its slots, or null. */
  readonly slots: QuerySlots | null;
}

/** Description of a submission's wait for trace, header and log; null without a wait. */
export function waitNote({ slots, waitedMs }: Pick<Submission, 'slots' | 'waitedMs'>): string | null {
  const note = slots?.note ?? null;
  return note === null && waitedMs !== undefined ? `waited ${(waitedMs / 1000).toFixed(1)} s` : note;
}
