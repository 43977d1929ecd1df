import { describe, expect, test } from 'vitest';
import { importProblems } from '../../../scripts/importGraph.ts';

const page = `# Architecture

## Folders

| folder | may import | what lives there |
|---|---|---|
| \`src/model\` | | types |
| \`src/kinds/*/spec.ts\` | \`model\`, package \`typebox\` | schemas |
| \`src/store\` | \`model\` | rows |
| \`src/ui\` | \`model\`, \`specs\` | pages |
| \`src/main.ts\` | \`ui\` | starts |

| folder of \`src/store\` | what lives there |
|---|---|
| \`rows\` | first |
| \`tables\` | second |
`;

/** A program without mistakes: what each file imports. */
const program: Readonly<Record<string, readonly string[]>> = {
  'src/model/name.ts': ['./other.ts', 'lru-cache'],
  'src/kinds/cluster/spec.ts': ['typebox', '../../model/name.ts'],
  'src/store/store.ts': ['./tables/table.ts'],
  'src/store/rows/row.ts': ['../../model/name.ts', '../store.ts'],
  'src/store/tables/table.ts': ['../rows/row.ts'],
  'src/ui/page.tsx': ['react', '../model/name.ts', '../kinds/cluster/spec.ts', './style.css'],
  'src/main.ts': ['./ui/page.tsx', '../package.json'],
};

function problemsOf(changes: Readonly<Record<string, readonly string[]>>, text = page): readonly string[] {
  const files = Object.entries({ ...program, ...changes }).map(([path, imports]) => ({
    path,
    text: imports.map((target) => `import type { A } from '${target}';\n`).join(''),
  }));
  return importProblems(text, files);
}

describe('imports', () => {
  test('of a program that keeps to the tables are fine', () => {
    expect(problemsOf({})).toEqual([]);
  });

  test.each([
    ['a folder that is not listed', { 'src/ui/a.ts': ['../store/store.ts'] }, 'ui may import only model, specs'],
    ['a folder below', { 'src/model/a.ts': ['../store/store.ts'] }, 'model may import only nothing'],
    ['what is outside of src', { 'src/ui/a.ts': ['../../demo/a.ts'] }, 'src/ui/a.ts: imports demo/a.ts'],
    ['a package where packages are listed', { 'src/kinds/b/spec.ts': ['ajv'] }, 'may not import the package ajv'],
    ['a subfolder below its own', { 'src/store/rows/a.ts': ['../tables/table.ts'] }, 'whose folder is not above'],
    ['by a folder without row', { 'src/other/a.ts': [] }, 'docs/architecture.md has no row for other'],
    ['by a subfolder without row', { 'src/store/other/a.ts': [] }, 'there is no row for src/store/other'],
  ])('%s: reported', (_, changes, message) => {
    expect(problemsOf(changes)).toEqual([expect.stringContaining(message)]);
  });

  test('over import() and without names count', () => {
    const files = [
      { path: 'src/ui/a.ts', text: "const a = await import('../store/store.ts');\nimport '../store/store.ts';" },
    ];
    expect(importProblems(page, files).filter((line) => line.startsWith('src/ui/a.ts'))).toHaveLength(2);
  });
});

describe('rows', () => {
  test.each([
    [
      '`src/store` | `model`',
      '`src/store` | `model`, `specs`',
      'the row of store lists specs, which it does not import',
    ],
    ['`src/model` |', '`src/model` | `store`', 'the row of model lists store, which is not in a row above it'],
    ['| `src/ui` |', '| `src/gone` | | none |\n| `src/ui` |', 'there is no gone'],
    ['| `tables` |', '| `gone` | none |\n| `tables` |', 'there is no src/store/gone'],
  ])('%s → %s', (row, changed, message) => {
    expect(problemsOf({}, page.replace(row, changed))).toEqual([`docs/architecture.md: ${message}`]);
  });
});
