import { describe, expect, test } from 'vitest';
import { differences, readCases, readKnownDifferences } from '../../../scripts/cases/sql.ts';

describe('cases of the reference analyser', () => {
  test('every analysis is the same, or differs as the list of known differences says', async () => {
    const known = Object.fromEntries((await readKnownDifferences()).map(({ id, ours }) => [id, ours]));
    const differing: Record<string, unknown> = {};
    for (const request of await readCases('cases')) {
      const found = differences(request);
      if (Object.keys(found).length > 0) differing[request.id] = found;
    }
    expect(differing).toEqual(known);
  });

  test('every known difference names its reason', async () => {
    for (const { id, reason } of await readKnownDifferences()) {
      expect(`${id} ${reason}`).toMatch(
        / (submission|lower case|charset|kill_query|rename|targets|unvisited|scope|header|explained|functions): \S/,
      );
    }
  });

  test.each(['large', 'throws'] as const)('%s: every analysis is right', async (file) => {
    for (const request of await readCases(file))
      expect({ id: request.id, ...differences(request) }).toEqual({ id: request.id });
  });
});
