import { createHash } from 'node:crypto';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

/** Folder of the project. */
export const root = resolve(import.meta.dirname, '..');

/** Something that is built from the project's sources. */
export interface Build<Bundler> {
  /** What it is, in the line that says how long it took. */
  readonly name: string;
  /** Folder in the project that it is built into. The stamp of what it was built from is beside that. */
  readonly output: string;
  /** Folders and files that it depends on. */
  readonly folders: readonly string[];
  readonly files: readonly string[];
  /** Loads the bundler; rejects where that is not installed. */
  readonly bundler: () => Promise<Bundler>;
  /** Builds it, whatever is in the folder. */
  readonly build: (bundler: Bundler) => Promise<void>;
}

/**
 * Builds something, as the command line asks: `--if-stale` leaves a build alone that was made from the same sources, and
 * says nothing where the bundler is not installed (`npm ci --omit=dev`).
 */
export async function runBuild<Bundler>({ name, output, folders, files, ...how }: Build<Bundler>): Promise<void> {
  const { values } = parseArgs({ options: { 'if-stale': { type: 'boolean', default: false } } });
  const stampFile = join(root, `${output}.stamp`);
  const stamp = await digestOfSources(folders, files);
  const built = await readFile(stampFile, 'utf8').catch(() => '');
  if (values['if-stale'] && built === stamp) return;
  const bundler = await how.bundler().catch((error: unknown) => {
    if (values['if-stale']) return null;
    throw error;
  });
  if (bundler === null) return;
  const started = performance.now();
  await rm(stampFile, { force: true });
  await how.build(bundler);
  await writeFile(stampFile, stamp);
  console.log(`${name} built into ${output} in ${((performance.now() - started) / 1000).toFixed(1)} s`);
}

/** Digest of all files of some folders, and of further files. */
async function digestOfSources(folders: readonly string[], files: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  const lists = await Promise.all(
    folders.map(async (folder) =>
      (await readdir(folder, { recursive: true, withFileTypes: true }))
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name)),
    ),
  );
  for (const file of [...lists.flat().sort(), ...files]) {
    hash
      .update(file)
      .update('\0')
      .update(await readFile(file));
  }
  return hash.digest('hex');
}
