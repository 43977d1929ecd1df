import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { selectGroup } from '../../src/rules/groupSelection.ts';
import { requireComponent } from '../support/components.ts';
import { randomCriteria, randomFile, randomOf } from '../support/groupCases.ts';
import { installDistribution, missingTools } from './distribution.ts';
import { common, shortRun } from './javaOptions.ts';

const missing = await missingTools();
const present = requireComponent(missing.join(', '), missing.length === 0, 'install them');

/** What the engine's own manager says of a file, and the groups of queries. */
interface Verdict {
  readonly refusal?: string;
  readonly groups?: readonly (string | null)[];
}

/** Runs the engine's file-based manager, without a server. */
async function askEngine(inputs: readonly object[]): Promise<readonly Verdict[]> {
  const { java, server } = await installDistribution();
  const path = [join(server, 'plugin/resource-group-managers/*'), join(server, 'lib/*')].join(':');
  const program = join(import.meta.dirname, 'programs/ResourceGroups.java');
  const lines = await new Promise<string>((resolve, reject) => {
    const options = { timeout: 120_000, maxBuffer: 64_000_000 };
    const child = execFile(
      java,
      [...common, ...shortRun, '-Dstdout.encoding=UTF-8', '-cp', path, program],
      options,
      (error, stdout) => (error === null ? resolve(stdout) : reject(error)),
    );
    child.stdin?.end(inputs.map((input) => `${JSON.stringify(input)}\n`).join(''));
  });
  return lines
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Verdict);
}

test.skipIf(!present)(
  'files are refused where the engine refuses them, and groups chosen as it chooses them',
  async () => {
    const cases = JSON.parse(
      readFileSync(new URL('../fixtures/resource-groups/files.json', import.meta.url), 'utf8'),
    ) as readonly { readonly case: string; readonly file: unknown; readonly engineLoads: boolean }[];
    const random = randomOf(2_026);
    const files = Array.from({ length: 300 }, () => ({
      file: randomFile(random),
      queries: Array.from({ length: 20 }, () => randomCriteria(random)),
    }));
    const verdicts = await askEngine([...cases, ...files]);
    const loaded = verdicts.map(({ refusal }) => refusal === undefined);
    expect(cases.map((one, index) => [one.case, loaded[index]])).toEqual(
      cases.map((one) => [one.case, one.engineLoads]),
    );
    const chosen = await Promise.all(
      files.map(({ file, queries }) =>
        Promise.all(
          queries.map(async (criteria) => {
            const { outcome, group } = await selectGroup(file.selectors, criteria);
            return outcome === 'rejected' ? null : outcome === 'selected' ? group?.join('.') : outcome;
          }),
        ),
      ),
    );
    for (const [index, groups] of chosen.entries()) {
      const engine = verdicts[cases.length + index]?.groups;
      // What is not known here may be anything there.
      expect({ file: files[index], groups }).toEqual({
        file: files[index],
        groups: groups.map((group, query) => (group === 'unknown' ? group : engine?.[query])),
      });
    }
    const decided = chosen.flat().filter((group) => group !== 'unknown' && group !== null && group !== 'failed');
    expect(decided.length).toBeGreaterThan(2_000);
  },
);
