import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import process from 'node:process';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

// Workers and the programs that tests start load what an earlier one compiled: a third less processor time.
process.env.NODE_COMPILE_CACHE ??= resolve('.cache/compile');
// API servers and etcd collect garbage less often: they take a quarter less processor time, and 130 MB more.
process.env.GOGC ??= '400';

/** What is chosen of a suite. */
interface Suite {
  /** Files at once; 1: one after the other, for what is measured. */
  readonly workers: number;
  /** Whether its files share a MariaDB, a PostgreSQL, control planes and two Trinos (`test/support/sharedServers.ts`). */
  readonly sharesServers?: boolean;
  /** Folder of the `installBefore.ts` that downloads what its files need before they run. */
  readonly installs?: 'engine' | 'migration';
  /** Whether it starts the program as it ships, which takes half of the time of the sources to start; by default it does. */
  readonly startsProgram?: boolean;
  /** True if its gateways run inside the tests' processes unless a test needs a process. */
  readonly runsInside?: boolean;
  /** Whether each file has a process of its own, so that none can leave anything behind for another; by default it has. */
  readonly isolate?: boolean;
}

/** Files that take longer than others of their suite although they are shorter. */
const longest = [
  ...['faults/apiServer', 'faults/clusters', 'faults/database', 'faults/limits', 'faults/replicas'],
  ...['integration/api/contract/injection', 'integration/serve/manyReplicas'],
  ...['migration/alternatingWrites', 'migration/sideBySide', 'ui/shell'],
  ...['operator/allNamespaces', 'operator/discovery', 'operator/operator', 'operator/restoredEtcd'],
].map((name) => resolve('test', `${name}.test.ts`));

/** They begin first, so that none of them runs alone at the end; the others follow as Vitest orders them, the largest first. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { long = [], other = [] } = Object.groupBy(await super.sort(files), ({ moduleId }) =>
      longest.includes(moduleId) ? 'long' : 'other',
    );
    return [...long, ...other];
  }
}

/** Most files wait more than they compute: on a machine of two processors a third one fills the pauses (a fourth in `ui`). */
const waiting = Math.max(3, availableParallelism());

/**
 * One project a kind of suite; `npm test` runs unit and integration, the others have a script each. Time limits only guard
 * against what hangs: they hold on a machine of two busy cores that is four times slower than most.
 */
const suite = (
  name: string,
  timeoutSeconds: number,
  { workers, sharesServers = false, installs, startsProgram = true, runsInside = false, isolate = true }: Suite,
) => ({
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    testTimeout: timeoutSeconds * 1000,
    hookTimeout: Math.max(timeoutSeconds, 60) * 1000,
    expect: { poll: { timeout: 30_000 } },
    // Messages show whole values: all that a report of a run elsewhere says of a failure.
    chaiConfig: { truncateThreshold: 0 },
    maxWorkers: workers,
    isolate,
    // Node loads the modules itself: no file is transformed, and compiled code is kept. No test replaces modules.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    // Suites of one run that have as many workers share them; the others follow one after the other.
    sequence: { groupOrder: workers },
    globalSetup: [
      ...(startsProgram ? ['test/support/buildShipped.ts'] : []),
      ...(installs === undefined ? [] : [`test/${installs}/installBefore.ts`]),
      ...(sharesServers ? ['test/support/sharedServers.ts'] : []),
    ],
    env: {
      ...(startsProgram ? { ENGINE_GATEWAY_PROGRAM: 'shipped' } : {}),
      ...(runsInside ? { ENGINE_GATEWAY_RUNS: 'inside' } : {}),
    },
  },
});

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      suite('unit', 120, { workers: waiting, startsProgram: false, isolate: false }),
      suite('integration', 120, { workers: waiting, sharesServers: true, runsInside: true, isolate: false }),
      suite('contract', 300, { workers: 2, sharesServers: true }),
      suite('operator', 120, { workers: waiting, sharesServers: true }),
      // One after the other: their files share two Trinos, whose queries they count. What runs beside it is another suite.
      suite('engine', 600, { workers: 1, installs: 'engine', sharesServers: true, isolate: false }),
      suite('migration', 300, { workers: 2, installs: 'migration' }),
      suite('clients', 600, { workers: 2, installs: 'engine' }),
      suite('upgrades', 1_200, { workers: 1, installs: 'engine' }),
      suite('packaging', 180, { workers: 2, startsProgram: false }),
      suite('ui', 180, { workers: waiting + 1 }),
      suite('origins', 300, { workers: 1 }),
      suite('faults', 420, { workers: 4, sharesServers: true }),
      suite('observability', 120, { workers: 2 }),
      // Two: what is measured of a gateway is its processor time, to which its neighbours add little, and much is waiting.
      suite('abuse', 120, { workers: 2 }),
      suite('soak', 60, { workers: 1 }),
    ],
  },
});
