import type { Problem } from '../model/errors.ts';

/** A mistake in the configuration file. `field` is the key's path, e.g. `routing.asyncTimeout`. */
export interface ConfigProblem extends Problem {
  /** Line of the file, from 1; null where the problem has no single line. */
  readonly line: number | null;
}

/** A note about the file that does not prevent the gateway from starting. */
export interface ConfigNote {
  readonly field: string;
  readonly line: number | null;
  readonly message: string;
}

/** A problem or note in the form of compiler messages: `gateway.yaml:12: routing.asyncTimeout: needs a unit …`. */
export function problemLine(file: string, problem: ConfigProblem | ConfigNote): string {
  const place = problem.line === null ? file : `${file}:${problem.line}`;
  return problem.field === '' ? `${place}: ${problem.message}` : `${place}: ${problem.field}: ${problem.message}`;
}
