import type { ReplayResult } from './replayJobs.ts';
import { isUnexplained, type VerdictKind, verdictKinds } from './verdict.ts';

/** Verdict on a shape: the worst of its queries counts. */
export interface DigestVerdict {
  readonly digest: string;
  readonly verdict: VerdictKind;
  readonly reason: string;
  readonly queries: number;
  /** CPU milliseconds of its replayed queries. */
  readonly controlCpuMillis: number;
  readonly candidateCpuMillis: number;
  /** A query with the verdict: in the history, and at both clusters. */
  readonly example: Pick<
    ReplayResult,
    'queryId' | 'controlQuery' | 'candidateQuery' | 'controlError' | 'candidateError' | 'user'
  >;
}

const rank = (verdict: VerdictKind) => verdictKinds.indexOf(verdict);

/** Results of a replay by shape, the worst verdicts first. */
export function digestVerdicts(results: readonly ReplayResult[]): readonly DigestVerdict[] {
  const verdicts = [...Map.groupBy(results, ({ digest }) => digest)].map(([digest, of]): DigestVerdict => {
    const worst = of.reduce((one, other) => (rank(other.verdict) < rank(one.verdict) ? other : one));
    const { queryId, controlQuery, candidateQuery, controlError, candidateError, user, reason, verdict } = worst;
    return {
      ...{ digest, verdict, reason, queries: of.length },
      controlCpuMillis: of.reduce((sum, each) => sum + (each.controlCpuMillis ?? 0), 0),
      candidateCpuMillis: of.reduce((sum, each) => sum + (each.candidateCpuMillis ?? 0), 0),
      example: { queryId, controlQuery, candidateQuery, controlError, candidateError, user },
    };
  });
  return verdicts.sort((a, b) => rank(a.verdict) - rank(b.verdict) || b.candidateCpuMillis - a.candidateCpuMillis);
}

/** Head of a report. */
export interface ReportHead {
  readonly name: string;
  readonly control: string;
  readonly candidate: string;
  readonly verified: boolean | null;
  /** A sentence for users. */
  readonly message: string;
}

/** Writes a report as JUnit's XML: a test for each shape. */
export function junitReport({ name, control, candidate }: ReportHead, verdicts: readonly DigestVerdict[]): string {
  const failures = verdicts.filter(({ verdict }) => isUnexplained(verdict)).length;
  const skipped = verdicts.filter(({ verdict }) => verdict === 'NotComparable').length;
  const cases = verdicts.map(({ digest, verdict, reason, example }) => {
    const { queryId, controlQuery, candidateQuery } = example;
    const details = `${reason}\nquery ${queryId}; ${control}: ${controlQuery ?? 'none'}; ${candidate}: ${candidateQuery ?? 'none'}`;
    const failure = `<failure type="${verdict}" message="${xml(reason)}">${xml(details)}</failure>`;
    const other = verdict === 'NotComparable' ? `<skipped message="${xml(reason)}"/>` : '';
    const inner = isUnexplained(verdict) ? failure : other;
    return `  <testcase classname="${xml(name)}" name="${xml(digest)}">${inner}</testcase>\n`;
  });
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="${xml(name)}" tests="${verdicts.length}" failures="${failures}" skipped="${skipped}">\n${cases.join('')}</testsuite>\n`;
}

/** Writes a report as Markdown: counts of verdicts, and shapes with other results. */
export function markdownReport(head: ReportHead, verdicts: readonly DigestVerdict[]): string {
  const { name, control, candidate, verified, message } = head;
  const table = (names: readonly string[], rows: readonly (readonly (string | number)[])[]) => {
    const lines = [names, names.map(() => '---'), ...rows.map((row) => row.map((each) => cell(String(each))))];
    return lines.map((line) => `| ${line.join(' | ')} |\n`).join('');
  };
  const counts = verdictKinds.map((kind) => [kind, verdicts.filter(({ verdict }) => verdict === kind).length] as const);
  const rows = verdicts
    .filter(({ verdict }) => verdict !== 'Same')
    .map(({ digest, verdict, queries, reason, example }) => [digest, verdict, queries, reason, example.queryId]);
  const result = verified === null ? 'not ended' : verified ? 'verified' : 'not verified';
  const title = `# Replay ${name}: ${result}\n\n${cell(candidate)} against ${cell(control)}: ${message}.\n\n`;
  const list = rows.length === 0 ? '' : `\n${table(['digest', 'verdict', 'queries', 'reason', 'example'], rows)}`;
  return `${title}${table(['verdict', 'shapes'], counts)}${list}`;
}

function cell(text: string): string {
  return text.replaceAll(/[\r\n]+/g, ' ').replaceAll('|', '\\|');
}

function xml(text: string): string {
  // Characters that XML 1.0 does not have are left out.
  const plain = text.toWellFormed().replaceAll(/[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '');
  const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  return plain.replaceAll(/[&<>"]/g, (character) => entities[character] ?? character);
}
