import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';

const BEGIN =
  '<!-- From here to "end of differences" written by "npm run generate" from test/migration/differences.yaml. -->';
const END = '<!-- End of differences. -->';

/** Differences of answers that have the same reason. */
interface Reason {
  readonly reason: string;
  readonly differences: readonly Difference[];
}
interface Difference {
  /** By the part of the answer or the table: there and here. */
  readonly differs: Readonly<Record<string, readonly [there: unknown, here: unknown]>>;
  readonly database?: string;
  /** `METHOD PATH: what is particular`. */
  readonly calls: readonly string[];
}

const databases: Readonly<Record<string, string>> = { mysql: 'MySQL and MariaDB', postgresql: 'PostgreSQL' };

/**
 * docs/migration.md with its table of differences between two marks, made from the list that the migration suite checks.
 * @throws Error when the page has no marks
 */
export async function migrationPage(): Promise<string> {
  const [page, list] = await Promise.all(
    ['docs/migration.md', 'test/migration/differences.yaml'].map((path) => readFile(path, 'utf8')),
  );
  return withDifferences(page as string, parse(list as string) as Readonly<Record<string, readonly Reason[]>>);
}

function withDifferences(page: string, releases: Readonly<Record<string, readonly Reason[]>>): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`docs/migration.md has no marks of the differences: ${BEGIN}`);
  const sections = Object.entries(releases).map(([release, reasons]) =>
    [`### Beside ${release}`, ...reasons.map((reason) => section(reason))].join('\n\n'),
  );
  return `${page.slice(0, begin)}${[BEGIN, ...sections, END].join('\n\n')}${page.slice(end + END.length)}`;
}

function section({ reason, differences }: Reason): string {
  return [
    `**${reason.replace(/\.$/, '')}.**`,
    '',
    '| calls | Trino Gateway | here |',
    '|---|---|---|',
    ...differences.map(
      ({ differs, database, calls }) =>
        `| ${grouped(calls)}${database === undefined ? '' : ` (${databases[database]})`} | ${side(differs, 0)} | ${side(differs, 1)} |`,
    ),
  ].join('\n');
}

/** Calls by path: those of one path follow each other. */
function grouped(calls: readonly string[]): string {
  const byPath = new Map<string, string[]>();
  for (const call of calls) {
    const [path = '', what = ''] = call.split(/: (.*)/s, 2);
    byPath.set(path, [...(byPath.get(path) ?? []), what]);
  }
  return [...byPath].map(([path, whats]) => `\`${path}\`: ${whats.join(', ')}`).join('; ');
}

/** What one of the two answers: status and body first, then what else differs. */
function side(differs: Difference['differs'], index: 0 | 1): string {
  const { status, body, ...others } = differs;
  const parts = [status, body].flatMap((values) => (values === undefined ? [] : [shown(values[index])]));
  const named = Object.entries(others).map(
    ([name, values]) => `\`${name.replace(/^body\./, '')}\` ${shown(values[index])}`,
  );
  return [...parts, ...named].join(', ');
}

/** Words of the list as they are, values as code. */
function shown(value: unknown): string {
  if (typeof value === 'number' || value === null) return String(value);
  const text = String(value);
  if (text === '') return '`""`';
  return /^(?:absent|present|assigned|empty|page|data|WADL|\d+ elements)$/.test(text) ? text : `\`${text}\``;
}
