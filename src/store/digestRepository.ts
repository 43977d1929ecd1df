import type { Knex } from 'knex';
import { BulkInsert } from './bulkInsert.ts';
import { batches, storable } from './columns.ts';
import type { StatementFacts } from './queryOutcome.ts';
import type { Dialect } from './store.ts';

const ROWS = 500;
const CHARACTERS = 250_000;
const DAY_MS = 24 * 3_600_000;

const shapes = new BulkInsert(
  'eg_digests',
  { digest: 'text', shape: 'text', first_used: 'bigint', last_used: 'bigint' },
  'digest',
  (fresh) => {
    const [present, last] = ['eg_digests.last_used', fresh('last_used')];
    return `last_used = case when ${last} > ${present} then ${last} else ${present} end`;
  },
  (fresh) => `${fresh('last_used')} > eg_digests.last_used`,
);

/**
 * Keeps shapes of statements, those with a text: the others were written lately. The time of their last use is rounded up by one
 * to two days, so that a shape that many queries have is seldom written.
 */
export async function insertShapes(
  knex: Knex,
  dialect: Dialect,
  queries: readonly { readonly created: number; readonly statement?: StatementFacts }[],
): Promise<void> {
  const rows = new Map<string, readonly [string, string, number, number]>();
  for (const { created, statement } of queries) {
    const { digest, shapeText } = statement?.columns ?? {};
    if (digest === undefined || shapeText == null) continue;
    rows.set(digest, [digest, storable(shapeText), created, (Math.ceil(created / DAY_MS) + 1) * DAY_MS]);
  }
  // In the order of their keys, so that two batches never wait for each other.
  const sorted = [...rows.values()].sort(([a], [b]) => (a < b ? -1 : 1));
  const sizeOf = ([, shape]: (typeof sorted)[number]) => shape.length + CHARACTERS / ROWS;
  for (const some of batches(sorted, CHARACTERS, sizeOf)) await shapes.run(knex, dialect, some);
}
