import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

const page = readFileSync('docs/migration.md', 'utf8');
const section = /^## Values of the Helm chart\n(.*?)^## /ms.exec(page)?.[1] ?? '';
const rows = section
  .split('\n')
  .filter((line) => line.startsWith('| `'))
  .map((line) => line.split(' | ').map((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)));
const there = readFileSync('test/fixtures/reference/chartValues.txt', 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));
const here = parse(readFileSync('manifests/helm/engine-gateway/values.yaml', 'utf8')) as Readonly<
  Record<string, unknown>
>;

test('the page has every value of the chart of Trino Gateway once, and no other', () => {
  expect(rows.flatMap(([names = []]) => names).sort()).toEqual(there.toSorted());
});

test('every value of this chart that the page names exists', () => {
  const missing = rows
    .flatMap(([, names = []]) => names)
    .filter((name) => {
      let value: unknown = here;
      for (const key of name.split('.')) {
        if (typeof value !== 'object' || value === null || !(key in value)) return true;
        value = (value as Readonly<Record<string, unknown>>)[key];
      }
      return false;
    });
  expect(missing).toEqual([]);
});

test('a value that exists nowhere here has its reason', () => {
  const lines = section.split('\n').filter((line) => / \| – \| *\|$/.test(line));
  expect(lines).toEqual([]);
});
