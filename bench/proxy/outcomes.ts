import path from 'node:path';
import { type Measured, measure, type Target, WARM_UP_SECONDS } from './measure.ts';
import { type PlainGateway, startPlainGateway } from './plainGateway.ts';
import { figureOfStarts } from './starts.ts';
import { inTurns } from './turns.ts';

/** What the gateways are measured with. */
export interface OutcomeOptions {
  readonly directory: string;
  readonly cluster: string;
  readonly database: () => Promise<object>;
  /** Path of a follow-up. */
  readonly followUp: string;
  readonly seconds: number;
  /** How often both gateways are started. */
  readonly starts: number;
}

/** Percent of a follow-up's processor time that noting how queries end may add. */
const MAY_ADD = 2;
const ROUNDS_A_START = 3;
/** Whether the outcomes of queries are noted. */
const kinds = [true, false] as const;

interface Round {
  readonly start: number;
  readonly noting: Measured;
  readonly ignoring: Measured;
}

/**
 * Measures follow-ups through two gateways in short turns, one of which notes how queries end. Both are started often, as compiled code
 * turns out better or worse by chance.
 * @returns 0; 1 where it costs more than it may, or an answer failed
 */
export async function measureOutcomes(options: OutcomeOptions): Promise<number> {
  const measured: Round[] = [];
  for (let start = 0; start < options.starts; start += 1) measured.push(...(await measureStart(start, options)));
  const figure = figureOfStarts(measured, ({ noting, ignoring }) => (noting.cpu / ignoring.cpu - 1) * 100, 1);
  const failed = measured.reduce((sum, { noting, ignoring }) => sum + noting.failed + ignoring.failed, 0);
  const cpu = figureOfStarts(measured, ({ ignoring }) => ignoring.cpu, 1);
  const isReached = figure.mean <= MAY_ADD && failed === 0;
  console.log(`follow-up, ends of queries ignored: ${cpu.mean.toFixed(1)} µs of processor time`);
  console.log(
    `ends noted: ${figure.mean.toFixed(1)} % more (to reach: ${MAY_ADD} %), ${failed} failed: ${isReached ? 'reached' : 'MISSED'}`,
  );
  console.log(`  percent, ${figure.text}`);
  return isReached ? 0 : 1;
}

async function measureStart(start: number, options: OutcomeOptions): Promise<readonly Round[]> {
  const gateways: PlainGateway[] = [];
  try {
    // The first to start is another one each time.
    const order = start % 2 === 0 ? kinds : kinds.toReversed();
    for (const notes of order) {
      const spill = path.join(options.directory, `spill-${start}-${notes}`);
      gateways.push(await startPlainGateway(options.cluster, await options.database(), spill, notes));
    }
    const put = (target: Target, seconds: number) => measure(target, options.followUp, seconds, null);
    for (const gateway of gateways) await put(gateway, WARM_UP_SECONDS);
    const pids = gateways.map(({ workerPid }) => workerPid);
    const rounds: Round[] = [];
    for (let round = 0; round < ROUNDS_A_START; round += 1) {
      const figures = await inTurns(pids, () => Promise.all(gateways.map((gateway) => put(gateway, options.seconds))));
      const of = (notes: boolean) => figures[order.indexOf(notes)] as Measured;
      rounds.push({ start, noting: of(true), ignoring: of(false) });
    }
    return rounds;
  } finally {
    for (const gateway of gateways) await gateway.stop();
  }
}
