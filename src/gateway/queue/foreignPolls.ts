import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { QueuedQueryRepository, QueuedQueryRow } from '../../store/store.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { type PollAnswers, QueuedPolls } from './queuedPolls.ts';
import type { WaitingRoom } from './waitingRoom.ts';

/** Time between two looks at the rows of queries that are asked for here and held elsewhere. */
const LOOK_MS = 250;
/** Queries that are watched at a time; requests for more are answered at once. */
const MAX_WATCHED = 20_000;
/** Age of the time of the last request in the database. */
const TOUCH_AFTER_MS = 60_000;

/** What requests for queries of other replicas are served with. */
export interface ForeignPollsDependencies {
  readonly repository: QueuedQueryRepository;
  readonly room: Pick<WaitingRoom, 'poll' | 'adopt' | 'endLost' | 'outcomeOf'>;
  readonly answers: PollAnswers;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Watched {
  readonly polls: QueuedPolls;
  /** As the row was seen last. */
  row: QueuedQueryRow | null;
}

/**
 * Requests for queries that another replica holds, or held: they wait here on the row. Rows of all of them are read
 * together. A query whose replica is dead goes on here.
 */
export class ForeignPolls {
  readonly #dependencies: ForeignPollsDependencies;
  readonly #watched = new Map<string, Watched>();
  /** When the database had a request for a query noted, monotonic milliseconds. */
  readonly #touched = new Map<string, number>();
  #timer: NodeJS.Timeout | null = null;
  #isLooking = false;

  constructor(dependencies: ForeignPollsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Holds a request until its query's row says more, at most for a time (milliseconds). */
  hold(proxied: ProxiedRequest, id: string, token: number, holdMs: number): void {
    const { answers } = this.#dependencies;
    let watched = this.#watched.get(id);
    if (watched === undefined) {
      if (this.#watched.size >= MAX_WATCHED) {
        answers.waiting(proxied, id, token, 0);
        return;
      }
      watched = { polls: new QueuedPolls(), row: null };
      this.#watched.set(id, watched);
    }
    const { polls } = watched;
    polls.hold(proxied, token, Math.max(holdMs, LOOK_MS), (late, lateToken) => {
      const row = this.#watched.get(id)?.row ?? null;
      if (polls.size === 0) this.#watched.delete(id);
      if (row === null)
        answers.refuse(
          late,
          id,
          'undecided_query',
          `Query ${id} cannot be looked up at the moment; ask again in a second.`,
        );
      else answers.waiting(late, id, lateToken, row.waitingMs);
    });
    this.#schedule(0);
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #schedule(delayMs: number): void {
    if (this.#timer !== null && delayMs > 0) return;
    if (this.#isLooking) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#isLooking = true;
      void this.#look().finally(() => {
        this.#isLooking = false;
        if (this.#watched.size > 0) this.#schedule(LOOK_MS);
      });
    }, delayMs);
  }

  async #look(): Promise<void> {
    const { repository, logger } = this.#dependencies;
    const ids: string[] = [];
    for (const [id, { polls }] of this.#watched) {
      if (polls.size === 0) this.#watched.delete(id);
      else ids.push(id);
    }
    try {
      const rows = new Map((await repository.many(ids)).map((row) => [row.id, row]));
      for (const id of ids) await this.#settle(id, rows.get(id) ?? null);
      await this.#touch(ids);
    } catch (error) {
      logger.debug({ err: error }, 'rows of waiting queries could not be read');
    }
  }

  async #settle(id: string, row: QueuedQueryRow | null): Promise<void> {
    const { room, answers } = this.#dependencies;
    const watched = this.#watched.get(id);
    if (watched === undefined) return;
    watched.row = row;
    if (row === null) {
      this.#watched.delete(id);
      watched.polls.answerAll((proxied) => answers.gone(proxied, id));
    } else if (row.state === 'waiting' && !row.isHeld) {
      if (await room.adopt(row)) this.#moveToRoom(id, watched);
    } else if (row.state === 'submitting' && !row.isHeld) await room.endLost(row);
    else if (row.state === 'submitted' || row.state === 'failed') {
      this.#watched.delete(id);
      const outcome = room.outcomeOf(row);
      watched.polls.answerAll((proxied) => {
        if (outcome === null) answers.gone(proxied, id);
        else answers.outcome(proxied, id, outcome);
      });
    }
  }

  /** The query is held here now: its requests are answered by what comes of it. */
  #moveToRoom(id: string, watched: Watched): void {
    const { room, answers } = this.#dependencies;
    this.#watched.delete(id);
    watched.polls.answerAll((proxied, token) => {
      if (!room.poll(proxied, id, token, LOOK_MS)) answers.waiting(proxied, id, token, watched.row?.waitingMs ?? 0);
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
