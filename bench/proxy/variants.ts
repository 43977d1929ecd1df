import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { rulesFileOf, typicalRules } from '../rules.ts';
import { median } from '../statistics.ts';
import { type Measured, measure, print, printHead, type Target, WARM_UP_SECONDS } from './measure.ts';
import { type ServeProcess, startServe } from './serveProcess.ts';
import { figureOfStarts, MAX_DISTURBANCE, middleRound, roundsOfStarts } from './starts.ts';
import { inTurns } from './turns.ts';

/** What the gateways are measured with. */
export interface VariantOptions {
  readonly directory: string;
  readonly cluster: string;
  /** Measured in each round as well: a round in which it is slow says more of the machine than of the gateway. */
  readonly nginx: Target;
  /** Null: the external rules service is left out. */
  readonly rulesService: string | null;
  readonly database: () => Promise<{ readonly jdbcUrl: string; readonly user?: string; readonly password?: string }>;
  /** wrk's script of a submission. */
  readonly script: string;
  readonly seconds: number;
  readonly rounds: number;
}

/** A gateway that does more for a submission, and what that may cost in microseconds; null where nothing is set. */
interface Variant {
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly mayCost: number | null;
}

const PLAIN = 'gateway';
const SUBMISSION = '/v1/statement';

function variantsOf({ directory, rulesService }: VariantOptions): readonly Variant[] {
  const rulesConfigPath = path.join(directory, 'rules.yaml');
  // Nine that do not match, and a last one that leads to the only cluster.
  const others = typicalRules.slice(0, 9).map(([condition]) => [condition, 'other'] as const);
  writeFileSync(rulesConfigPath, rulesFileOf([...others, ['request.getMethod() == "POST"', 'adhoc']]));
  const variants: Variant[] = [
    { name: PLAIN, config: {}, mayCost: null },
    {
      name: '+ analysis, 10 rules',
      config: {
        requestAnalyzerConfig: { analyzeRequest: true },
        routingRules: { rulesEngineEnabled: true, rulesConfigPath },
      },
      mayCost: 25,
    },
  ];
  if (rulesService !== null) {
    variants.push({
      name: '+ external rules',
      config: {
        routingRules: {
          rulesEngineEnabled: true,
          rulesType: 'EXTERNAL',
          rulesExternalConfiguration: { urlPath: rulesService },
        },
      },
      mayCost: null,
    });
  }
  return variants;
}

/** What was measured in turns. */
interface Round {
  /** Number of the start whose processes were measured. */
  readonly start: number;
  readonly nginx: number;
  readonly figures: ReadonlyMap<string, Measured>;
}

/** What was measured of one gateway. */
interface Alone {
  readonly name: string;
  readonly measured: Measured;
}

/**
 * Measures submissions through `engine-gateway serve` in several configurations: first each alone, then all in short
 * turns, which show what each costs beside the plain one. All are restarted every few rounds.
 * @returns 0; 1 where one costs more than it may, or an answer failed
 */
export async function measureVariants(options: VariantOptions): Promise<number> {
  const variants = variantsOf(options);
  const measured: Round[] = [];
  const alone: Alone[] = [];
  for (const [start, rounds] of roundsOfStarts(options.rounds).entries()) {
    const gateways = new Map<string, ServeProcess>();
    try {
      for (const [index, { name, config }] of variants.entries()) {
        const directory = path.join(options.directory, `serve-${start}-${index}`);
        mkdirSync(directory);
        gateways.set(name, await startServe(directory, options.cluster, await options.database(), config));
      }
      alone.push(...(await measureAlone(gateways, options)));
      measured.push(...(await measureInTurns(start, rounds, gateways, options)));
    } finally {
      for (const gateway of gateways.values()) await gateway.stop();
    }
  }
  return report(variants, alone, measured) ? 0 : 1;
}

async function measureAlone(
  gateways: ReadonlyMap<string, ServeProcess>,
  { script, seconds }: VariantOptions,
): Promise<Alone[]> {
  const alone: Alone[] = [];
  for (const [name, gateway] of gateways) {
    await measure(gateway, SUBMISSION, WARM_UP_SECONDS, script);
    alone.push({ name, measured: await measure(gateway, SUBMISSION, seconds, script) });
  }
  return alone;
}

async function measureInTurns(
  start: number,
  rounds: number,
  gateways: ReadonlyMap<string, ServeProcess>,
  { nginx, script, seconds }: VariantOptions,
): Promise<Round[]> {
  const targets: readonly Target[] = [nginx, ...gateways.values()];
  const pids = targets.map(({ workerPid }) => workerPid);
  const measured: Round[] = [];
  for (let round = 0; round < rounds; round++) {
    const [peer, ...own] = await inTurns(pids, () =>
      Promise.all(targets.map((target) => measure(target, SUBMISSION, seconds, script))),
    );
    if (peer === undefined) throw new Error('nginx was not measured');
    const figures = new Map([...gateways.keys()].map((name, index) => [name, own[index] as Measured] as const));
    measured.push({ start, nginx: peer.cpu, figures });
  }
  return measured;
}

/** Prints the figures; whether they are as they should be. */
function report(variants: readonly Variant[], alone: readonly Alone[], measured: readonly Round[]): boolean {
  const quiet = quietRounds(measured);
  const ofNginx = median(quiet.map(({ nginx }) => nginx)).toFixed(1);
  console.log(
    `${quiet.length} of ${measured.length} rounds count; in them nginx took ${ofNginx} µs, in the others more than ${MAX_DISTURBANCE} × what it takes in the fastest`,
  );
  printHead();
  let isGood = true;
  for (const { name, mayCost } of variants) {
    const byItself = alone.filter((each) => each.name === name).map((each) => each.measured);
    print(
      'submission',
      name,
      middleRound(byItself, ({ cpu }) => cpu),
    );
    const failed = [...byItself, ...measured.map((round) => figuresOf(round, name))]
      .map((figures) => figures.failed)
      .reduce((sum, count) => sum + count, 0);
    isGood &&= failed === 0;
    if (name === PLAIN) continue;
    const cost = figureOfStarts(quiet, (round) => figuresOf(round, name).cpu - figuresOf(round, PLAIN).cpu, 0);
    const isReached = mayCost === null || cost.mean <= mayCost;
    isGood &&= isReached;
    const limit = mayCost === null ? '' : ` (to reach: ${mayCost} µs): ${isReached ? 'reached' : 'MISSED'}`;
    const ofPlain = median(quiet.map((round) => figuresOf(round, PLAIN).cpu)).toFixed(1);
    console.log(
      `${name}: ${cost.mean.toFixed(1)} µs CPU a submission above the plain gateway's ${ofPlain}${limit}, ${failed} failed`,
    );
    console.log(`  ${cost.text}\n`);
  }
  return isGood;
}

function figuresOf({ figures }: Round, name: string): Measured {
  const found = figures.get(name);
  if (found === undefined) throw new Error(`no figures of ${name}`);
  return found;
}

/** Rounds in which nginx was about as fast as in the fastest tenth of them: the machine was not busy otherwise. */
function quietRounds(rounds: readonly Round[]): readonly Round[] {
  const sorted = rounds.map(({ nginx }) => nginx).toSorted((a, b) => a - b);
  const fastest = sorted[Math.floor(sorted.length / 10)] ?? 0;
  return rounds.filter(({ nginx }) => nginx <= fastest * MAX_DISTURBANCE);
}
