import { expect, test } from 'vitest';
import type { ReplayResult } from '../../../src/replay/replayJobs.ts';
import { digestVerdicts, junitReport, markdownReport } from '../../../src/replay/replayReport.ts';
import { ResultFold } from '../../../src/replay/resultFold.ts';
import type { StatementRun } from '../../../src/replay/statementRuns.ts';
import { verdictOf } from '../../../src/replay/verdict.ts';

const figures = { queryId: 'q' };
const done = (rows: readonly unknown[][], cpuMillis = 10, type = 'bigint'): StatementRun => {
  const fold = new ResultFold([{ name: 'n', type }]);
  fold.add(rows);
  return { kind: 'done', digest: fold.digest(), cpuMillis, ...figures };
};
const failed = (name: string): StatementRun => ({
  ...{ kind: 'failed', cpuMillis: 1, ...figures },
  error: { name, message: 'no' },
});
const tooLarge: StatementRun = { kind: 'tooLarge', columns: [], cpuMillis: 1, ...figures };
const lost: StatementRun = { kind: 'lost', reason: 'it hangs', cpuMillis: null, ...figures };

test.each([
  ['equal rows', done([[1], [2]]), done([[2], [1]]), null, 'Same'],
  ['the same error', failed('SYNTAX_ERROR'), failed('SYNTAX_ERROR'), null, 'Same'],
  ['another error', failed('SYNTAX_ERROR'), failed('TYPE_MISMATCH'), null, 'Different'],
  ['an error on the candidate', done([[1]]), failed('SYNTAX_ERROR'), null, 'FailedOnCandidate'],
  ['an error on the control', failed('SYNTAX_ERROR'), done([[1]]), null, 'NotComparable'],
  ['a candidate that hangs', done([[1]]), lost, null, 'FailedOnCandidate'],
  ['a control that hangs', lost, done([[1]]), null, 'NotComparable'],
  ['other values', done([[1]]), done([[2]]), null, 'Different'],
  ['other values, also of the control', done([[1]]), done([[2]]), done([[3]]), 'NonDeterministic'],
  ['other values, but not of the control', done([[1]]), done([[2]]), done([[1]]), 'Different'],
  [
    'other columns, and another value of the control',
    done([[1]]),
    done([[2]], 10, 'integer'),
    done([[3]]),
    'Different',
  ],
  ['more CPU time', done([[1]], 1_000), done([[1]], 4_000), null, 'Slower'],
  ['more CPU time of a short statement', done([[1]], 10), done([[1]], 900), null, 'Same'],
  ['a large result', tooLarge, tooLarge, null, 'NotComparable'],
] as const)('judges %s', (_name, control, candidate, again, expected) => {
  expect(verdictOf(control, candidate, again, false, true).kind).toBe(expected);
});

test('equal errors of a query that once succeeded prove nothing', () => {
  const error = failed('PERMISSION_DENIED');
  expect(verdictOf(error, error, null, false, false)).toMatchObject({ kind: 'NotComparable' });
});

const result = (digest: string, verdict: ReplayResult['verdict'], reason: string): ReplayResult => ({
  ...{ queryId: '20261127_1', digest, user: 'ann', verdict, reason },
  ...{ standsFor: { queries: 1, cpuMillis: 1 }, controlQuery: 'c1', candidateQuery: 'd1' },
  ...{ controlCpuMillis: 5, candidateCpuMillis: 6, controlError: null, candidateError: null },
});

test('reports the worst verdict of each shape', () => {
  const verdicts = digestVerdicts([
    result('aaaa', 'Same', '1 equal rows'),
    result('aaaa', 'Different', '1 and 2 rows | <b>'),
    result('bbbb', 'NotComparable', 'too large'),
  ]);
  expect(verdicts.map(({ digest, verdict, queries }) => [digest, verdict, queries])).toEqual([
    ['aaaa', 'Different', 2],
    ['bbbb', 'NotComparable', 1],
  ]);
  const head = { name: 'a/b', control: 'blue', candidate: 'green', verified: false, message: '2 of 3 queries' };
  const junit = junitReport(head, verdicts);
  expect(junit).toContain('<testsuite name="a/b" tests="2" failures="1" skipped="1">');
  expect(junit).toContain('<failure type="Different" message="1 and 2 rows | &lt;b&gt;">');
  expect(markdownReport(head, verdicts)).toContain('| aaaa | Different | 2 | 1 and 2 rows \\| <b> | 20261127_1 |');
});
