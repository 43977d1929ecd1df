import type { Database } from './database.ts';

export interface RuleHit {
  readonly rule: string;
  readonly lastHour: number;
  readonly lastDay: number;
}

export type RuleHits = ReturnType<typeof ruleHits>;

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Counts queries of all replicas by the rule that decided them; a day of a million queries takes some tenths of a second. */
export function ruleHits(database: Database) {
  return {
    /** Rules that decided queries in the day before a time (milliseconds since 1970), by name. */
    before: (now: number): Promise<readonly RuleHit[]> =>
      database.run(
        async (knex) =>
          (await knex('eg_query_outcomes')
            .whereNotNull('rule_name')
            .where('created', '>=', now - DAY)
            .groupBy('rule_name')
            .orderBy('rule_name')
            .select({
              rule: 'rule_name',
              lastHour: knex.raw('sum(case when created >= ? then 1 else 0 end)', [now - HOUR]),
              lastDay: knex.raw('count(*)'),
            })) as RuleHit[],
      ),
  };
}
