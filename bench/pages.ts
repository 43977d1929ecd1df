import { measurePages } from './pages/pagesBenchmark.ts';

/**
 * `npm run bench -- pages [answers] [statistics] [use] [idle] [--rounds 3] [--idle-seconds 60] [--page history]`: what the pages
 * cost browser and gateway with 500 clusters, 5,000 rules, 500 resource groups and a million queries in the history. `--page`, which may be
 * repeated, chooses what `use` opens.
 */
export const run = measurePages;
