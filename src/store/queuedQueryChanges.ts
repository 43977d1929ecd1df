import { Batcher } from './batcher.ts';
import type { Database } from './database.ts';
import { cutToWidth } from './historyText.ts';
import type { QueuedQueryEnd } from './store.ts';

/** Width of the column of the engine's id in characters. */
const WIDTH = 256;
/** Longest response that is written together with others: as many as a statement takes stay below MySQL's packets. */
const MAX_GROUPED_ANSWER = 32_768;

interface Ending {
  readonly id: string;
  readonly end: QueuedQueryEnd;
}

/**
 * Batched writes of queue changes: start of a submission, and its end. Changes that arrive during a write form the next
 * batch: at hundreds a second single commits would be most of the cost.
 */
export class QueuedQueryChanges {
  readonly #database: Database;
  readonly #begins: Batcher<string, { readonly replica: string }, string | null>;
  readonly #ends: Batcher<Ending, { readonly replica: string; readonly from: string }, boolean>;

  constructor(database: Database) {
    this.#database = database;
    this.#begins = new Batcher(
      (ids, { replica }) => this.#beginAll(ids, replica),
      (id) => id,
    );
    this.#ends = new Batcher(
      (endings, { replica, from }) => this.#endAll(endings, replica, from),
      ({ id }) => id,
    );
  }

  /** As `QueuedQueryRepository.begin`. */
  begin(id: string, replica: string): Promise<string | null> {
    return this.#begins.add(id, { replica });
  }

  /** As `QueuedQueryRepository.end`. */
  async end(id: string, replica: string, from: 'waiting' | 'submitting', end: QueuedQueryEnd): Promise<boolean> {
    const isShort = end.answer !== null && end.answer.length <= MAX_GROUPED_ANSWER;
    if (isShort) return await this.#ends.add({ id, end }, { replica, from });
    const changed = await this.#database.run((knex) =>
      knex('eg_queued_queries')
        .where({ id, replica, state: from })
        .update({
          ...{ state: end.state, engine_id: cut(end.engineId), answer: end.answer, request: null, command: null },
          changed: knex.raw(this.#database.dialect.clockMs),
        }),
    );
    return changed > 0;
  }

  #beginAll(ids: readonly string[], replica: string): Promise<readonly (string | null)[]> {
    return this.#database.run(async (knex) => {
      const waiting = (await knex('eg_queued_queries')
        .whereIn('id', [...ids].sort())
        .where({ state: 'waiting', replica })
        .select('id', 'request')) as { readonly id: string; readonly request: string | null }[];
      const begun = new Map(waiting.map(({ id, request }) => [id, request]));
      if (begun.size === 0) return ids.map(() => null);
      const those = [...begun.keys()].sort();
      const changed = await knex('eg_queued_queries')
        .whereIn('id', those)
        .where({ state: 'waiting', replica })
        .update({ state: 'submitting', changed: knex.raw(this.#database.dialect.clockMs) });
      if (changed < begun.size) {
        // Some were cancelled or taken over in between. No other group of this replica was at work: the others were changed here.
        const rows = (await knex('eg_queued_queries')
          .whereIn('id', those)
          .where({ state: 'submitting', replica })
          .select('id')) as { readonly id: string }[];
        const own = new Set(rows.map(({ id }) => id));
        for (const id of those) if (!own.has(id)) begun.delete(id);
      }
      return ids.map((id) => begun.get(id) ?? null);
    });
  }

  #endAll(endings: readonly Ending[], replica: string, from: string): Promise<readonly boolean[]> {
    const ids = endings.map(({ id }) => id).sort();
    return this.#database.run(async (knex) => {
      const each = (value: (end: QueuedQueryEnd) => string | null) =>
        knex.raw(
          `case id ${endings.map(() => 'when ? then ?').join(' ')} end`,
          endings.flatMap(({ id, end }) => [id, value(end) as string]),
        );
      const changed = await knex('eg_queued_queries')
        .whereIn('id', ids)
        .where({ state: from, replica })
        .update({
          state: each(({ state }) => state),
          engine_id: each(({ engineId }) => cut(engineId)),
          answer: each(({ answer }) => answer),
          ...{ request: null, command: null, changed: knex.raw(this.#database.dialect.clockMs) },
        });
      if (changed === 0 || changed === endings.length) return endings.map(() => changed > 0);
      // Each answer is sealed with a number of its own: a row that has it was changed here.
      const rows = (await knex('eg_queued_queries').whereIn('id', ids).select('id', 'answer')) as {
        readonly id: string;
        readonly answer: string | null;
      }[];
      const answers = new Map(rows.map(({ id, answer }) => [id, answer]));
      return endings.map(({ id, end }) => answers.get(id) === end.answer);
    });
  }
}

function cut(engineId: string | null): string | null {
  return engineId === null ? null : cutToWidth(engineId, WIDTH);
}
