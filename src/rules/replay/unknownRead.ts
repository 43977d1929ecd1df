/**
 * Something was read of a recorded request that its record does not hold. Not an `Error`, like `EvaluationError`: it is
 * thrown for every query of a long history, and only says which condition cannot be replayed.
 */
export class UnknownRead {
  /** What was read, for people: `header X-Example`. */
  readonly fact: string;

  constructor(fact: string) {
    this.fact = fact;
  }
}
