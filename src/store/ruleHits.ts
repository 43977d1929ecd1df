import type { Database } from './database.ts';

export interface RuleHit {
  readonly rule: string;
  readonly lastHour: number;
  readonly lastDay: number;
}

/** Counting queries by the rule that decided them, on all replicas. */
export interface RuleHits {
  /** Rules that decided queries in the day before a time (milliseconds since 1970), by name. */
  before(now: number): Promise<readonly RuleHit[]>;
}

/** Sums and counts come as text from some drivers. */
interface Row {
  readonly rule_name: string;
  readonly hour: number | string;
  readonly day: number | string;
}

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Counts in SQL over `eg_query_outcomes`; a day of a million queries takes some tenths of a second. */
export function ruleHits(database: Database): RuleHits {
  return {
    before: (now) =>
      database.run(async (knex) => {
        const rows: Row[] = await knex('eg_query_outcomes')
          .whereNotNull('rule_name')
          .where('created', '>=', now - DAY)
          .groupBy('rule_name')
          .orderBy('rule_name')
          .select(
            'rule_name',
            knex.raw('sum(case when created >= ? then 1 else 0 end) as hour', [now - HOUR]),
            knex.raw('count(*) as day'),
          );
        return rows.map((row) => ({
          rule: row.rule_name,
          lastHour: Number(row.hour),
          lastDay: Number(row.day),
        }));
      }),
  };
}
