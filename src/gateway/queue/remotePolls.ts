import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { QueuedQueryRepository } from '../../store/queuedQueryRepository.ts';
import type { QueuedQueryRow } from '../../store/store.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { DurableQueue } from './durableQueue.ts';
import { type PollResponses, QueuedPolls, type QueuedState } from './queuedPolls.ts';

/** Polling interval of queries at other replicas with local requests, to detect that they do not wait any more. */
const SWEEP_MS = 250;
/** Batching delay for reads of unknown rows. */
const READ_MS = 10;
/** Maximum age of a row when a request arrives: deleted rows are not in any poll. */
const READ_AGAIN_MS = 3_000;
/** Cache time of a row after the last request: clients poll immediately. */
const KNOWN_MS = 2_000;
/** Maximum number of watched queries; requests for more get an immediate response. */
const MAX_WATCHED = 20_000;
/** Maximum age of the last request's time in the database. */
const TOUCH_AFTER_MS = 15_000;

export interface RemotePollsDependencies {
  readonly repository: QueuedQueryRepository;
  readonly queue: Pick<DurableQueue, 'poll' | 'adopt' | 'endLost' | 'outcomeOf'>;
  readonly responses: PollResponses;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Watched {
  readonly polls: QueuedPolls;
  row: QueuedQueryRow | null;
  /** Monotonic milliseconds of the last read, and of the last request. */
  readAt: number;
  polledAt: number;
}

/**
 * Polls of queries that another replica has, or had: they wait here for a change of the row. Rows are read in batches:
 * first on a request after some time, then those that do not wait any more. A query of a dead replica is adopted here.
 */
export class RemotePolls {
  readonly #dependencies: RemotePollsDependencies;
  readonly #watched = new Map<string, Watched>();
  readonly #unread = new Set<string>();
  /** Time at which the database recorded a query's last request, monotonic milliseconds. */
  readonly #touched = new Map<string, number>();
  #timer: NodeJS.Timeout | null = null;
  #timerAt = Number.POSITIVE_INFINITY;
  #nextSweep = 0;
  #isSweeping = false;

  constructor(dependencies: RemotePollsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Holds a request until its query's row changes, at most for a time (milliseconds). */
  hold(proxied: ProxiedRequest, id: string, token: number, holdMs: number): void {
    const { responses, clock } = this.#dependencies;
    const now = clock.monotonic();
    let watched = this.#watched.get(id);
    if (watched === undefined) {
      if (this.#watched.size >= MAX_WATCHED) {
        responses.waiting(proxied, id, token, 0, unknownState);
        return;
      }
      watched = { polls: new QueuedPolls(), row: null, readAt: Number.NEGATIVE_INFINITY, polledAt: now };
      this.#watched.set(id, watched);
    }
    watched.polledAt = now;
    watched.polls.hold(proxied, token, Math.max(holdMs, SWEEP_MS), (late, lateToken) =>
      this.#responseLate(late, id, lateToken),
    );
    if (now - watched.readAt >= READ_AGAIN_MS) this.#unread.add(id);
    this.#schedule();
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #responseLate(proxied: ProxiedRequest, id: string, token: number): void {
    const { responses, clock } = this.#dependencies;
    const { row, readAt } = this.#watched.get(id) ?? { row: null, readAt: 0 };
    if (row === null) {
      const message = `Query ${id} cannot be looked up at the moment; ask again in a second.`;
      responses.reject(proxied, id, 'undecided_query', message);
    } else responses.waiting(proxied, id, token, row.waitingMs + clock.monotonic() - readAt, stateOf(row));
  }

  #schedule(): void {
    if (this.#isSweeping || this.#watched.size === 0) return;
    const now = this.#dependencies.clock.monotonic();
    const at = this.#unread.size > 0 ? Math.min(this.#nextSweep, now + READ_MS) : this.#nextSweep;
    if (this.#timer !== null) {
      if (this.#timerAt <= at) return;
      clearTimeout(this.#timer);
    }
    this.#timerAt = at;
    this.#timer = setTimeout(
      () => {
        this.#timer = null;
        this.#isSweeping = true;
        void this.#sweep().finally(() => {
          this.#isSweeping = false;
          this.#schedule();
        });
      },
      Math.max(0, at - now),
    );
  }

  async #sweep(): Promise<void> {
    const { repository, clock, logger } = this.#dependencies;
    const unread = [...this.#unread];
    this.#unread.clear();
    try {
      if (unread.length > 0) {
        const rows = new Map((await repository.many(unread)).map((row) => [row.id, row]));
        for (const id of unread) await this.#settle(id, rows.get(id) ?? null);
      }
      if (clock.monotonic() < this.#nextSweep) return;
      const ids = this.#forgetIdle();
      if (ids.length > 0) {
        for (const row of await repository.settled(ids)) await this.#settle(row.id, row);
        await this.#touch(ids);
      }
    } catch (error) {
      for (const id of unread) this.#unread.add(id);
      this.#nextSweep = clock.monotonic() + SWEEP_MS;
      logger.debug({ err: error }, 'failed to read rows of queued queries');
    } finally {
      if (clock.monotonic() >= this.#nextSweep) this.#nextSweep = clock.monotonic() + SWEEP_MS;
    }
  }

  /** Removes queries without recent requests. @returns those with open requests and known rows */
  #forgetIdle(): readonly string[] {
    const now = this.#dependencies.clock.monotonic();
    const ids: string[] = [];
    for (const [id, { polls, row, polledAt }] of this.#watched) {
      if (polls.size === 0 && now - polledAt >= KNOWN_MS) this.#watched.delete(id);
      else if (polls.size > 0 && row !== null) ids.push(id);
    }
    return ids;
  }

  async #settle(id: string, row: QueuedQueryRow | null): Promise<void> {
    const { queue, responses } = this.#dependencies;
    const watched = this.#watched.get(id);
    if (watched === undefined) return;
    watched.row = row;
    watched.readAt = this.#dependencies.clock.monotonic();
    if (row === null) {
      this.#watched.delete(id);
      watched.polls.respondAll((proxied) => responses.unknown(proxied, id));
    } else if (row.state === 'waiting' && !row.isHeld) {
      if (await queue.adopt(row)) this.#moveToQueue(id, watched);
    } else if (row.state === 'submitting' && !row.isHeld) await queue.endLost(row);
    else if (row.state === 'submitted' || row.state === 'failed') {
      this.#watched.delete(id);
      const outcome = queue.outcomeOf(row);
      watched.polls.respondAll((proxied) => {
        if (outcome === null) responses.unknown(proxied, id);
        else responses.outcome(proxied, id, outcome);
      });
    }
  }

  /** The query is adopted here: its requests get its result. */
  #moveToQueue(id: string, watched: Watched): void {
    const { queue, responses } = this.#dependencies;
    this.#watched.delete(id);
    watched.polls.respondAll((proxied, token) => {
      if (queue.poll(proxied, id, token, SWEEP_MS)) return;
      const { row } = watched;
      responses.waiting(proxied, id, token, row?.waitingMs ?? 0, row === null ? unknownState : stateOf(row));
    });
  }

  async #touch(ids: readonly string[]): Promise<void> {
    const { repository, clock } = this.#dependencies;
    const now = clock.monotonic();
    const old = ids.filter((id) => now - (this.#touched.get(id) ?? Number.NEGATIVE_INFINITY) >= TOUCH_AFTER_MS);
    if (old.length === 0) return;
    await repository.touch(old);
    if (this.#touched.size > MAX_WATCHED) this.#touched.clear();
    for (const id of old) this.#touched.set(id, now);
  }
}

const unknownState: QueuedState = { group: '', decidedBy: null, rule: null, place: null };

function stateOf({ group }: QueuedQueryRow): QueuedState {
  return { ...unknownState, group };
}
