import { readFile } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';
import { type AnalysisCase, analyzeCase, type CaseAnalysis } from '../../src/sql/caseRequest.ts';

/** A case with the analysis expected of it, or what the reference threw. */
export interface ExpectedCase extends AnalysisCase {
  readonly expect: CaseAnalysis | { readonly throws: string; readonly message: string | null };
}

/** A case whose analysis differs from the expected one on purpose: why, and what our fields are. */
export interface KnownDifference {
  readonly id: string;
  readonly reason: string;
  readonly ours: Readonly<Record<string, unknown>>;
}

const folder = new URL('../../test/fixtures/sql-analysis/', import.meta.url);

async function jsonLines<T>(name: string): Promise<readonly T[]> {
  const bytes = await readFile(new URL(name, folder));
  const text = (name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('utf8');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
}

/** Cases of a file: `cases`, `large` or `throws`. */
export function readCases(file: 'cases' | 'large' | 'throws'): Promise<readonly ExpectedCase[]> {
  return jsonLines(file === 'large' ? 'large.jsonl.gz' : `${file}.jsonl`);
}

/** The checked-in list of differences that are meant. */
export function readKnownDifferences(): Promise<readonly KnownDifference[]> {
  return jsonLines('known-differences.jsonl');
}

/** Syntax errors of the grammar are compared up to their position, all other messages whole. */
function comparable(field: string, value: unknown): unknown {
  if (field !== 'errorMessage' || typeof value !== 'string') return value;
  return value.replace(/^(line \d+:\d+: mismatched input).*$/s, '$1');
}

/** Our values of the fields that differ from what is expected; empty when none does. Throws are answered by an error message. */
export function differences(request: ExpectedCase): Readonly<Record<string, unknown>> {
  const ours = analyzeCase(request, 'Engine') as unknown as Readonly<Record<string, unknown>>;
  if ('throws' in request.expect) return ours.errorMessage === null ? ours : {};
  const found: Record<string, unknown> = {};
  for (const [field, expected] of Object.entries(request.expect)) {
    if (JSON.stringify(comparable(field, ours[field])) !== JSON.stringify(comparable(field, expected))) {
      found[field] = comparable(field, ours[field]);
    }
  }
  return found;
}

/** What came of a group of cases. */
interface Tally {
  cases: number;
  right: number;
  known: number;
}

/** `npm run cases -- sql`: prints what is right by kind of statement; exit code 1 when a difference is not in the list. */
export async function sqlCases(): Promise<number> {
  const known = new Map((await readKnownDifferences()).map((difference) => [difference.id, difference]));
  const groups = new Map<string, Tally>();
  const wrong: string[] = [];
  for (const file of ['cases', 'large', 'throws'] as const) {
    for (const request of await readCases(file)) {
      const [origin, kind] = request.id.split('/');
      const group = file === 'throws' ? 'reference throws' : file === 'large' ? 'large' : `${origin}/${kind}`;
      const tally = groups.get(group) ?? { cases: 0, right: 0, known: 0 };
      groups.set(group, tally);
      tally.cases += 1;
      const differing = differences(request);
      const listed = file === 'cases' ? known.get(request.id) : undefined;
      if (Object.keys(differing).length === 0) tally.right += 1;
      else if (listed !== undefined && JSON.stringify(listed.ours) === JSON.stringify(differing)) tally.known += 1;
      else wrong.push(`${request.id}: ${JSON.stringify(differing)}`);
    }
  }
  printTable(groups);
  for (const line of wrong) console.log(`WRONG ${line.slice(0, 400)}`);
  return wrong.length === 0 ? 0 : 1;
}

function printTable(groups: ReadonlyMap<string, Tally>): void {
  const total: Tally = { cases: 0, right: 0, known: 0 };
  const row = (name: string, tally: Tally): void => {
    const wrong = tally.cases - tally.right - tally.known;
    const columns = [tally.cases, tally.right, tally.known, wrong].map((count) => String(count).padStart(8));
    console.log(`${name.padEnd(36)}${columns.join('')}`);
  };
  console.log(`${'kind'.padEnd(36)}${['cases', 'same', 'meant', 'wrong'].map((title) => title.padStart(8)).join('')}`);
  for (const [name, tally] of [...groups].sort(([a], [b]) => (a < b ? -1 : 1))) {
    row(name, tally);
    total.cases += tally.cases;
    total.right += tally.right;
    total.known += tally.known;
  }
  row('all', total);
  const share = (100 * (total.right + total.known)) / total.cases;
  console.log(`right: ${share.toFixed(2)} % ("meant": differs for a reason in known-differences.jsonl)`);
}
