import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';

const folder = resolve(import.meta.dirname, '../../dist/ui');

/** A file of the build (Vite's manifest). */
interface Chunk {
  readonly file: string;
  readonly css?: readonly string[];
  readonly imports?: readonly string[];
  readonly dynamicImports?: readonly string[];
}

/** Most that a browser loads before a page shows, in bytes as gzip. */
const LIMIT = 400 * 1024;

test('every page loads at most 400 KB', async () => {
  const manifest = JSON.parse(await readFile(join(folder, '.vite/manifest.json'), 'utf8')) as Record<string, Chunk>;
  const entry = manifest['index.html'] as Chunk;
  const pages = entry.dynamicImports ?? [];
  expect(pages.length).toBeGreaterThan(2);
  for (const page of pages) {
    const files = filesOf(manifest, ['index.html', page]);
    const sizes = await Promise.all(
      [...files].map(async (file) => (await readFile(join(folder, `${file}.gz`))).length),
    );
    const total = sizes.reduce((sum, size) => sum + size, 0);
    console.log(`${page}: ${Math.ceil(total / 1024)} KB in ${files.size} files`);
    expect(total, page).toBeLessThan(LIMIT);
  }
});

/** Files that are loaded for chunks, with what those import. */
function filesOf(manifest: Readonly<Record<string, Chunk>>, names: readonly string[]): ReadonlySet<string> {
  const files = new Set<string>();
  const visited = new Set<string>();
  const add = (name: string) => {
    const chunk = manifest[name];
    if (chunk === undefined || visited.has(name)) return;
    visited.add(name);
    for (const file of [chunk.file, ...(chunk.css ?? [])]) files.add(file);
    for (const imported of chunk.imports ?? []) add(imported);
  };
  for (const name of names) add(name);
  return files;
}
