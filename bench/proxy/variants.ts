import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { rulesFileOf, typicalRules } from '../rules.ts';
import { type Measured, measure, print, printHead, type Target, WARM_UP_SECONDS } from './measure.ts';
import { type ServeProcess, startServe } from './serveProcess.ts';

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
/** Rounds count in which nginx took at most so many times what it takes in the fastest tenth of them. */
const MAX_DISTURBANCE = 1.15;

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

/**
 * Measures submissions through `engine-gateway serve` in several configurations, in turns, and prints what each costs
 * beside the plain one of the same round.
 * @returns 0; 1 where one costs more than it may, or an answer failed
 */
export async function measureVariants(options: VariantOptions): Promise<number> {
  const variants = variantsOf(options);
  const gateways = new Map<string, ServeProcess>();
  try {
    for (const [index, { name, config }] of variants.entries()) {
      const directory = path.join(options.directory, `serve-${index}`);
      mkdirSync(directory);
      gateways.set(name, await startServe(directory, options.cluster, await options.database(), config));
    }
    return await compare(variants, gateways, options);
  } finally {
    for (const gateway of gateways.values()) await gateway.stop();
  }
}

interface Round {
  readonly nginx: number;
  readonly figures: ReadonlyMap<string, Measured>;
}

async function compare(
  variants: readonly Variant[],
  gateways: ReadonlyMap<string, ServeProcess>,
  { nginx, script, seconds, rounds }: VariantOptions,
): Promise<number> {
  const load = (name: string, duration: number): Promise<Measured> => {
    const gateway = gateways.get(name);
    if (gateway === undefined) throw new Error(`no gateway ${name}`);
    return measure(gateway, '/v1/statement', duration, script);
  };
  for (const { name } of variants) await load(name, WARM_UP_SECONDS);
  const measured: Round[] = [];
  for (let round = 0; round < rounds; round++) {
    const figures = new Map<string, Measured>();
    const { cpu } = await measure(nginx, '/v1/statement', seconds, script);
    // In turns forward and backward: what comes first in a round is not always the same.
    const order = round % 2 === 0 ? variants : variants.toReversed();
    for (const { name } of order) figures.set(name, await load(name, seconds));
    measured.push({ nginx: cpu, figures });
  }
  const quiet = quietRounds(measured);
  console.log(
    `${quiet.length} of ${rounds} rounds count: in the others nginx took more than ${MAX_DISTURBANCE} × what it takes in the fastest`,
  );
  printHead();
  let isGood = true;
  for (const { name, mayCost } of variants) {
    const extra = ({ figures }: Round): number =>
      (figures.get(name)?.cpu ?? Number.NaN) - (figures.get(PLAIN)?.cpu ?? Number.NaN);
    const value = name === PLAIN ? (round: Round) => round.figures.get(PLAIN)?.cpu ?? Number.NaN : extra;
    const middle = quiet.toSorted((a, b) => value(a) - value(b))[(quiet.length - 1) >> 1];
    const figures = middle?.figures.get(name);
    if (middle === undefined || figures === undefined) return 2;
    print('submission', name, figures);
    const failed = measured.reduce((sum, round) => sum + (round.figures.get(name)?.failed ?? 0), 0);
    isGood &&= failed === 0;
    if (name === PLAIN) continue;
    const cost = extra(middle);
    const isReached = mayCost === null || cost <= mayCost;
    isGood &&= isReached;
    const limit = mayCost === null ? '' : ` (to reach: ${mayCost} µs): ${isReached ? 'reached' : 'MISSED'}`;
    console.log(`${name}: ${cost.toFixed(1)} µs CPU a submission above the plain gateway${limit}, ${failed} failed\n`);
  }
  return isGood ? 0 : 1;
}

/** Rounds in which the machine was not busy with something else, as far as nginx can tell. */
function quietRounds(rounds: readonly Round[]): readonly Round[] {
  const sorted = rounds.map(({ nginx }) => nginx).toSorted((a, b) => a - b);
  const fastest = sorted[Math.floor(sorted.length / 10)] ?? 0;
  return rounds.filter(({ nginx }) => nginx <= fastest * MAX_DISTURBANCE);
}
