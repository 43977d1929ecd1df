import { statementDigests, statementLabels } from '../src/sql/statementDigests.ts';
import { tokenizeSql } from '../src/sql/syntax/lexer.ts';

const ROUNDS = 7;
const ROUND_MS = 400;

/** A statement of a dashboard with about so many characters. @param number differs between statements */
function statement(characters: number, number: number): string {
  let columns = '';
  const rest = `SELECT date_trunc('day', e.created_at) AS day FROM hive.web.events e JOIN hive.web.dim_users u ON u.id = e.user_id WHERE e.region = '${number}' AND e.kind IN (1, 2, ${number}) GROUP BY 1 ORDER BY 1 LIMIT 100`;
  for (let i = 0; columns.length + rest.length < characters; i += 1) {
    columns += `, sum(e.amount_${i}) AS "Amount ${i}"`;
  }
  return rest.replace(' FROM', `${columns} FROM`);
}

/** Mean microseconds of processor time of a call over all texts, of the fastest round. */
function time(texts: readonly string[], call: (text: string) => unknown): number {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round += 1) {
    const start = performance.now();
    const before = process.threadCpuUsage();
    let calls = 0;
    do {
      for (const text of texts) call(text);
      calls += texts.length;
    } while (performance.now() - start < ROUND_MS);
    const { user, system } = process.threadCpuUsage(before);
    best = Math.min(best, (user + system) / calls);
  }
  return best;
}

/** `npm run bench -- digests`: digests and labels of statements, with the lexer and after it (docs/performance.md#digests). */
export async function run(): Promise<void> {
  console.log('microseconds of processor time a statement, best of 7 rounds');
  console.log('characters    digests    of these the lexer    after an analysis    labels');
  for (const characters of [60, 540, 5_000]) {
    const texts = Array.from({ length: 200 }, (_, i) => statement(characters, i));
    const whole = time(texts, (text) => statementDigests(text, null));
    const lexer = time(texts, tokenizeSql);
    const labels = time(texts, (text) => statementLabels(text, 'dashboards'));
    const mean = texts.reduce((sum, text) => sum + text.length, 0) / texts.length;
    const columns = [mean.toFixed(0).padStart(10), whole.toFixed(2).padStart(11), lexer.toFixed(2).padStart(22)];
    console.log(`${columns.join('')}${(whole - lexer).toFixed(2).padStart(21)}${labels.toFixed(2).padStart(10)}`);
  }
}
