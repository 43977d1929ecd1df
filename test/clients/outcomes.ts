/** What a suite of a client says of each of its tests, and how two runs of it are compared. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
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

/** What must hold of two runs of a suite. */
export interface Expectation {
  /** Tests that pass directly, at the least. */
  readonly passed: number;
  /** Names of the tests that do not pass directly, with the reason. */
  readonly notPassed: Readonly<Record<string, string>>;
}

/** Fails unless both runs had the same tests with the same outcomes, and what did not pass is what is known not to. */
export function expectAlike(direct: Outcomes, routed: Outcomes, { passed, notPassed }: Expectation): void {
  const differences = [...new Set([...direct.keys(), ...routed.keys()])].flatMap((name) => {
    const [one, other] = [direct.get(name), routed.get(name)];
    return one?.result === other?.result
      ? []
      : [`${name}: directly ${one?.result}, through the gateway ${other?.result}\n${one?.text}\n${other?.text}`];
  });
  expect(differences).toEqual([]);
  const without = [...direct].filter(([, { result }]) => result !== 'passed');
  const unknown = without.filter(([name]) => notPassed[name] === undefined);
  expect(unknown, 'tests that do not pass directly either').toEqual([]);
  const better = Object.keys(notPassed).filter((name) => !without.some(([each]) => each === name));
  expect(better, 'tests that are said not to pass').toEqual([]);
  expect(direct.size - without.length).toBeGreaterThanOrEqual(passed);
}
