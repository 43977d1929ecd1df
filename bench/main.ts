/** `npm run bench -- NAME`: runs `bench/NAME.ts`, which exports `run()`; without a name it lists them. */
import { readdirSync } from 'node:fs';
import { constants } from 'node:os';
import path from 'node:path';
import { endStarted } from './processes/startedProcesses.ts';

const names = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.ts') && file !== 'main.ts')
  .map((file) => file.slice(0, -3))
  .sort();
const [name] = process.argv.slice(2);
if (name === undefined || !names.includes(name)) {
  console.error(`usage: npm run bench -- NAME; NAME is one of ${names.join(', ')}`);
  process.exitCode = 2;
} else {
  const module = (await import(path.join(import.meta.dirname, `${name}.ts`))) as { run?: () => Promise<void> };
  const work = module.run?.() ?? Promise.resolve();
  let isStopped = false;
  const stop = (signal: 'SIGINT' | 'SIGTERM') => {
    if (isStopped) return;
    isStopped = true;
    console.error(`${signal}: ending what was started`);
    void endStarted(work).finally(() => process.exit(128 + constants.signals[signal]));
  };
  process.on('SIGINT', stop).on('SIGTERM', stop);
  await work.catch((error: unknown) => {
    // What fails then fails for lack of what was ended.
    if (!isStopped) throw error;
  });
}
