import { compareResults } from './resultFold.ts';
import type { StatementRun } from './statementRuns.ts';

/** Verdicts of a comparison, and of a digest: the worst of its comparisons counts. In order, the worst first. */
export const verdictKinds = [
  'FailedOnCandidate',
  'Different',
  'Slower',
  'NonDeterministic',
  'NotComparable',
  'Same',
] as const;
export type VerdictKind = (typeof verdictKinds)[number];

/** Result of one statement on both clusters. */
export interface QueryVerdict {
  readonly kind: VerdictKind;
  /** A sentence for users. */
  readonly reason: string;
}

/** CPU time that counts as slower: as times of the control's, and in milliseconds more, as short statements vary. */
const SLOWER = { factor: 3, leastMillis: 1_000 } as const;

/** Verdicts that keep a replay from being verified. */
export const isUnexplained = (kind: VerdictKind): boolean =>
  kind === 'FailedOnCandidate' || kind === 'Different' || kind === 'Slower';

/**
 * Judges a statement by its runs on both clusters. Pure.
 * @param again a second run on the control, which shows if the statement is deterministic; null: there was none
 * @param isOrdered true if the statement has ORDER BY at its top level
 * @param hasFailed true if the recorded query failed: then equal errors are equal results
 */
export function verdictOf(
  control: StatementRun,
  candidate: StatementRun,
  again: StatementRun | null,
  isOrdered: boolean,
  hasFailed: boolean,
): QueryVerdict {
  const uncertain = (reason: string): QueryVerdict => ({ kind: 'NotComparable', reason });
  if (control.kind === 'lost') return uncertain(`on the control: ${control.reason}`);
  if (candidate.kind === 'lost') {
    return { kind: 'FailedOnCandidate', reason: candidate.reason };
  }
  if (control.kind === 'failed') {
    if (candidate.kind !== 'failed') return uncertain(`it fails on the control: ${errorText(control)}`);
    if (control.error.name !== candidate.error.name)
      return { kind: 'Different', reason: `it fails with ${errorText(control)} and with ${errorText(candidate)}` };
    const reason = `both fail: ${errorText(control)}`;
    return hasFailed ? { kind: 'Same', reason } : uncertain(reason);
  }
  if (candidate.kind === 'failed') return { kind: 'FailedOnCandidate', reason: errorText(candidate) };
  if (control.kind === 'tooLarge' || candidate.kind === 'tooLarge') return uncertain('the result is too large');
  const difference = compareResults(control.digest, candidate.digest, isOrdered);
  if (difference !== null) {
    const own = again?.kind === 'done' ? compareResults(control.digest, again.digest, isOrdered) : null;
    const isExplained = own !== null && difference.kind !== 'columns';
    return isExplained
      ? { kind: 'NonDeterministic', reason: `two runs on the control differ as well: ${own.reason}` }
      : { kind: 'Different', reason: difference.reason };
  }
  const [before, after] = [control.cpuMillis, candidate.cpuMillis];
  if (before !== null && after !== null) {
    const isSlower = after > before * SLOWER.factor && after - before > SLOWER.leastMillis;
    if (isSlower) return { kind: 'Slower', reason: `${after} ms of CPU, ${before} ms on the control` };
  }
  return { kind: 'Same', reason: `${control.digest.rows} equal rows` };
}

function errorText({ error }: Extract<StatementRun, { kind: 'failed' }>): string {
  return `${error.name}: ${error.message}`;
}

/** Error of a run, or the reason that it has no end; null: none. */
export function errorOf(run: StatementRun): string | null {
  if (run.kind === 'failed') return errorText(run);
  return run.kind === 'lost' && run.reason !== '' ? run.reason : null;
}
