/** Outcomes of the tests of a client's suite, and how they are compared with those that are known. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { expect } from 'vitest';

export interface Outcome {
  readonly result: 'passed' | 'failed' | 'skipped';
  /** Why it failed, for messages; empty else. */
  readonly text: string;
}

/** Outcomes by the test's name. */
export type Outcomes = ReadonlyMap<string, Outcome>;

const SHOWN_CHARACTERS = 800;

/** Outcomes in the JUnit XML files of a folder, as pytest and JUnit's console write them. */
export async function readJunitReports(folder: string): Promise<Outcomes> {
  const outcomes = new Map<string, Outcome>();
  for (const file of (await readdir(folder)).filter((name) => name.endsWith('.xml'))) {
    const text = await readFile(join(folder, file), 'utf8');
    for (const [, attributes = '', body = ''] of text.matchAll(/<testcase\b([^>]*?)(?:\/>|>(.*?)<\/testcase>)/gs)) {
      const attribute = (name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(attributes)?.[1] ?? '';
      add(outcomes, `${attribute('classname').split('.').at(-1)} ${attribute('name')}`, junitOutcome(body));
    }
  }
  return outcomes;
}

function junitOutcome(body: string): Outcome {
  if (/<(?:failure|error)\b/.test(body)) return { result: 'failed', text: body.slice(0, SHOWN_CHARACTERS) };
  return { result: body.includes('<skipped') ? 'skipped' : 'passed', text: '' };
}

/** Outcomes in the output of a test program of Go that was run with `-test.v`: tests and the tests in them. */
export function readGoOutput(output: string): Outcomes {
  const outcomes = new Map<string, Outcome>();
  const results = { PASS: 'passed', FAIL: 'failed', SKIP: 'skipped' } as const;
  for (const [, word, name = ''] of output.matchAll(/^ *--- (PASS|FAIL|SKIP): (.+) \([\d.]+s\)$/gm)) {
    const result = results[word as keyof typeof results];
    const from = result === 'failed' ? output.lastIndexOf(`=== RUN   ${name}`) : -1;
    add(outcomes, name, { result, text: from < 0 ? '' : output.slice(from, from + SHOWN_CHARACTERS) });
  }
  return outcomes;
}

/** Tests of the same name are numbered in their order. */
function add(outcomes: Map<string, Outcome>, name: string, outcome: Outcome): void {
  let unique = name;
  for (let number = 2; outcomes.has(unique); number += 1) unique = `${name} #${number}`;
  outcomes.set(unique, outcome);
}

/** What must hold of a run of a suite: what a run at the server itself shows (`CLIENTS_AT=server npm run test:clients`). */
export interface Expectation {
  /** Tests that pass, at the least. */
  readonly passed: number;
  /** Names of all other tests, with the reason. */
  readonly notPassed: Readonly<Record<string, string>>;
}

/** True if suites run at the server itself: for a new version of a client or of the server, of which the outcomes are not known. */
export const isDirect = process.env.CLIENTS_AT === 'server';

/** Fails unless a run had the outcomes that are expected. */
export function expectOutcomes(outcomes: Outcomes, { passed, notPassed }: Expectation): void {
  const others = [...outcomes].filter(([, { result }]) => result !== 'passed');
  const unexpected = others.filter(([name]) => notPassed[name] === undefined);
  expect(unexpected, 'tests that do not pass').toEqual([]);
  expect(others.map(([name]) => name).sort()).toEqual(Object.keys(notPassed).sort());
  expect(outcomes.size - others.length, 'tests that pass').toBeGreaterThanOrEqual(passed);
}
