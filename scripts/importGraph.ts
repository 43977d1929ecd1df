import { dirname, join, normalize } from 'node:path';

/** The page whose tables say what may import what. */
export const graphPage = 'docs/architecture.md';

/** A row of the table of folders: what its files may import beside each other. */
interface Row {
  readonly name: string;
  readonly mayImport: readonly string[];
  /** The only packages it may import; null: any. */
  readonly packages: readonly string[] | null;
}

/** A source file: its path from the project's root, and its text. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

/**
 * What is wrong with the imports of a program, types included, by the tables of docs/architecture.md#folders. The table of
 * folders is a graph: a row lists what it imports, all of it in rows above, and nothing else. Tables of subfolders are an
 * order: each may import from those above it. Pure.
 * @param page text of docs/architecture.md
 * @param files all sources below `src`
 * @returns a sentence for each mistake, with the file or the row; empty when there is none
 */
export function importProblems(page: string, files: readonly SourceFile[]): readonly string[] {
  const ordered = [...page.matchAll(/^\| folder of `(src\/\w+)` \|/gm)].map(([, root = '']) => root);
  return [...graphProblems(rowsOf(page), files), ...ordered.flatMap((root) => orderProblems(root, page, files))];
}

function graphProblems(rows: readonly Row[], files: readonly SourceFile[]): readonly string[] {
  const problems: string[] = [];
  const byName = new Map(rows.map((row) => [row.name, row]));
  const imported = new Map(rows.map(({ name }) => [name, new Set<string>()]));
  for (const file of files) {
    const name = nodeOf(file.path);
    const row = byName.get(name);
    if (row === undefined) {
      problems.push(`${file.path}: ${graphPage} has no row for ${name}`);
      continue;
    }
    for (const target of importsOf(file)) {
      const wrong = problemOf(row, target);
      if (wrong !== null) problems.push(`${file.path}: ${wrong}`);
      imported.get(name)?.add(nodeOf(target));
    }
    const unlisted = packagesOf(file).filter((target) => row.packages?.includes(target) === false);
    problems.push(...unlisted.map((target) => `${file.path}: ${name} may not import the package ${target}`));
  }
  rows.forEach(({ name, mayImport }, index) => {
    const above = rows.slice(0, index).map((row) => row.name);
    const row = `${graphPage}: the row of ${name} lists`;
    if (!files.some(({ path }) => nodeOf(path) === name)) problems.push(`${graphPage}: there is no ${name}`);
    for (const other of mayImport) {
      if (!above.includes(other)) problems.push(`${row} ${other}, which is not in a row above it`);
      else if (!imported.get(name)?.has(other)) problems.push(`${row} ${other}, which it does not import`);
    }
  });
  return problems;
}

function problemOf({ name, mayImport }: Row, target: string): string | null {
  if (target === 'package.json') return null;
  const other = nodeOf(target);
  if (other === name || mayImport.includes(other)) return null;
  return `imports ${target}; ${name} may import only ${mayImport.join(', ') || 'nothing'} (${graphPage}#folders)`;
}

function orderProblems(root: string, page: string, files: readonly SourceFile[]): readonly string[] {
  const order = rowsBelow(page, `| folder of \`${root}\` |`).map(([folder = '']) => folder.replaceAll('`', ''));
  const own = files.filter(({ path }) => folderOf(root, path) !== null);
  const folders = new Set(own.map(({ path }) => folderOf(root, path) as string));
  return [
    ...[...folders].filter((folder) => !order.includes(folder)).map((folder) => missingRow(`${root}/${folder}`)),
    ...order.filter((folder) => !folders.has(folder)).map((folder) => `${graphPage}: there is no ${root}/${folder}`),
    ...own.flatMap((file) => {
      const position = order.indexOf(folderOf(root, file.path) as string);
      return importsOf(file)
        .filter((target) => order.indexOf(folderOf(root, target) ?? '') > position)
        .map((target) => `${file.path}: imports ${target}, whose folder is not above its own in ${graphPage}`);
    }),
  ];
}

function missingRow(folder: string): string {
  return `${graphPage}: there is no row for ${folder}`;
}

/** Rows of the table of folders. */
function rowsOf(page: string): readonly Row[] {
  return rowsBelow(page, '| folder | may import |').map(([folder = '', mayImport = '']) => {
    const packages = [...mayImport.matchAll(/package `([^`]+)`/g)].map(([, name = '']) => name);
    const folders = mayImport.replaceAll(/package `[^`]+`/g, '').matchAll(/`([^`]+)`/g);
    return {
      name: nodeOf(folder.replaceAll('`', '')),
      mayImport: [...folders].map(([, name = '']) => name),
      packages: packages.length === 0 ? null : packages,
    };
  });
}

/** Cells of the rows of the table whose head begins with a text. */
function rowsBelow(page: string, head: string): readonly (readonly string[])[] {
  const lines = page.slice(page.indexOf(`\n${head}`) + 1).split('\n');
  const end = lines.findIndex((line) => !line.startsWith('|'));
  return lines.slice(2, end).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

/** The row that a file belongs to: its folder, `specs` for specs of kinds, or its name for files right below `src`. */
function nodeOf(path: string): string {
  if (/^src\/kinds\/[^/]+\/spec\.ts$/.test(path)) return 'specs';
  const [top, name] = path.split('/');
  return top === 'src' && name !== undefined ? name : path;
}

/** The folder right below a root; null for a file of the root itself or of elsewhere. */
function folderOf(root: string, path: string): string | null {
  const [folder, ...rest] = path.startsWith(`${root}/`) ? path.slice(root.length + 1).split('/') : [];
  return folder === undefined || rest.length === 0 ? null : folder;
}

/** Files of the project that a file imports, from the project's root. */
function importsOf(file: SourceFile): readonly string[] {
  return specifiersOf(file)
    .filter((target) => target.startsWith('.'))
    .map((target) => normalize(join(dirname(file.path), target)));
}

/** Packages that a file imports. */
function packagesOf(file: SourceFile): readonly string[] {
  return specifiersOf(file).filter((target) => !target.startsWith('.'));
}

function specifiersOf({ text }: SourceFile): readonly string[] {
  return [...text.matchAll(/(?:\bfrom\s+|\bimport\(\s*|^import\s+)'([^'\n]+)'/gm)].map(([, target = '']) => target);
}
