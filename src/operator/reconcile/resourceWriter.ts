import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import type { KindRegistry } from '../../kinds/resourceKind.ts';
import { GatewayError } from '../../model/errors.ts';
import { keyOf, keyOfText, keyText, keyTextOf, type Resource } from '../../model/resource.ts';
import { within } from '../../model/timeLimit.ts';
import { comparable, rowChanges } from '../../store/externalRow.ts';
import { isDatabaseAway } from '../../store/failures.ts';
import type { BackendRow, Fence } from '../../store/store.ts';
import { isSameResource, resourceOfStored, storedOfResource } from '../sources/source.ts';
import type { ControllerContext } from './controller.ts';

/** Default of `writeIntervalMs`; a call of the REST API does not wait for it. */
const INTERVAL_MS = 1_000;
/** Time after which a failed transaction is repeated. */
const RETRY_MS = 2_000;
/** Resources of one transaction. */
const MAX_RESOURCES = 500;
/** Time between two looks of a replica that does not lead at the row that a call waits for. */
const LOOK_MS = 50;

/** A resource as the database has it. */
interface WrittenResource {
  readonly resource: Resource;
  readonly row: BackendRow | null;
}

/** What differs between the outcomes and the database. */
interface Difference {
  readonly changed: readonly {
    readonly key: string;
    readonly outcome: ResourceOutcome;
    readonly row: BackendRow | null;
  }[];
  /** Keys of resources that are gone. */
  readonly removed: readonly string[];
  /** Names of rows that no resource gives any more. */
  readonly removedRows: readonly string[];
}

/** Whether the database has a resource as it is: `pending` until the first attempt to write it. */
export type StoredState = 'stored' | 'pending' | 'failed';

/**
 * The leader's writer of `eg_resources`, for the sources `kubernetes` and `directory`. It remembers each resource as it was
 * written last, and writes the difference to the present outcomes, with the rows of `gateway_backend` that they give, in one
 * transaction that checks the epoch of leadership (docs/decisions/0005-guarded-projection.md).
 */
export class ResourceWriter {
  readonly #options: ControllerContext;
  readonly #outcomes: () => ReadonlyMap<string, ResourceOutcome> | null;
  readonly #onReport: (key: string) => void;
  /** What the database has, by `keyText`, and the epoch in which it was read; null: not read since this replica leads. */
  #set: Map<string, WrittenResource> | null = null;
  #epoch: number | null = null;
  /** Keys of resources that may differ from the database; null: any may. */
  #due: Set<string> | null = null;
  /** Resources of which another program changed the row. */
  readonly #externallyChanged = new Set<string>();
  /** Resources of which the row was missing at the last look. */
  #missing: ReadonlySet<string> = new Set();
  /** Outcomes that the database does not take although it is available. */
  readonly #rejected = new Map<string, ResourceOutcome>();
  /** Resolves with the next attempt. */
  #attempt = Promise.withResolvers<void>();
  #limit = MAX_RESOURCES;
  #isFailing = false;
  #timer: NodeJS.Timeout | undefined;
  #turn: Promise<void> = Promise.resolve();
  /** Monotonic milliseconds at which the last transaction ended. */
  #endedAt = Number.NEGATIVE_INFINITY;
  #isStopped = false;

  /**
   * @param outcomes the set as it is to be; null while the source has not been read
   * @param onReport called with the key of a resource of which an external change was overwritten
   */
  constructor(
    options: ControllerContext,
    outcomes: () => ReadonlyMap<string, ResourceOutcome> | null,
    onReport: (key: string) => void,
  ) {
    this.#options = options;
    this.#outcomes = outcomes;
    this.#onReport = onReport;
  }

  /** Has the difference written: now, or some time after the last transaction. @param keys of resources that may differ; null: any may */
  request(keys: Iterable<string> | null): void {
    if (keys === null) this.#due = null;
    else for (const key of keys) this.#due?.add(key);
    const { clock, writeIntervalMs = INTERVAL_MS } = this.#options;
    const waitMs = this.#endedAt + writeIntervalMs - clock.monotonic();
    clearTimeout(this.#timer);
    this.#writeAfter(Math.max(0, waitMs));
  }

  /** Writes the difference now. Never rejects. */
  write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#turn = this.#turn.then(async () => {
      const { resolve } = this.#attempt;
      this.#attempt = Promise.withResolvers<void>();
      await this.#write();
      resolve();
    });
    return this.#turn;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    this.#attempt.resolve();
    await this.#turn;
  }

  /** Returns the state of a resource after an attempt to write it; `pending` if it changed meanwhile. */
  async whenTried(key: string, outcome: ResourceOutcome): Promise<StoredState> {
    if (this.#stateOf(key, outcome) === 'pending') {
      const { promise } = this.#attempt;
      this.request([key]);
      await promise;
    }
    return this.#stateOf(key, outcome);
  }

  #stateOf(key: string, outcome: ResourceOutcome): StoredState {
    const { kinds, source } = this.#options;
    if (source.name === 'database') return 'stored';
    if (this.#isWritten(key, this.#set?.get(key), outcome, rowOfOutcome(kinds, outcome))) return 'stored';
    return this.#isFailing || this.#rejected.get(key) === outcome ? 'failed' : 'pending';
  }

  /** Compares the rows of `gateway_backend` with the set, as another program may have changed them. */
  noteRows(rows: readonly BackendRow[]): void {
    const byName = new Map(rows.map((row) => [row.name, row]));
    const missing = new Set<string>();
    for (const [key, { row }] of this.#set ?? []) {
      const present = row === null ? undefined : byName.get(row.name);
      if (row === null || isDeepStrictEqual(present, row)) continue;
      // Missing for one look, its resource may be deleted at another replica.
      if (present !== undefined || this.#missing.has(key)) this.#externallyChanged.add(key);
      else missing.add(key);
    }
    this.#missing = missing;
    if (this.#externallyChanged.size > 0) this.request(this.#externallyChanged);
  }

  /**
   * Resolves when the database has a resource as it is; `pending` after the time, and while the database is unavailable. On a
   * replica that does not lead this waits for the leader. A resource that is gone is deleted by any replica.
   */
  async whenStored(resource: Resource, isGone: boolean, timeoutMs: number): Promise<'stored' | 'pending'> {
    const { source, store, leadership, clock, logger } = this.#options;
    if (source.name === 'database') return 'stored';
    const key = keyOf(resource);
    const work = isGone
      ? store.resources.delete(key, { uid: resource.metadata.uid }).then(() => true)
      : leadership.isLeader
        ? this.#isWrittenNow(keyText(key))
        : this.#isWrittenByLeader(resource, clock.monotonic() + timeoutMs);
    try {
      if (await within(work, timeoutMs, false)) return 'stored';
      logger.warn({ key: keyText(key) }, 'database write timed out; retrying in the background');
    } catch (error) {
      if (!isDatabaseAway(error)) throw error;
    }
    return 'pending';
  }

  async #isWrittenNow(key: string): Promise<boolean> {
    await this.write();
    const outcome = this.#outcomes()?.get(key);
    return outcome === undefined || this.#stateOf(key, outcome) === 'stored';
  }

  async #isWrittenByLeader(resource: Resource, until: number): Promise<boolean> {
    const { source, store, clock } = this.#options;
    const { uid, resourceVersion } = resource.metadata;
    for (;;) {
      const stored = await store.resources.get(keyOf(resource));
      const isLater = stored?.uid === uid && BigInt(stored.resourceVersion) >= BigInt(resourceVersion);
      if (isLater) return true;
      if (stored !== null && isSameResource(resourceOfStored(stored), resource, source.name)) return true;
      if (clock.monotonic() >= until) return false;
      await sleep(LOOK_MS);
    }
  }

  #writeAfter(waitMs: number): void {
    const { source, leadership } = this.#options;
    if (this.#isStopped || source.name === 'database' || !leadership.isLeader) {
      this.#attempt.resolve();
      this.#attempt = Promise.withResolvers<void>();
    } else this.#timer = setTimeout(() => void this.write(), waitMs);
  }

  async #write(): Promise<void> {
    const { leadership, clock, logger } = this.#options;
    if (this.#isStopped || !leadership.isLeader || this.#outcomes() === null) return;
    try {
      const { fence } = leadership;
      if (fence === null)
        throw new GatewayError('EG_DATABASE_UNAVAILABLE', 'the database has not confirmed the leadership yet');
      if (this.#epoch !== fence.epoch) await this.#read(fence);
      while (await this.#writeDifference(fence));
      this.#limit = MAX_RESOURCES;
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) logger.warn({ err: error }, 'failed to write resources to the database; retrying');
      this.#isFailing = true;
      this.#writeAfter(RETRY_MS);
    }
    this.#endedAt = clock.monotonic();
  }

  async #read({ epoch }: Fence): Promise<void> {
    const { kinds, source, store } = this.#options;
    const all = await store.resources.all();
    // Those of another source, and kinds of a later version of the gateway, are not of this set.
    const own = all.filter((stored) => stored.source === source.name && kinds.find(stored.kind) !== null);
    this.#set = new Map(
      own.map((stored) => [keyText(stored), { resource: resourceOfStored(stored), row: stored.row }]),
    );
    this.#epoch = epoch;
    this.#due = null;
    this.#externallyChanged.clear();
    this.#rejected.clear();
  }

  /** Writes the next part of the difference. @returns false when nothing is left, or another replica leads */
  async #writeDifference(fence: Fence): Promise<boolean> {
    const { source, store, leadership, logger } = this.#options;
    const difference = this.#difference();
    const { changed, removed, removedRows } = difference;
    if (changed.length + removed.length === 0) return false;
    const stored = changed.map(({ outcome: { resource, registryName }, row }) => ({
      ...storedOfResource(resource, source.name, row),
      registryName,
    }));
    let present: readonly BackendRow[] | 'fenced';
    try {
      present = await store.resources.writeDifference({ stored, removed: removed.map(keyOfText), removedRows }, fence);
    } catch (error) {
      const [first] = changed;
      if (isDatabaseAway(error) || first === undefined) throw error;
      // One that the database does not take must not keep it from the others: each is tried alone.
      if (this.#limit === 1) {
        this.#rejected.set(first.key, first.outcome);
        logger.error({ key: first.key, err: error }, 'database rejected resource');
      }
      this.#limit = 1;
      return true;
    }
    if (present === 'fenced') {
      leadership.noteFenced(fence);
      this.#epoch = null;
      return false;
    }
    this.#noteWritten(difference, present);
    return true;
  }

  #difference(): Difference {
    const { kinds } = this.#options;
    const set = this.#set ?? new Map<string, WrittenResource>();
    const outcomes = this.#outcomes() ?? new Map<string, ResourceOutcome>();
    this.#due ??= new Set([...set.keys(), ...outcomes.keys()]);
    const removed = [...this.#due].filter((key) => set.has(key) && !outcomes.has(key));
    const left = removed.map((key) => set.get(key)?.row?.name);
    const changed: Difference['changed'][number][] = [];
    for (const key of this.#due) {
      if (changed.length >= this.#limit || (this.#limit === 1 && removed.length > 0)) break;
      const outcome = outcomes.get(key);
      const written = set.get(key);
      if (outcome === undefined && written === undefined) this.#due.delete(key);
      if (outcome === undefined) continue;
      const row = rowOfOutcome(kinds, outcome);
      if (this.#rejected.get(key) === outcome || this.#isWritten(key, written, outcome, row)) this.#due.delete(key);
      else {
        changed.push({ key, outcome, row });
        if (written?.row?.name !== row?.name) left.push(written?.row?.name);
      }
    }
    const names = left.filter((name) => name !== undefined);
    if (names.length === 0) return { changed, removed, removedRows: [] };
    const rowNames = new Set([...outcomes.values()].map((outcome) => rowOfOutcome(kinds, outcome)?.name));
    return { changed, removed, removedRows: names.filter((name) => !rowNames.has(name)) };
  }

  #isWritten(key: string, written: WrittenResource | undefined, outcome: ResourceOutcome, row: BackendRow | null) {
    const isSame =
      written !== undefined && isSameResource(written.resource, outcome.resource, this.#options.source.name);
    return isSame && isDeepStrictEqual(written.row, row) && !this.#externallyChanged.has(key);
  }

  #noteWritten({ changed, removed }: Difference, present: readonly BackendRow[]): void {
    const rows = new Map(present.map((row) => [row.name, row]));
    for (const key of removed) {
      this.#set?.delete(key);
      this.#externallyChanged.delete(key);
    }
    for (const { key, outcome, row } of changed) {
      const last = this.#set?.get(key)?.row ?? null;
      this.#set?.set(key, { resource: outcome.resource, row });
      this.#externallyChanged.delete(key);
      this.#rejected.delete(key);
      if (last !== null && last.name === row?.name) this.#report(outcome, last, rows.get(last.name) ?? null, row);
    }
  }

  /** Reports what another program wrote into a row since it was written last. @param present null: it was deleted */
  #report(
    { resource, registryName }: ResourceOutcome,
    last: BackendRow,
    present: BackendRow | null,
    row: BackendRow,
  ): void {
    const ours = comparable(row);
    const fields = (present === null ? [] : rowChanges(last, present))
      .filter(({ field, row: theirs }) => ours[field] !== theirs)
      .map((change) => ({ ...change, resource: ours[change.field] }));
    if (present !== null && fields.length === 0) return;
    this.#options.onExternalChange({ resource, cluster: registryName, outcome: 'overruled', fields });
    this.#onReport(keyTextOf(resource));
  }
}

/** Row of `gateway_backend` that an outcome gives; null for none. */
export function rowOfOutcome(kinds: KindRegistry, outcome: ResourceOutcome): BackendRow | null {
  return kinds.of(outcome.key.kind).rows?.ofOutcome(outcome) ?? null;
}
