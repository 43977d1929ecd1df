import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { expect, test } from 'vitest';

const architecture = readFileSync('docs/architecture.md', 'utf8');

/** Folders of the table in docs/architecture.md, in its order. */
function listedFolders(root: string): readonly string[] {
  const table = architecture.split(`| folder of \`${root}\` | what lives there |\n`)[1]?.split('\n\n')[0] ?? '';
  return [...table.matchAll(/^\| `([a-z]+)` \|/gm)].map(([, folder]) => folder as string);
}

function sourceFiles(root: string): readonly string[] {
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => join(root, file));
}

/** Files of the project that a file imports, types included. */
function importsOf(file: string): readonly string[] {
  const text = readFileSync(file, 'utf8');
  return [...text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)].map(([, path]) =>
    normalize(join(dirname(file), path as string)),
  );
}

/** The folder directly below the root; null for a file of the root itself or of elsewhere. */
function folderOf(root: string, file: string): string | null {
  const [folder, ...rest] = relative(root, file).split('/');
  return folder === '..' || rest.length === 0 ? null : (folder as string);
}

test.each(['src/gateway', 'src/operator'])('folders of %s import only from those above them', (root) => {
  const order = listedFolders(root);
  const files = sourceFiles(root);
  const folders = new Set(files.map((file) => folderOf(root, file)).filter((folder) => folder !== null));
  expect([...folders].sort()).toEqual([...order].sort());
  const wrong = files.flatMap((file) => {
    const own = folderOf(root, file);
    return importsOf(file)
      .filter((target) => {
        const other = folderOf(root, target);
        return own !== null && other !== null && order.indexOf(other) > order.indexOf(own);
      })
      .map((target) => `${file} imports ${target}`);
  });
  expect(wrong).toEqual([]);
});
