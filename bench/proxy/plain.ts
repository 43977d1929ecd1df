import path from 'node:path';
import { mean, median } from '../statistics.ts';
import { type Measured, measure, print, printHead, type Target, WARM_UP_SECONDS } from './measure.ts';
import { type PlainGateway, startPlainGateway } from './plainGateway.ts';
import { figureOfStarts, MAX_DISTURBANCE, middleRound, roundsOfStarts } from './starts.ts';

/** What the gateway is measured with. */
export interface PlainOptions {
  readonly directory: string;
  readonly cluster: string;
  /** The peer. */
  readonly nginx: Target;
  readonly database: () => Promise<object>;
  /** Path of a follow-up. */
  readonly followUp: string;
  /** wrk's script of a submission. */
  readonly script: string;
  readonly seconds: number;
  readonly rounds: number;
  /** Whether memory over a million requests is looked at as well. */
  readonly million: boolean;
}

/** What is to be reached: times of nginx's CPU a request. */
const targets = { 'follow-up': 4.5, submission: 8 } as const;
type Load = keyof typeof targets;
const loads: readonly Load[] = ['follow-up', 'submission'];

interface Round {
  /** Number of the start whose gateway was measured. */
  readonly start: number;
  readonly kind: Load;
  readonly own: Measured;
  /** The peer right before and right after. */
  readonly peers: readonly [Measured, Measured];
}

type Put = (target: Target, kind: Load, seconds: number) => Promise<Measured>;

/**
 * Measures the gateway beside nginx, in turns; it is restarted every few rounds.
 * @returns 0; 1 where it takes more than it may, an answer failed, or memory grew
 */
export async function measurePlain(options: PlainOptions): Promise<number> {
  const { nginx, script, followUp, seconds } = options;
  const put: Put = (target, kind, duration) =>
    kind === 'submission'
      ? measure(target, '/v1/statement', duration, script)
      : measure(target, followUp, duration, null);
  const measured: Round[] = [];
  let isFlat = true;
  const starts = roundsOfStarts(options.rounds);
  for (const [start, rounds] of starts.entries()) {
    const spill = path.join(options.directory, `spill-${start}`);
    const gateway = await startPlainGateway(options.cluster, await options.database(), spill);
    try {
      for (const kind of loads.toReversed()) await put(gateway, kind, WARM_UP_SECONDS);
      for (const kind of loads) {
        let before = await put(nginx, kind, seconds);
        for (let round = 0; round < rounds; round++) {
          const own = await put(gateway, kind, seconds);
          const after = await put(nginx, kind, seconds);
          measured.push({ start, kind, own, peers: [before, after] });
          before = after;
        }
      }
      if (options.million && start === starts.length - 1) isFlat = await runMillion(gateway, put);
    } finally {
      await gateway.stop();
    }
  }
  return report(measured) && isFlat ? 0 : 1;
}

/** Prints the figures; whether they are as they should be. */
function report(measured: readonly Round[]): boolean {
  let isGood = true;
  printHead();
  for (const kind of loads) {
    const rounds = measured.filter((round) => round.kind === kind);
    const steady = steadyRounds(rounds);
    if (steady.length === 0) {
      console.log(
        `${kind}: nginx swung too much in all ${rounds.length} rounds; repeat, or give more --rounds: MISSED\n`,
      );
      isGood = false;
      continue;
    }
    const middle = middleRound(steady, timesOfPeer);
    print(kind, 'nginx', middle.peers[0]);
    print(kind, 'gateway', middle.own);
    const figure = figureOfStarts(steady, timesOfPeer, 1);
    const failed = rounds.reduce((sum, { own }) => sum + own.failed, 0);
    const requests = rounds.reduce((sum, { own }) => sum + own.requests, 0);
    const isReached = figure.mean <= targets[kind] && failed === 0;
    isGood &&= isReached;
    console.log(
      `${kind}: ${figure.mean.toFixed(2)} × nginx (to reach: ${targets[kind]} ×), ${failed} failed of ${requests}: ${isReached ? 'reached' : 'MISSED'}`,
    );
    console.log(`  ${steady.length} of ${rounds.length} rounds count, ${figure.text}\n`);
  }
  return isGood;
}

function timesOfPeer({ own, peers }: Round): number {
  return own.cpu / mean(peers.map(({ cpu }) => cpu));
}

/** Rounds in which nginx measured the same speed of the machine before and after the gateway's turn. */
function steadyRounds(rounds: readonly Round[]): readonly Round[] {
  return rounds.filter(({ peers }) => {
    const figures = peers.map(({ cpu }) => cpu);
    return Math.max(...figures) <= Math.min(...figures) * MAX_DISTURBANCE;
  });
}

/**
 * A million requests, half follow-ups, half submissions, in slices; memory of the last quarter beside the second. The
 * garbage collector runs between slices: without it resident memory swings by 80 MB with the collector's own timing.
 */
async function runMillion(gateway: PlainGateway, put: Put): Promise<boolean> {
  const slices: number[] = [];
  const live: number[] = [];
  let requests = 0;
  let failed = 0;
  while (requests < 1_000_000) {
    for (const kind of loads) {
      const measured = await put(gateway, kind, 5);
      requests += measured.requests;
      failed += measured.failed;
      slices.push(measured.resident);
    }
    const held = (await (await fetch(`${gateway.url}/live`)).json()) as { heapUsed: number; external: number };
    live.push((held.heapUsed + held.external) / 1024 ** 2);
  }
  const quarter = Math.max(1, Math.floor(slices.length / 4));
  const second = median(slices.slice(quarter, 2 * quarter));
  const last = median(slices.slice(-quarter));
  const flat = last <= second * 1.1;
  console.log(
    `memory over ${requests} requests (${failed} failed), MB: ${slices.map((value) => value.toFixed(0)).join(' ')}`,
  );
  console.log(`live after collection, MB: ${live.map((value) => value.toFixed(1)).join(' ')}`);
  console.log(
    `last quarter ${last.toFixed(0)} MB, second quarter ${second.toFixed(0)} MB: ${flat ? 'flat' : 'GROWING'}`,
  );
  return flat && failed === 0;
}
