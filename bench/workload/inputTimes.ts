import { type InputKind, inputKinds, type SampleSubmission, SubmissionStream } from './submissions.ts';

/** Submissions a round. The clock of processor time advances by milliseconds: rounds are added up. */
const A_ROUND = 4_000;
const WARM_UP = 4;

/**
 * Microseconds of processor time an operation, the mean of all rounds after warming up; another process on the machine does
 * not count.
 * @param operations measured in turns, each with the same submissions, which none of them has had before
 */
export function inputTimes(
  operations: readonly ((submission: SampleSubmission) => unknown)[],
  rounds = 10,
): ReadonlyMap<InputKind, readonly number[]> {
  return new Map(inputKinds.map((kind) => [kind, timesOf(kind, operations, rounds)] as const));
}

function timesOf(
  kind: InputKind,
  operations: readonly ((submission: SampleSubmission) => unknown)[],
  rounds: number,
): readonly number[] {
  const stream = new SubmissionStream(kind, 1);
  const used = operations.map(() => 0);
  for (let round = -WARM_UP; round < rounds; round += 1) {
    const submissions = stream.next(A_ROUND);
    for (const [index, operation] of operations.entries()) {
      const start = process.threadCpuUsage();
      for (const submission of submissions) operation(submission);
      const { user, system } = process.threadCpuUsage(start);
      if (round >= 0) used[index] = (used[index] ?? 0) + user + system;
    }
  }
  return used.map((sum) => sum / rounds / A_ROUND);
}
