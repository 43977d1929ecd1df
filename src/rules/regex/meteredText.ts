import type { Evaluation } from '../evaluation.ts';
import { indexOf } from '../values/textSearch.ts';

/** Units of reading one character for a small program: RE2 in JavaScript takes several times as long as a search. */
const UNITS_A_CHARACTER = 8;
const FOLLOWED_INSTRUCTIONS = 64;
/** Instructions times characters between budget checks: they take a few milliseconds at most. */
const WORK_BETWEEN_CHECKS = 65_536;
const MAX_CHARACTERS_BETWEEN_CHECKS = 4096;

/**
 * A text for re2js that counts reads of its characters, and ends a match when a budget is used up. In the worst case, a
 * program follows all of its instructions for each character, and reads the rest of the text again for each match:
 * neither is known in advance.
 */
export class MeteredText {
  /** Identifies strings for re2js. A subclass of String would make V8 read all strings more slowly. */
  readonly [Symbol.toStringTag] = 'String';
  readonly length: number;
  readonly #text: string;
  readonly #evaluation: Evaluation;
  readonly #charactersBetweenChecks: number;
  readonly #unitsACharacter: number;
  #left: number;

  /** @param instructions of the program that reads it */
  constructor(text: string, instructions: number, evaluation: Evaluation) {
    this.length = text.length;
    this.#text = text;
    this.#evaluation = evaluation;
    const characters = Math.trunc(WORK_BETWEEN_CHECKS / instructions);
    this.#charactersBetweenChecks = Math.max(1, Math.min(characters, MAX_CHARACTERS_BETWEEN_CHECKS));
    this.#unitsACharacter = UNITS_A_CHARACTER * (1 + Math.trunc(instructions / FOLLOWED_INSTRUCTIONS));
    this.#left = this.#charactersBetweenChecks;
  }

  charCodeAt(index: number): number {
    this.#left -= 1;
    if (this.#left < 0) this.#check();
    return this.#text.charCodeAt(index);
  }

  indexOf(part: string, from = 0): number {
    return indexOf(this.#text, part, from, this.#evaluation);
  }

  #check(): void {
    this.#left = this.#charactersBetweenChecks;
    this.#evaluation.text(this.#charactersBetweenChecks * this.#unitsACharacter);
    this.#evaluation.checkTime();
  }
}
