import type { Logger } from 'pino';
import { FairMap } from '../../model/fairMap.ts';
import { within } from '../../model/timeLimit.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import { mayHaveMoved, type OwnershipConflict, type QueryOwner } from './queryOwner.ts';

export interface KnownOwner {
  owner: QueryOwner;
  settled: boolean;
}

/** Owners in memory, by suffix or by full id. */
export interface OwnerMemory {
  get(key: string): KnownOwner | undefined;
  remember(key: string, owner: QueryOwner, settled: boolean): KnownOwner;
}

/** Owners in the database, by suffix or by full id. Every method rejects while the database is unavailable. */
export interface OwnerRecords {
  /** `coordinator` or `query`, for messages. */
  readonly kind: string;
  get(key: string): Promise<QueryOwner | null>;
  /** Stores an owner where the key has none. @returns the owner that is stored afterwards */
  claim(key: string, owner: QueryOwner): Promise<QueryOwner>;
  /**
   * Replaces an owner.
   * @param from the owner that must be stored
   * @param silentFor milliseconds for which no replica may have seen a sign of life of `from`; null if it does not
   * matter
   * @returns the owner that is stored afterwards
   */
  replace(key: string, from: QueryOwner, to: QueryOwner, silentFor: number | null): Promise<QueryOwner>;
}

/** Conditions of claims, the same for suffixes and full ids. */
export interface ClaimConditions {
  readonly table: { readonly current: RoutingTable };
  /** Milliseconds since the last sign of life at a `proxyTo`. */
  readonly silentFor: (proxyTo: string) => number;
  /** `routing.ownerTakeover`, milliseconds. */
  readonly takeover: number;
  /** Longest wait for the database, milliseconds. */
  readonly learnTimeout: number;
  readonly unavailable: () => void;
  readonly logger: Logger;
}

/** The outcome of a claim; null: the claimant is the owner. */
export type Claimed = OwnershipConflict | null;

interface Pending {
  readonly owner: QueryOwner;
  readonly outcome: Promise<Claimed>;
}

/** Writes that wait for the database. */
const MAX_UNWRITTEN = 100_000;
const REPEATED_AT_ONCE = 100;

/**
 * Decides who owns a suffix or a query id: the first to claim it, by an insert into the database, keeps it. The owner
 * loses it only when it moves to another address, or when no replica saw a sign of life of it for
 * `routing.ownerTakeover`. While the database is unavailable this replica's memory decides, and the database settles the
 * claim later: the first one that is stored wins.
 */
export class OwnerClaims {
  readonly #memory: OwnerMemory;
  readonly #records: OwnerRecords;
  readonly #conditions: ClaimConditions;
  readonly #onLoss: (key: string, claimant: QueryOwner, owner: QueryOwner) => void;
  readonly #pending = new Map<string, Pending>();
  readonly #unwritten = new FairMap<string, QueryOwner>({ max: MAX_UNWRITTEN });

  /** @param onLoss called if the database settled a claim that memory had accepted for another cluster */
  constructor(
    memory: OwnerMemory,
    records: OwnerRecords,
    conditions: ClaimConditions,
    onLoss: (key: string, claimant: QueryOwner, owner: QueryOwner) => void,
  ) {
    this.#memory = memory;
    this.#records = records;
    this.#conditions = conditions;
    this.#onLoss = onLoss;
  }

  /**
   * A cluster responded with a query id.
   * @param key the id's suffix, or the whole id
   * @param mayClaim asked for a key that no one owns: whether the claimant may have one more
   * @returns null when it is the owner and all is stored; else a promise of the outcome, which takes no longer than the
   *   learn timeout and never rejects
   */
  learn(key: string, claimant: QueryOwner, mayClaim: () => boolean): null | Promise<Claimed> {
    const entry = this.#memory.get(key);
    if (entry === undefined) return this.#claim(key, claimant, mayClaim);
    if (entry.owner.proxyTo === claimant.proxyTo) {
      if (entry.owner.cluster !== claimant.cluster) this.#rename(entry, claimant);
      return null;
    }
    return this.#dispute(key, claimant, entry);
  }

  /** Repeats writes that the database could not take. */
  writeAgain(): void {
    let left = REPEATED_AT_ONCE;
    for (const [key, owner] of this.#unwritten.entries()) {
      if (left-- === 0) return;
      this.#unwritten.delete(key);
      this.#records.claim(key, owner).then(
        (stored) => this.#settle(key, owner, stored),
        () => this.#unwritten.set(key, owner.cluster, owner),
      );
    }
  }

  /** Two clusters are registered with one URL, or one has a new name: the owner's name is one that is registered. */
  #rename(entry: KnownOwner, claimant: QueryOwner): void {
    const { clusters } = this.#conditions.table.current;
    if (clusters.get(entry.owner.cluster)?.proxyTo === entry.owner.proxyTo) return;
    if (clusters.get(claimant.cluster)?.proxyTo === claimant.proxyTo) entry.owner = claimant;
  }

  #claim(key: string, claimant: QueryOwner, mayClaim: () => boolean): Promise<Claimed> {
    const pending = this.#pending.get(key);
    if (pending !== undefined) {
      if (pending.owner.proxyTo === claimant.proxyTo) return pending.outcome;
      return pending.outcome.then(() => this.learn(key, claimant, mayClaim));
    }
    if (!mayClaim()) return Promise.resolve({ kind: 'tooMany' });
    const outcome = this.#decide(key, claimant).finally(() => this.#pending.delete(key));
    this.#pending.set(key, { owner: claimant, outcome });
    return outcome;
  }

  async #decide(key: string, claimant: QueryOwner): Promise<Claimed> {
    const [memory, records] = [this.#memory, this.#records];
    const { learnTimeout, logger, unavailable } = this.#conditions;
    let isLate = false;
    const writing = records.claim(key, claimant).then(
      (stored) => {
        if (isLate) this.#settle(key, claimant, stored);
        return stored;
      },
      (error: unknown) => {
        unavailable();
        this.#unwritten.set(key, claimant.cluster, claimant);
        logger.warn({ err: error, [records.kind]: key }, 'failed to store owner of queries; kept in memory');
        return null;
      },
    );
    const stored = await within(writing, learnTimeout, 'late' as const);
    if (stored === 'late') isLate = true;
    // A lookup may have found the owner meanwhile.
    const entry = memory.get(key);
    if (entry !== undefined && entry.owner.proxyTo !== claimant.proxyTo) return this.#dispute(key, claimant, entry);
    if (stored === null || stored === 'late') {
      memory.remember(key, claimant, false);
      return null;
    }
    if (stored.proxyTo === claimant.proxyTo) {
      memory.remember(key, claimant, true);
      return null;
    }
    return this.#dispute(key, claimant, memory.remember(key, stored, true));
  }

  async #dispute(key: string, claimant: QueryOwner, entry: KnownOwner): Promise<Claimed> {
    const [memory, records] = [this.#memory, this.#records];
    const { table, learnTimeout, takeover, silentFor, logger } = this.#conditions;
    const { owner } = entry;
    const replacing = async (from: QueryOwner, silence: number | null): Promise<Claimed> => {
      const stored = await within(records.replace(key, from, claimant, silence), learnTimeout, null);
      if (stored === null) return { kind: 'owned', owner: from };
      const isOwner = stored.proxyTo === claimant.proxyTo;
      memory.remember(key, isOwner ? claimant : stored, true);
      if (isOwner && silence !== null) {
        logger.warn({ [records.kind]: key, from: from.cluster, to: claimant.cluster }, 'owner of query ids changed');
      }
      return isOwner ? null : { kind: 'owned', owner: stored };
    };
    try {
      if (mayHaveMoved(table.current, owner, claimant)) {
        memory.remember(key, claimant, entry.settled);
        await replacing(owner, null);
        return null;
      }
      if (silentFor(owner.proxyTo) < takeover) return { kind: 'owned', owner };
      const stored = (await within(records.get(key), learnTimeout, undefined)) ?? owner;
      if (stored.proxyTo === claimant.proxyTo) {
        memory.remember(key, claimant, true);
        return null;
      }
      if (stored.proxyTo !== owner.proxyTo) memory.remember(key, stored, true);
      if (silentFor(stored.proxyTo) < takeover) return { kind: 'owned', owner: stored };
      return await replacing(stored, takeover);
    } catch (error) {
      this.#conditions.unavailable();
      logger.debug({ err: error, [records.kind]: key }, 'failed to decide claim of query ids in the database');
      return mayHaveMoved(table.current, owner, claimant) ? null : { kind: 'owned', owner };
    }
  }

  /** The database settled what memory had decided. */
  #settle(key: string, claimant: QueryOwner, stored: QueryOwner): void {
    const { table, unavailable } = this.#conditions;
    const entry = this.#memory.get(key);
    if (stored.proxyTo === claimant.proxyTo) {
      if (entry?.owner.proxyTo === stored.proxyTo) entry.settled = true;
      return;
    }
    if (entry !== undefined && entry.owner.proxyTo !== claimant.proxyTo) return;
    if (mayHaveMoved(table.current, stored, claimant)) {
      this.#records.replace(key, stored, claimant, null).catch(unavailable);
      return;
    }
    this.#memory.remember(key, stored, true);
    this.#onLoss(key, claimant, stored);
  }
}
