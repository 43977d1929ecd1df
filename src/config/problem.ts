import type { Problem } from '../model/errors.ts';

/** A mistake in the configuration file. `field` is the key's path, e.g. `routing.asyncTimeout`. */
export interface ConfigProblem extends Problem {
  /** Line of the file, from 1; null where no single line is to blame. */
  readonly line: number | null;
}

/** Something to know about the file that does not keep the gateway from starting. */
export interface ConfigNote {
  readonly field: string;
  readonly line: number | null;
  readonly message: string;
}

/** A problem or note as people know it from compilers: `gateway.yaml:12: routing.asyncTimeout: needs a unit …`. */
export function problemLine(file: string, problem: ConfigProblem | ConfigNote): string {
  const place = problem.line === null ? file : `${file}:${problem.line}`;
  return problem.field === '' ? `${place}: ${problem.message}` : `${place}: ${problem.field}: ${problem.message}`;
}
