import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { StatusDraft } from '../../kinds/status.ts';
import type { Clock } from '../../model/clock.ts';
import { type Condition, mergeConditions } from '../../model/condition.ts';
import { GatewayError } from '../../model/errors.ts';
import { keyOf, keyOfText, keyText, keyTextOf, type Resource, type ResourceStatus } from '../../model/resource.ts';
import type { Leadership } from '../leadership/leadership.ts';
import { FencedWrite, type ResourceSource, VersionConflict } from '../sources/source.ts';
import { FailureReports } from './failureReports.ts';
import { OwnConditions } from './ownConditions.ts';

/** A transition of a condition that was written, for events. */
export interface Transition {
  readonly resource: Resource;
  readonly condition: Condition;
  readonly before: Condition | null;
}

export interface StatusWriterOptions {
  readonly source: Pick<ResourceSource, 'get' | 'patchStatus'>;
  readonly leadership: Pick<Leadership, 'isLeader' | 'fence' | 'noteFenced'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Least time between two writes to one object, in milliseconds: 5,000. */
  readonly intervalMs?: number;
  /** Called after each write: whether it was made, not where another replica leads or the object changed. Must not throw. */
  readonly onWrite?: (isWritten: boolean) => void;
  /** Called once a condition whose status or reason changed, of a drift also its message. Must not throw. */
  readonly onTransition: (transition: Transition) => void;
}

/** Writes under way at once: those of a large set must not flood the source. */
const MAX_WRITES = 16;

/** Longest time between two tries of a write that fails, in milliseconds. */
const MAX_BACK_OFF_MS = 300_000;

interface Entry {
  /** Null when there is nothing to do: thousands of statuses need not be held twice. */
  draft: StatusDraft | null;
  uid: string;
  lastWrite: number;
  timer: NodeJS.Timeout | null;
  writing: boolean;
  failures: number;
  /** Monotonic milliseconds before which a failed write is not tried again. */
  notBefore: number;
}

/**
 * The one writer of statuses: writes on change only, at most once in 5 s an object, and only as leader. What it is
 * offered in between replaces what waits. Objects whose time has come are written in that order, 16 at once, each as it is
 * when its turn comes: those that change all the time keep none of the others waiting. A write that fails is tried again
 * after 5 s, doubled up to 5 min, and not before the source asks for; each cause of failures is logged once in 5 min.
 */
export class StatusWriter {
  readonly #options: StatusWriterOptions;
  readonly #intervalMs: number;
  readonly #entries = new Map<string, Entry>();
  readonly #writes = new Set<Promise<void>>();
  readonly #due = new Set<string>();
  readonly #failures: FailureReports;
  readonly #types = new OwnConditions();
  #stopped = false;

  constructor(options: StatusWriterOptions) {
    this.#options = options;
    this.#intervalMs = options.intervalMs ?? 5_000;
    this.#failures = new FailureReports(options.clock, options.logger);
  }

  /** Notes what a resource's status should be, and writes it when that differs from what it is. */
  offer(resource: Resource, draft: StatusDraft): void {
    if (this.#stopped) return;
    const key = keyTextOf(resource);
    this.#types.note(resource.kind, draft);
    const entry = this.#entries.get(key);
    if (entry === undefined || entry.uid !== resource.metadata.uid) {
      if (entry?.timer != null) clearTimeout(entry.timer);
      this.#entries.set(key, {
        draft,
        uid: resource.metadata.uid,
        lastWrite: Number.NEGATIVE_INFINITY,
        timer: null,
        writing: false,
        failures: 0,
        notBefore: Number.NEGATIVE_INFINITY,
      });
    } else entry.draft = draft;
    this.#schedule(key);
  }

  forget(key: string): void {
    const entry = this.#entries.get(key);
    if (entry?.timer != null) clearTimeout(entry.timer);
    this.#entries.delete(key);
    this.#due.delete(key);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    for (const entry of this.#entries.values()) if (entry.timer !== null) clearTimeout(entry.timer);
    this.#entries.clear();
    this.#due.clear();
    await Promise.allSettled(this.#writes);
  }

  #schedule(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined || entry.draft === null || entry.writing || entry.timer !== null) return;
    const dueAt = Math.max(entry.lastWrite + this.#intervalMs, entry.notBefore);
    const waitMs = dueAt - this.#options.clock.monotonic();
    if (waitMs <= 0) this.#enqueue(key);
    else if (this.#target(key, entry) === null) entry.draft = null;
    else {
      entry.timer = setTimeout(() => {
        entry.timer = null;
        this.#enqueue(key);
      }, waitMs);
    }
  }

  #enqueue(key: string): void {
    this.#due.add(key);
    this.#next();
  }

  #next(): void {
    for (const key of this.#due) {
      if (this.#writes.size >= MAX_WRITES) return;
      this.#due.delete(key);
      const entry = this.#entries.get(key);
      if (entry !== undefined) this.#begin(key, entry);
    }
  }

  #begin(key: string, entry: Entry): void {
    // One that was written as another resource of the same name is still on its way.
    if (this.#stopped || entry.writing) return;
    const target = this.#target(key, entry);
    if (target === null) {
      entry.draft = null;
      return;
    }
    entry.writing = true;
    entry.lastWrite = this.#options.clock.monotonic();
    const write = this.#write(entry, target.resource, target.status).finally(() => {
      this.#writes.delete(write);
      entry.writing = false;
      if (this.#stopped) return;
      if (this.#entries.get(key) === entry) this.#schedule(key);
      this.#next();
    });
    this.#writes.add(write);
  }

  async #write(entry: Entry, resource: Resource, status: ResourceStatus): Promise<void> {
    const key = keyOf(resource);
    const { leadership } = this.#options;
    const { fence } = leadership;
    try {
      await this.#options.source.patchStatus(key, entry.uid, status, fence);
    } catch (error) {
      if (error instanceof FencedWrite && fence !== null) leadership.noteFenced(fence);
      if (error instanceof VersionConflict || error instanceof FencedWrite) return;
      this.#delay(entry, error);
      this.#options.onWrite?.(false);
      this.#failures.report(keyText(key), error);
      return;
    }
    entry.failures = 0;
    this.#options.onWrite?.(true);
    for (const condition of status.conditions ?? []) {
      const before = resource.status?.conditions?.find((candidate) => candidate.type === condition.type) ?? null;
      const isOfSameReason = before?.status === condition.status && before.reason === condition.reason;
      // Each drift is one of its own: its message states what was changed, and when it was noticed.
      if (isOfSameReason && (condition.type !== 'Drift' || before.message === condition.message)) continue;
      this.#options.onTransition({ resource, condition, before });
    }
  }

  #delay(entry: Entry, error: unknown): void {
    const backOffMs = Math.min(MAX_BACK_OFF_MS, this.#intervalMs * 2 ** entry.failures);
    const askedMs = error instanceof GatewayError ? (error.retryAfterSeconds ?? 0) * 1_000 : 0;
    entry.failures = Math.min(entry.failures + 1, 16);
    entry.notBefore = this.#options.clock.monotonic() + Math.max(backOffMs, askedMs);
  }

  /** The status to write; null when there is nothing to do. */
  #target(key: string, entry: Entry): { readonly resource: Resource; readonly status: ResourceStatus } | null {
    const { draft, uid } = entry;
    if (draft === null || !this.#options.leadership.isLeader) return null;
    const resource = this.#options.source.get(keyOfText(key));
    if (resource === null || resource.metadata.uid !== uid) return null;
    const existing = resource.status?.conditions ?? [];
    const types = new Set(draft.conditions.map(({ type }) => type));
    const sameTypes = existing.filter((condition) => types.has(condition.type));
    const status: ResourceStatus = {
      ...draft.fields,
      observedGeneration: draft.observedGeneration,
      conditions: mergeConditions(sameTypes, draft.conditions, isoSeconds(this.#options.clock.now())),
    };
    // Conditions of others belong to them: no write of ours would take them away.
    const own = existing.filter(({ type }) => this.#types.has(resource.kind, type));
    return sameStatus(status, { ...resource.status, conditions: own }) ? null : { resource, status };
  }
}

/** RFC 3339 without fractions, as Kubernetes writes times. */
function isoSeconds(now: number): string {
  return `${new Date(now).toISOString().slice(0, 19)}Z`;
}

/** Equal but for the order of conditions. */
function sameStatus(a: ResourceStatus, b: ResourceStatus | undefined): boolean {
  const ordered = (status: ResourceStatus | undefined): unknown => ({
    ...status,
    conditions: [...(status?.conditions ?? [])].sort((x, y) => (x.type < y.type ? -1 : 1)),
  });
  return isDeepStrictEqual(ordered(a), ordered(b));
}
