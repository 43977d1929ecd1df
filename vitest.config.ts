import { defineConfig } from 'vitest/config';

/** Suites whose gateways are processes of the program as it ships, in place of the sources. */
const shipped = ['contract', 'faults', 'abuse', 'soak', 'engine', 'origins', 'clients'];

/**
 * One project a kind of suite; `npm test` runs unit and integration, the others have a script each. Time limits only guard
 * against what hangs: they hold on a machine of two busy cores that is four times slower than most.
 */
const suite = (name: string, timeoutSeconds: number, serial = false) => ({
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    testTimeout: timeoutSeconds * 1000,
    hookTimeout: Math.max(timeoutSeconds, 60) * 1000,
    expect: { poll: { timeout: 30_000 } },
    // Messages show whole values: all that a report of a run elsewhere says of a failure.
    chaiConfig: { truncateThreshold: 0 },
    ...(serial ? { fileParallelism: false } : {}),
    ...(shipped.includes(name)
      ? { env: { ENGINE_GATEWAY_PROGRAM: 'shipped' }, globalSetup: ['test/support/buildShipped.ts'] }
      : {}),
  },
});

export default defineConfig({
  test: {
    projects: [
      suite('unit', 120),
      suite('integration', 120),
      suite('contract', 300, true),
      suite('operator', 120, true),
      suite('engine', 600, true),
      suite('clients', 600, true),
      suite('packaging', 180, true),
      suite('ui', 180, true),
      suite('origins', 300, true),
      suite('faults', 420),
      // One after the other: its gateways are measured, and each has its clients beside it.
      suite('abuse', 120, true),
      suite('soak', 60, true),
    ],
  },
});
