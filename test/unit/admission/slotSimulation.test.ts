import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SlotWorld } from '../../support/slotWorld.ts';

/** `npm run simulate` takes more. */
const histories = Number(process.env.SIMULATED_HISTORIES ?? 10_000);
const seed = process.env.SIMULATION_SEED === undefined ? undefined : Number(process.env.SIMULATION_SEED);

const history = fc.record({
  seed: fc.nat(),
  replicas: fc.integer({ min: 1, max: 4 }),
  commands: fc.array(fc.nat(), { maxLength: 32 }),
});

function run(
  { seed, replicas, commands }: { seed: number; replicas: number; commands: number[] },
  isLogged = false,
): void {
  const world = new SlotWorld(seed, replicas, isLogged);
  for (const command of commands) world.command(command);
  world.heal();
  world.checkConservation();
  world.end();
}

describe('slots of several replicas', () => {
  it(
    'are never more than the limit, whatever fails, and none is lost',
    () => {
      const result = fc.check(
        fc.property(history, (one) => run(one)),
        { numRuns: histories, ...(seed === undefined ? {} : { seed }) },
      );
      if (!result.failed) return;
      const [worst] = result.counterexample as [Parameters<typeof run>[0]];
      // Once more, with all that happens.
      expect(() => run(worst, true), `seed ${result.seed}, ${JSON.stringify(worst)}`).not.toThrow();
    },
    Math.max(120_000, histories * 5),
  );
});
