import type { Knex } from 'knex';
import type { Kind, ResourceKey } from '../model/resource.ts';
import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import { cutToWidth } from './historyText.ts';
import type { Fence, NewObservation, ObservationRepository, ReplicaObservation } from './store.ts';

const TABLE = 'eg_observations';
/** Rows that one statement takes at most. */
const BATCH = 500;
/** Resources whose rows one statement deletes. */
const REMOVED_AT_ONCE = 100;
/** Rows that one reading answers at most, the latest: those of ten thousand resources and a few replicas. */
const MAX_ROWS = 50_000;
/** What was stored shortly before the last reading may have been committed after it, in milliseconds. */
const OVERLAP_MS = 30_000;
const MESSAGE_WIDTH = 1024;
const REPLICA_WIDTH = 64;

/** A row as drivers give it: big integers may come as text. */
interface Row {
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
  readonly type: string;
  readonly replica: string;
  readonly uid: string;
  readonly generation: number | string;
  readonly ok: number;
  readonly message: string;
  readonly observed: number | string;
  readonly expires: number | string;
}

/** `eg_observations`: what replicas observed of resources. All times are by the database's clock. */
export class KnexObservationRepository implements ObservationRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  put(replica: string, observations: readonly NewObservation[]): Promise<void> {
    const { clockMs } = this.database.dialect;
    return this.database.run(async (knex) => {
      for (let start = 0; start < observations.length; start += BATCH) {
        const rows = observations
          .slice(start, start + BATCH)
          .map(({ key: { kind, namespace, name }, type, uid, generation, ok, message, ageMs, lifetimeMs }) => ({
            ...{ kind, namespace, name, type, uid, generation, ok: ok ? 1 : 0 },
            replica: fitted(replica),
            message: cutToWidth(message, MESSAGE_WIDTH),
            observed: after(knex, clockMs, -ageMs),
            expires: after(knex, clockMs, lifetimeMs),
            written: after(knex, clockMs, 0),
          }));
        await knex(TABLE)
          .insert(rows)
          .onConflict(['kind', 'namespace', 'name', 'type', 'replica'])
          .merge(['uid', 'generation', 'ok', 'message', 'observed', 'expires', 'written']);
      }
    });
  }

  others(
    replica: string,
    since: number | null,
  ): Promise<{ readonly observations: readonly ReplicaObservation[]; readonly mark: number }> {
    return this.database.run(async (knex) => {
      const now = await this.database.time(knex);
      const query = knex(TABLE).whereNot('replica', fitted(replica)).where('expires', '>', now);
      if (since !== null) query.where('written', '>=', since - OVERLAP_MS);
      const rows = (await query.orderBy('written', 'desc').limit(MAX_ROWS)) as Row[];
      return { observations: rows.map((row) => fromRow(row, now)), mark: now };
    });
  }

  remove(keys: readonly ResourceKey[]): Promise<void> {
    return this.database.run(async (knex) => {
      for (let start = 0; start < keys.length; start += REMOVED_AT_ONCE) {
        const query = knex(TABLE);
        for (const { kind, namespace, name } of keys.slice(start, start + REMOVED_AT_ONCE)) {
          query.orWhere({ kind, namespace, name });
        }
        await query.delete();
      }
    });
  }

  async deleteExpired(fence: Fence | null = null): Promise<number> {
    const now = await this.database.run((knex) => this.database.time(knex));
    return await deleteInBatches(this.database, TABLE, 'expires', now, fence);
  }
}

/** A replica's name: its end, which is what differs among processes of one host. */
const fitted = (replica: string): string => replica.slice(-REPLICA_WIDTH);

/** A time by the database's clock. The number is written out, as databases differ in the types that they give parameters. */
const after = (knex: Knex, clockMs: string, ms: number): Knex.Raw => knex.raw(`${clockMs} + (${Math.round(ms)})`);

function fromRow(row: Row, now: number): ReplicaObservation {
  const { kind, namespace, name, type, replica, uid, message } = row;
  return {
    ...{ key: { kind, namespace, name }, type, replica, uid, message },
    generation: Number(row.generation),
    ok: row.ok === 1,
    observedAt: Number(row.observed),
    ageMs: now - Number(row.observed),
    remainingMs: Number(row.expires) - now,
  };
}
