/** Fails on imports that the tables of docs/architecture.md do not allow, and on rows that are not so. */
import { globSync, readFileSync } from 'node:fs';
import { graphPage, importProblems } from './importGraph.ts';

const files = globSync('src/**/*.{ts,tsx}').map((path) => ({ path, text: readFileSync(path, 'utf8') }));
const problems = importProblems(readFileSync(graphPage, 'utf8'), files);
for (const line of problems) console.error(line);
process.exitCode = problems.length === 0 ? 0 : 1;
