import type { KnexStore } from '../../src/store/openStore.ts';

/**
 * Makes another replica the leader, one that no test runs, for as long as the test takes. In one statement: between a release
 * and the next acquisition a replica of the test would take it.
 */
export async function makeAnotherLead({ database: { knex } }: KnexStore): Promise<void> {
  await knex('eg_leader').update({ holder: 'another', epoch: knex.raw('epoch + 1'), expires: 32_503_680_000_000 });
}
