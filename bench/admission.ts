import { measureAdmissions, measureReuse } from './admission/admissionRate.ts';
import { measureCounters } from './admission/counterCost.ts';
import { measureWaiting } from './admission/waitingCost.ts';

const parts: Readonly<Record<string, () => Promise<void>>> = {
  counters: measureCounters,
  waiting: measureWaiting,
  rate: measureAdmissions,
  reuse: measureReuse,
};

/**
 * `npm run bench -- admission`: what counters of limits cost, what queries that wait cost in memory and processor time, and how
 * soon and how often slots are used again over two replicas. Further arguments choose parts of it.
 */
export async function run(): Promise<void> {
  const chosen = process.argv.slice(3);
  const unknown = chosen.filter((part) => !(part in parts));
  if (unknown.length > 0) {
    console.error(`unknown: ${unknown.join(', ')}; parts are ${Object.keys(parts).join(', ')}`);
    process.exitCode = 1;
    return;
  }
  for (const [name, measure] of Object.entries(parts))
    if (chosen.length === 0 || chosen.includes(name)) await measure();
}
