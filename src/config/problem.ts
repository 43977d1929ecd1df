import type { Problem } from '../model/errors.ts';

/** A mistake in the configuration file. `field` is the key's path, e.g. `routing.asyncTimeout`. */
export interface ConfigProblem extends Problem {
  /** Line of the file, from 1; null if the problem has no single line. */
  readonly line: number | null;
  /** The file of that line; absent if the problem has no single line, or there is one file whose reader knows it. */
  readonly file?: string;
}

/** A note about the file that does not prevent the gateway from starting. */
export interface ConfigNote {
  readonly field: string;
  readonly line: number | null;
  readonly file?: string;
  readonly message: string;
}

/**
 * A problem or note in the form of compiler messages: `gateway.yaml:12: routing.asyncTimeout: needs a unit …`.
 * @param files the file, or what the files together are called, for a problem that names none
 */
export function problemLine(files: string, problem: ConfigProblem | ConfigNote): string {
  const file = problem.file ?? files;
  const place = problem.line === null ? file : `${file}:${problem.line}`;
  return problem.field === '' ? `${place}: ${problem.message}` : `${place}: ${problem.field}: ${problem.message}`;
}
