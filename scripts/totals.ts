/**
 * The end of `.ci/run`: runs the files of failed tests again, each once and alone, and prints the time of each suite,
 * flaky tests and failures by name, and the last line "N passed, N failed, N skipped". A test that passes the second
 * time is flaky and does not fail the run ([CONTRIBUTING](../CONTRIBUTING.md#flaky-tests)).
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import process from 'node:process';
import { stripVTControlCharacters } from 'node:util';

/** What is read of a suite's JSON report, as Vitest writes it. */
interface Report {
  readonly numPassedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly testResults: readonly {
    /** The file's absolute path. */
    readonly name: string;
    readonly status: string;
    /** Why the file failed as a whole; empty else. */
    readonly message: string;
    readonly assertionResults: readonly {
      readonly ancestorTitles: readonly string[];
      readonly title: string;
      readonly status: string;
      readonly failureMessages: readonly string[] | null;
    }[];
  }[];
}

/** A step of the run: its command's exit code and duration; a suite when it leaves a report. */
interface Step {
  readonly name: string;
  readonly isSuite: boolean;
  readonly exitCode: number;
  readonly seconds: number;
  /** Processor time of its processes that ended; two processors give two seconds of it in one. */
  readonly processorSeconds: number;
}

interface Result extends Step {
  readonly passed: number;
  readonly skipped: number;
  readonly failures: readonly Failure[];
  /** Failures of files that passed the second time. */
  readonly flaky: readonly Failure[];
}

interface Failure {
  /** Path of the test file; undefined if the failure belongs to no file. */
  readonly file?: string;
  readonly what: string;
  readonly message: string;
}

/** Flaky files that a run may have. If more files fail, none runs again. */
const MAX_FLAKY_FILES = 12;
/** Time limit of the second run of a file, milliseconds. */
const RERUN_TIMEOUT_MS = 900_000;

const MESSAGE_LINES = 15;
/** A line of a stack that leads through a package or Node itself. */
const FOREIGN_FRAME = /^\s+at .*(?:node_modules|node:)/;

/** `steps.tsv`: a line a step, of name, kind, exit code, seconds and seconds of processor time. */
function readSteps(folder: string): Step[] {
  const lines = readFileSync(join(folder, 'steps.tsv'), 'utf8').trim().split('\n');
  return lines.map((line) => {
    const [name = '', kind, ...figures] = line.split('\t');
    const [exitCode = 1, seconds = 0, processorSeconds = 0] = figures.map(Number);
    return { name, isSuite: kind === 'suite', exitCode, seconds, processorSeconds };
  });
}

function failuresOf(report: Report): Failure[] {
  return report.testResults.flatMap(({ name, status, message, assertionResults }) => {
    const file = relative(process.cwd(), name);
    const failed = assertionResults
      .filter((test) => test.status === 'failed')
      .map(({ ancestorTitles, title, failureMessages }) => ({
        file,
        what: [file, ...ancestorTitles, title].join(' > '),
        message: (failureMessages ?? []).join('\n'),
      }));
    return status === 'failed' && failed.length === 0 ? [{ file, what: `${file} as a whole`, message }] : failed;
  });
}

/** Only the exit code shows a suite that ended before its report, and errors outside of tests. */
function readResult(folder: string, step: Step): Result {
  const ended = { what: `exit code ${step.exitCode}`, message: step.exitCode === 124 ? 'its time was up' : '' };
  const none = { ...step, passed: 0, skipped: 0, flaky: [] };
  if (!step.isSuite) return { ...none, failures: step.exitCode === 0 ? [] : [ended] };
  const path = join(folder, `${step.name}.json`);
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  if (text === '') return { ...none, failures: [{ ...ended, what: `no report, ${ended.what}` }] };
  const report = JSON.parse(text) as Report;
  const failures = failuresOf(report);
  return {
    ...step,
    passed: report.numPassedTests,
    skipped: report.numPendingTests + report.numTodoTests,
    flaky: [],
    failures:
      step.exitCode !== 0 && failures.length === 0
        ? [{ ...ended, what: `${ended.what} though no test failed (see its output)` }]
        : failures,
  };
}

/**
 * True if a failure of the file can be luck. The suite `faults`, property tests and sizes in `abuse` are never run
 * again: a rare failure of theirs is what they look for.
 */
function canBeFlaky(file: string): boolean {
  if (file.startsWith('test/faults/')) return false;
  const source = readFileSync(file, 'utf8');
  return !/from 'fast-check'/.test(source) && !(file.startsWith('test/abuse/') && /\.memory\(\)/.test(source));
}

/** Runs a test file alone. Returns true if all of its tests pass. */
function passesAlone(file: string): boolean {
  const project = file.split('/')[1] ?? '';
  console.log(`\n== again, alone: ${file}`);
  // By the Node that runs this: the first one on PATH may be too old for TypeScript modules.
  const args = ['node_modules/vitest/vitest.mjs', 'run', '--project', project, file];
  const { status } = spawnSync(process.execPath, args, { stdio: 'inherit', timeout: RERUN_TIMEOUT_MS });
  return status === 0;
}

/** Runs the files of failures again if they are few, and counts what passes as flaky. */
function rerunFailures(results: readonly Result[]): readonly Result[] {
  const files = new Set(results.flatMap(({ failures }) => failures.flatMap(({ file }) => file ?? [])));
  if (files.size === 0 || files.size > MAX_FLAKY_FILES) return results;
  const passed = new Set([...files].filter((file) => canBeFlaky(file) && passesAlone(file)));
  return results.map((result) => {
    const flaky = result.failures.filter(({ file }) => file !== undefined && passed.has(file));
    const failures = result.failures.filter((failure) => !flaky.includes(failure));
    return { ...result, passed: result.passed + flaky.length, failures, flaky };
  });
}

function printFailure(title: string, { what, message }: Failure): void {
  console.log(`\n${title}: ${what}`);
  const lines = stripVTControlCharacters(message).split('\n');
  const shownLines = lines.filter(
    (line) => line.trim() !== '' && !FOREIGN_FRAME.test(line) && !line.endsWith('(<anonymous>)'),
  );
  for (const line of shownLines.slice(0, MESSAGE_LINES)) console.log(`    ${line}`);
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);

function printTable(results: readonly Result[]): void {
  const rows = [['step', 'passed', 'failed', 'skipped', 'seconds', 'cpu']];
  for (const { name, passed, failures, skipped, seconds, processorSeconds } of results) {
    rows.push([name, ...[passed, failures.length, skipped, seconds, processorSeconds].map(String)]);
  }
  for (const [name = '', ...figures] of rows) {
    console.log(`${name.padEnd(12)}${figures.map((figure) => figure.padStart(9)).join('')}`);
  }
}

const folder = process.argv[2];
if (folder === undefined) {
  console.error('usage: scripts/totals.ts FOLDER   with steps.tsv and the reports of the suites');
  process.exit(2);
}
const results = rerunFailures(readSteps(folder).map((step) => readResult(folder, step)));
printTable(results);
for (const { name, failures, flaky } of results) {
  for (const failure of flaky) printFailure(`FLAKY ${name} (passes alone; its first failure follows)`, failure);
  for (const failure of failures) printFailure(`FAILED ${name}`, failure);
}
const failed = sum(results.map(({ failures }) => failures.length));
const [passed, skipped] = [sum(results.map((each) => each.passed)), sum(results.map((each) => each.skipped))];
console.log(`\n${passed} passed, ${failed} failed, ${skipped} skipped`);
if (failed > 0) process.exitCode = 1;
