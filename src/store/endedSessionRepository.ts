import { agedTable } from './deletion.ts';

/** `eg_ended_sessions`. */
export class EndedSessionRepository extends agedTable('eg_ended_sessions', 'until_ms') {
  /** Of two that add the same id at once, the database lets one insert its row. */
  add(id: string, until: number): Promise<boolean> {
    return this.database.run(async (knex) => {
      const present = await knex('eg_ended_sessions').where('id', id).first('id');
      if (present !== undefined) return false;
      try {
        await knex('eg_ended_sessions').insert({ id, until_ms: until });
        return true;
      } catch (error) {
        if ((await knex('eg_ended_sessions').where('id', id).first('id')) !== undefined) return false;
        throw error;
      }
    });
  }

  has(id: string): Promise<boolean> {
    return this.database.run(
      async (knex) => (await knex('eg_ended_sessions').where('id', id).first('id')) !== undefined,
    );
  }
}
