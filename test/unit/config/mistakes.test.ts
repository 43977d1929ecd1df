import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { parseConfig } from '../../../src/config/loadConfig.ts';
import { problemLine } from '../../../src/config/source.ts';

/** Files with mistakes, each with every problem it must give, as `line: key: message`. */
const mistakes = parse(readFileSync('test/fixtures/config/mistakes.yaml', 'utf8')) as readonly {
  readonly file: string;
  readonly problems: readonly string[];
}[];
const environment = { SECRET_VALUE: 'hunter2-very-secret', BROKEN_LIST: '[a, b' };

test('there are mistakes of every sort', () => expect(mistakes.length).toBeGreaterThanOrEqual(60));

test.each(mistakes)('$file', ({ file, problems }) => {
  const result = parseConfig(file, environment);
  const reported = 'problems' in result ? result.problems.map((problem) => problemLine('f', problem).slice(2)) : [];
  expect(reported).toEqual(problems);
});
