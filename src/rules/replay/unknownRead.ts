/**
 * Read of a value that a recorded request lacks. Not an `Error`, like `EvaluationError`: it is thrown for every query
 * of a long history, and only identifies a condition that cannot be replayed.
 */
export class UnknownRead {
  /** The value for users: `header X-Example`. */
  readonly fact: string;

  constructor(fact: string) {
    this.fact = fact;
  }
}
