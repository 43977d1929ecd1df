/** `npm run bench -- NAME`: runs `bench/NAME.ts`, which exports `run()`; without a name it lists them. */
import { readdirSync } from 'node:fs';
import path from 'node:path';

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
  await module.run?.();
}
