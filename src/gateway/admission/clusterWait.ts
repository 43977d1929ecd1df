import { durationText } from '../../model/durationText.ts';
import type { GroupPolicy } from '../../routing/admissionPolicy.ts';
import { isServed, unlimitedCapacity } from '../../routing/clusterChoice.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { TableListener } from '../../routing/tableHolder.ts';
import type { Admission, AdmissionRequest, AdmissionResponse } from './admission.ts';
import { groupCounter, groupQueueCounter } from './limitDemands.ts';
import type { QueueCounts } from './queueCounts.ts';
import type { SharedCounts } from './sharedCounts.ts';

export interface ClusterWaitDependencies {
  readonly table: { readonly current: RoutingTable; onChange(listener: TableListener): () => void };
  readonly queueCounts: QueueCounts;
  readonly counts: Pick<SharedCounts, 'noteRejected'>;
  /** `routing.defaultRoutingGroup`. */
  readonly defaultGroup: string;
}

/** Submissions that wait for clusters of the same groups: all continue together. */
interface Waiting {
  readonly decision: GroupDecision;
  readonly resume: Set<() => void>;
}

const now: AdmissionResponse = { kind: 'now' };

/**
 * Lets submissions to groups with `whenUnavailable: Wait` wait while neither the group nor one of its fallbacks
 * has a healthy cluster (docs/limits.md#clusters-on-demand). They continue after the first change of the routing table
 * that adds a healthy cluster or disables the wait.
 */
export class ClusterWait implements Admission {
  readonly #dependencies: ClusterWaitDependencies;
  /** By group and use of fallbacks: at most two entries per `RoutingGroup`. */
  readonly #waiting = new Map<string, Waiting>();
  /** Removes the listener of the table; null while no submission waits. */
  #endListening: (() => void) | null = null;

  constructor(dependencies: ClusterWaitDependencies) {
    this.#dependencies = dependencies;
  }

  admit({ decision, waitedMs = 0 }: AdmissionRequest): AdmissionResponse {
    const { current } = this.#dependencies.table;
    const policy = waitingPolicy(current, decision);
    if (policy === null || this.#isServed(current, decision)) return now;
    const { maxQueued, maxWaitMs, holdMs } = policy.queue;
    if (waitedMs === 0 && this.#dependencies.queueCounts.waiting(groupQueueCounter(policy.name)) >= maxQueued) {
      this.#noteRejected(policy);
      return { kind: 'reject', refusal: queueFull(policy) };
    }
    return {
      kind: 'wait',
      atMost: maxWaitMs,
      hold: holdMs,
      place: {
        why: () => `no cluster of routing group ${policy.name} is available (whenUnavailable: Wait)`,
        // All continue together.
        position: () => null,
        moveFirst: () => undefined,
      },
      late: tooLate(policy),
      noteLate: () => this.#noteRejected(policy),
      begin: (signal) => this.#wait(decision, signal),
    };
  }

  #noteRejected({ name }: GroupPolicy): void {
    this.#dependencies.counts.noteRejected([groupCounter(name)]);
  }

  #wait(decision: GroupDecision, signal: AbortSignal): Promise<null> {
    const { table, queueCounts } = this.#dependencies;
    // The table may have changed before the listener was added.
    if (signal.aborted || this.#mayResume(table.current, decision)) return Promise.resolve(null);
    const key = keyOf(decision);
    const place = this.#waiting.get(key) ?? { decision, resume: new Set() };
    this.#waiting.set(key, place);
    this.#endListening ??= table.onChange((changed) => this.#recheck(changed));
    return new Promise((resolve) => {
      const resume = () => {
        signal.removeEventListener('abort', resume);
        if (place.resume.delete(resume)) queueCounts.count(groupQueueCounter(decision.group), -1);
        if (place.resume.size === 0 && this.#waiting.get(key) === place) this.#forget(key);
        resolve(null);
      };
      place.resume.add(resume);
      queueCounts.count(groupQueueCounter(decision.group), 1);
      signal.addEventListener('abort', resume);
    });
  }

  /** Each table change costs one search per group, independent of the number of submissions. */
  #recheck(table: RoutingTable): void {
    for (const { decision, resume } of [...this.#waiting.values()]) {
      if (this.#mayResume(table, decision)) for (const one of [...resume]) one();
    }
  }

  #forget(key: string): void {
    this.#waiting.delete(key);
    if (this.#waiting.size > 0) return;
    this.#endListening?.();
    this.#endListening = null;
  }

  #mayResume(table: RoutingTable, decision: GroupDecision): boolean {
    return waitingPolicy(table, decision) === null || this.#isServed(table, decision);
  }

  #isServed(table: RoutingTable, decision: GroupDecision): boolean {
    const defaultGroup = this.#dependencies.defaultGroup;
    return isServed({ table, decision, defaultGroup, excluded: null, hasCapacity: unlimitedCapacity });
  }
}

/** The policy if submissions wait for clusters, usually null. Pinned clusters are not waited for. */
function waitingPolicy({ admission }: RoutingTable, { group, cluster }: GroupDecision): GroupPolicy | null {
  if (admission.groups.size === 0 || cluster !== null) return null;
  const policy = admission.groups.get(group);
  return policy?.queue.whenUnavailable === 'wait' ? policy : null;
}

function keyOf({ group, onUnavailable }: GroupDecision): string {
  return `${onUnavailable} ${group}`;
}

function queueFull({ name, queue }: GroupPolicy): Refusal {
  const message = `No cluster of routing group ${JSON.stringify(name)} is available, and ${queue.maxQueued} queries wait for one already (queue.maxQueuedQueries); send the query again later.`;
  return { reason: 'queue_full', message, queryId: null };
}

function tooLate({ name, queue }: GroupPolicy): Refusal {
  const message = `No cluster of routing group ${JSON.stringify(name)} became available within ${durationText(queue.maxWaitMs)} (queue.maxWait); send the query again later.`;
  return { reason: 'queue_timeout', message, queryId: null };
}
