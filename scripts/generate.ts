/** Writes the files that are derived from `src/model`; with `--check` it only says which of them are out of date. */
import { readFile, writeFile } from 'node:fs/promises';

/** A generated file: its path from the project's root, and what belongs in it. */
export interface GeneratedFile {
  readonly path: string;
  readonly content: () => Promise<string> | string;
}

const files: readonly GeneratedFile[] = [];

const check = process.argv.includes('--check');
let stale = 0;
for (const file of files) {
  const wanted = await file.content();
  const present = await readFile(file.path, 'utf8').catch(() => null);
  if (present === wanted) continue;
  if (check) {
    stale += 1;
    console.error(`${file.path} is out of date: run "npm run generate" and commit the result`);
  } else {
    await writeFile(file.path, wanted);
    console.log(`wrote ${file.path}`);
  }
}
process.exitCode = stale === 0 ? 0 : 1;
