/** `npm run cases -- NAME`: checks a shared set of cases and prints the result as a table. */
import process from 'node:process';
import { ruleCases } from './cases/rules.ts';
import { sqlCases } from './cases/sql.ts';

/** Sets of cases by name; each prints its table and gives the exit code. */
const sets: Readonly<Record<string, () => Promise<number>>> = { rules: ruleCases, sql: sqlCases };

const name = process.argv[2] ?? '';
const run = sets[name];
if (run === undefined) {
  console.error(`usage: npm run cases -- ${Object.keys(sets).join('|')}`);
  process.exitCode = 2;
} else {
  process.exitCode = await run();
}
