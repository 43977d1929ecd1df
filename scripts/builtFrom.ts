import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Digest of everything that a build depends on: all files of some folders, and further files. */
export async function digestOfSources(folders: readonly string[], files: readonly string[]): Promise<string> {
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
