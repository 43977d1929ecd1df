import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { errorCatalog } from '../../../src/model/errors.ts';

test('docs/errors.md lists the catalogue', async () => {
  const text = await readFile(new URL('../../../docs/errors.md', import.meta.url), 'utf8');
  const rows = [...text.matchAll(/^\| `(EG_\w+)` \| (\d+) \| (.+) \|$/gm)].map(([, code, status, meaning]) => [
    code,
    Number(status),
    meaning,
  ]);
  expect(rows).toEqual(Object.entries(errorCatalog).map(([code, { status, meaning }]) => [code, status, meaning]));
});
