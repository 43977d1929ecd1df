import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import type { HourlySums } from './hourlySums.ts';
import { startJob } from './job.ts';

const ROUND_MS = 5 * 60_000;
/** After a round that left hours: those of a long history are summed one round after the other. */
const NEXT_MS = 1_000;

export interface HourlySumsOptions {
  readonly sums: HourlySums;
  /** True if this replica leads: one of them does the work, though all may. */
  readonly isLeader: () => boolean;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Time before the first round, milliseconds: 60,000. */
  readonly firstDelayMs?: number;
}

/** Sums hours that are over, every five minutes; returns the function that stops it and waits for a running round. */
export function startHourlySums(options: HourlySumsOptions): () => Promise<void> {
  return startJob(options.firstDelayMs ?? 60_000, async () => ((await round(options)) ? NEXT_MS : ROUND_MS));
}

async function round({ sums, isLeader, logger, clock }: HourlySumsOptions): Promise<boolean> {
  if (!isLeader()) return false;
  try {
    const { summed, left, failure } = await sums.sum(clock.now());
    if (failure === null) return left > 0;
    logger.warn({ summed, left, reason: failure.message }, 'hourly sums delayed');
  } catch (error) {
    logger.warn({ reason: error instanceof Error ? error.message : String(error) }, 'hourly sums delayed');
  }
  return false;
}
