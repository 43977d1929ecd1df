import { isOrdered } from '../sql/analyzeSql.ts';
import type { ResultColumn } from './resultFold.ts';
import {
  lost,
  type RunCluster,
  type RunLimits,
  type RunStatement,
  type StatementRun,
  type StatementRuns,
} from './statementRuns.ts';
import { type QueryVerdict, verdictOf } from './verdict.ts';

/** Both clusters of a replay, and its bounds. */
export interface ReplayPair {
  readonly control: RunCluster;
  readonly candidate: RunCluster;
  /** `validate`: the engines check statements. `run`: results are compared. */
  readonly mode: 'run' | 'validate';
  readonly limits: RunLimits;
}

/** A verdict with the runs that it compares. */
export interface ReplayedQuery extends QueryVerdict {
  readonly control: StatementRun;
  readonly candidate: StatementRun;
}

/**
 * Runs a statement on both clusters and judges it. A result that is too large is compared by checksums that the engines
 * compute; where results differ, the control runs once more.
 * @param hasFailed as of `verdictOf`
 * @throws the reason of the signal
 */
export async function replayQuery(
  runs: StatementRuns,
  recorded: RunStatement,
  hasFailed: boolean,
  { control, candidate, mode, limits }: ReplayPair,
  signal: AbortSignal,
): Promise<ReplayedQuery> {
  const onBoth = (statement: RunStatement) =>
    Promise.all([control, candidate].map((cluster) => runs.run(cluster, statement, limits, signal))) as Promise<
      [StatementRun, StatementRun]
    >;
  if (mode === 'validate') {
    if (recorded.prepared?.text.includes('?') === true) {
      const run = lost('');
      return { kind: 'NotComparable', reason: 'EXPLAIN takes no parameters', control: run, candidate: run };
    }
    const [one, other] = await onBoth(validation(recorded));
    return { ...verdictOf(one, other, null, false, hasFailed), control: one, candidate: other };
  }
  let statement = recorded;
  let [one, other] = await onBoth(statement);
  const large = [one, other].find((run) => run.kind === 'tooLarge');
  if (large !== undefined && recorded.prepared === null) {
    statement = checksums(recorded, large.kind === 'tooLarge' ? large.columns : []);
    const summed = await onBoth(statement);
    // A result that the engines cannot sum stays too large.
    if (summed.every(({ kind }) => kind === 'done')) [one, other] = summed;
  }
  const ordered = statement === recorded && isOrdered(recorded.prepared?.text ?? recorded.text);
  const first = verdictOf(one, other, null, ordered, hasFailed);
  if (first.kind !== 'Different') return { ...first, control: one, candidate: other };
  const again = await runs.run(control, statement, limits, signal);
  return { ...verdictOf(one, other, again, ordered, hasFailed), control: one, candidate: other };
}

function validation({ prepared, ...statement }: RunStatement): RunStatement {
  return { ...statement, prepared: null, text: `EXPLAIN (TYPE VALIDATE) ${prepared?.text ?? statement.text}` };
}

/** A statement with one row: the number of rows of another one, and a checksum of each column. */
function checksums(statement: RunStatement, columns: readonly ResultColumn[]): RunStatement {
  const names = columns.map((_, index) => `c${index}`);
  const sums = columns.map(({ type }, index) =>
    // The same numbers in another order have another sum in their last digits: checksums would differ.
    /^(?:double|real)$/i.test(type) ? `sum(c${index})` : `checksum(c${index})`,
  );
  const list = ['count(*)', ...sums].join(', ');
  return { ...statement, text: `SELECT ${list} FROM (\n${statement.text}\n) AS r (${names.join(', ')})` };
}
