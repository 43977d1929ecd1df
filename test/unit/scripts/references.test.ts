import { beforeEach, expect, test } from 'vitest';
import { scriptFolder } from '../../support/scriptFolder.ts';

const { write, run } = scriptFolder('references.ts');

beforeEach(() => {
  write('docs/page.md', '# The page\n\n## Two `words`, here\n\n```sh\n# no heading\n```\n\n## Twice\n\n## Twice\n');
  write(
    'docs/metrics.md',
    '# Metrics\n\n| `engine_gateway_calls_total` | counter | | |\n| `engine_gateway_call_seconds` | histogram | | |\n',
  );
});

/** Exit code of the check, and the problems that it prints. */
function check(): { status: number | null; problems: readonly string[] } {
  const { status, stderr } = run();
  return { status, problems: stderr.split('\n').filter((line) => line.includes(': ')) };
}

/** Each text in a file of its own, and what is found in all of them. */
function checkAll(rows: readonly (readonly [path: string, text: string])[]) {
  for (const [row, [path, text]] of rows.entries()) write(numbered(path, row), text);
  return check();
}

const numbered = (text: string, row: number) => text.replace(/\.(?=(?:ts|md|sh|yaml)\b)/, `${row}.`);

const accepted: readonly [string, string, string][] = [
  ['a comment that names a page', 'src/a.ts', '// see docs/page.md'],
  ['a comment that names a heading', 'src/a.ts', '// see (docs/page.md#two-words-here).'],
  ['the second heading of a name', 'src/a.ts', '// docs/page.md#twice-1'],
  ['a page beside the file', 'docs/a.sh', '# page.md#the-page'],
  ['a link of a page', 'README.md', '[page](docs/page.md#twice)'],
  ['a link within a page', 'docs/b.md', '## Here\n[up](#here) and [page](page.md)'],
  ['an address elsewhere', 'README.md', '[there](https://example.com/none.md#x)'],
  ['a code block of a page', 'README.md', '```\n[none](none.md)\n```'],
  ['a link of a page that code generates', 'scripts/a.ts', 'const text = `[page](page.md)`;'],
  [
    'metrics that are registered',
    'docs/b.md',
    '`engine_gateway_calls_total{kind}` and engine_gateway_call_seconds_bucket',
  ],
  ['recorded text', 'test/fixtures/a.ts', '// docs/none.md'],
];
test('accepts references that lead somewhere', () => {
  expect(checkAll(accepted.map(([, path, text]) => [path, text]))).toEqual({ status: 0, problems: [] });
});

const reported: readonly [string, string, string, string][] = [
  ['a missing page in a comment', 'src/a.ts', '\n// docs/none.md', 'src/a.ts:2: docs/none.md does not exist'],
  ['a missing page at the root', 'src/a.ts', '// none.md §1', 'src/a.ts:1: none.md does not exist'],
  [
    'a missing heading in a comment',
    'src/a.ts',
    '// docs/page.md#none',
    'src/a.ts:1: docs/page.md has no heading #none',
  ],
  [
    'a comment of a code block as heading',
    'src/a.ts',
    '// docs/page.md#no-heading',
    'src/a.ts:1: docs/page.md has no heading #no-heading',
  ],
  ['a missing page in YAML', 'manifests/a.yaml', '# docs/none.md', 'manifests/a.yaml:1: docs/none.md does not exist'],
  ['a missing page in a link', 'docs/b.md', '[b](none.md)', 'docs/b.md:1: docs/none.md does not exist'],
  ['a missing file in a link', 'docs/b.md', '[b](../src/none.ts)', 'docs/b.md:1: src/none.ts does not exist'],
  ['a missing heading in a link', 'docs/b.md', '[b](page.md#none)', 'docs/b.md:1: docs/page.md has no heading #none'],
  [
    'a metric that no part registers',
    'docs/b.md',
    '`engine_gateway_calls`',
    'docs/b.md:1: docs/metrics.md has no metric engine_gateway_calls',
  ],
  [
    'such a metric in a manifest',
    'manifests/a.yaml',
    'expr: rate(engine_gateway_lost_total[5m])',
    'manifests/a.yaml:1: docs/metrics.md has no metric engine_gateway_lost_total',
  ],
  ['a missing heading of the same page', 'docs/b.md', '[b](#none)', 'docs/b.md:1: docs/b.md has no heading #none'],
];
test('reports each reference that leads nowhere, with file and line', () => {
  const { status, problems } = checkAll(reported.map(([, path, text]) => [path, text]));
  expect(problems.toSorted()).toEqual(
    reported.map(([, path, , problem], row) => problem.replaceAll(path, numbered(path, row))).toSorted(),
  );
  expect(status).toBe(1);
});

test('a page that the list of pages does not link is a problem', () => {
  write('docs/README.md', '# Pages\n\n[metrics](metrics.md)\n');
  expect(check()).toEqual({ status: 1, problems: ['docs/page.md:1: docs/README.md does not list this page'] });
});
