import { readFileSync } from 'node:fs';
import { beforeEach, expect, test } from 'vitest';
import { scriptFolder } from '../../support/scriptFolder.ts';

const { write, pathOf, run } = scriptFolder('totals.ts');

beforeEach(() => {
  // Runs of a file that has "luck" in its name pass; each is noted.
  const note = "(await import('node:fs')).appendFileSync('runs', `${process.argv.slice(2).join(' ')}\\n`);";
  write('node_modules/vitest/vitest.mjs', `${note}\nprocess.exitCode = process.argv[5].includes('luck') ? 0 : 1;\n`);
  write('runs', '');
});

/** Runs the script over a run in which each of these files has a passed and a failed test. */
function totals(files: Readonly<Record<string, string>>): { status: number | null; output: string; runs: string[] } {
  for (const [file, source] of Object.entries(files)) write(file, source);
  const testResults = Object.keys(files).map((file) => ({
    name: pathOf(file),
    status: 'failed',
    message: '',
    assertionResults: [
      { ancestorTitles: [], title: 'works', status: 'passed', failureMessages: [] },
      { ancestorTitles: ['group'], title: 'breaks', status: 'failed', failureMessages: ['expected 1 to be 2'] },
    ],
  }));
  const count = testResults.length;
  write('reports/steps.tsv', `check\tstep\t0\t5\t9\ntest\tsuite\t${count > 0 ? 1 : 0}\t60\t100\n`);
  write(
    'reports/test.json',
    JSON.stringify({ numPassedTests: count, numPendingTests: 1, numTodoTests: 0, testResults }),
  );
  const { status, stdout } = run('reports');
  return { status, output: stdout, runs: readFileSync(pathOf('runs'), 'utf8').split('\n').filter(Boolean) };
}

test('a run without failures runs nothing again', () => {
  const { status, output, runs } = totals({});
  expect(output).toMatch(/\n0 passed, 0 failed, 1 skipped\n$/);
  expect({ status, runs }).toEqual({ status: 0, runs: [] });
});

test('a file of a failed test runs again once, alone; if it passes, the failure is listed as flaky', () => {
  const { status, output, runs } = totals({ 'test/ui/luck.test.ts': '' });
  expect(runs).toEqual(['run --project ui test/ui/luck.test.ts']);
  expect(output).toContain(
    'FLAKY test (passes alone; its first failure follows): test/ui/luck.test.ts > group > breaks\n    expected 1 to be 2',
  );
  expect(output).toMatch(/\n2 passed, 0 failed, 1 skipped\n$/);
  expect(status).toBe(0);
});

test('a file that fails again fails the run', () => {
  const { status, output, runs } = totals({ 'test/ui/luck.test.ts': '', 'test/unit/defect.test.ts': '' });
  expect(runs).toHaveLength(2);
  expect(output).toContain('FLAKY test (passes alone; its first failure follows): test/ui/luck.test.ts');
  expect(output).toContain('FAILED test: test/unit/defect.test.ts > group > breaks\n    expected 1 to be 2');
  expect(output).toMatch(/\n3 passed, 1 failed, 1 skipped\n$/);
  expect(status).toBe(1);
});

test.each([
  ['the suite of faults', { 'test/faults/luck.test.ts': '' }],
  ['a property test', { 'test/unit/luck.test.ts': "import fc from 'fast-check';" }],
  ['a size in abuse', { 'test/abuse/luck.test.ts': 'expect(target.memory() - before).toBeLessThan(9);' }],
  [
    'more than twelve files',
    Object.fromEntries(Array.from({ length: 13 }, (_, number) => [`test/integration/luck${number}.test.ts`, ''])),
  ],
])('a failure of %s is no luck: nothing runs again', (_what, files) => {
  const { status, output, runs } = totals(files);
  expect(runs).toEqual([]);
  expect(output).toContain('FAILED test: ');
  expect(status).toBe(1);
});

test('a suite that ended without a report fails the run, and nothing runs again', () => {
  write('reports/steps.tsv', 'test\tsuite\t124\t60\t100\n');
  const { status, stdout } = run('reports');
  expect(stdout).toContain('FAILED test: no report, exit code 124\n    its time was up');
  expect(status).toBe(1);
});
