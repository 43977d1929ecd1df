import { decodeStart } from './answerId.ts';
import { HEAD_BYTES, namesNext } from './answerWatch.ts';

/**
 * The answer to a submission as it passes, of which its client learns whether it has to ask again. Engines write the
 * next URI before columns and rows, so that only the head is looked at; that it is missing is known when the response
 * ends.
 */
export class FirstAnswer {
  readonly #encoding: string;
  readonly #listeners: ((goesOn: boolean) => void)[] = [];
  #chunks: Buffer[] = [];
  #size = 0;
  /** Null while it is not known. */
  #goesOn: boolean | null = null;

  /**
   * @param encoding value of Content-Encoding; empty for none
   * @param text decoded start of it
   * @param held what came of it: `text` is made from its bytes
   */
  constructor(
    encoding: string,
    text: string,
    { chunks, isWhole }: { readonly chunks: readonly Buffer[]; readonly isWhole: boolean },
  ) {
    this.#encoding = encoding;
    if (namesNext(text)) this.#decide(true);
    else if (isWhole) this.#decide(false);
    else for (const chunk of chunks) this.#keep(chunk);
  }

  /** Calls the listener once it is known whether the client asks again: now, or when that is known. */
  whenKnown(listener: (goesOn: boolean) => void): void {
    if (this.#goesOn === null) this.#listeners.push(listener);
    else listener(this.#goesOn);
  }

  /** A further part came. Called before the client gets it. */
  data(chunk: Buffer): void {
    if (this.#goesOn !== null || this.#size >= HEAD_BYTES) return;
    this.#keep(chunk);
    if (this.#size >= HEAD_BYTES && this.#headNamesNext() === true) this.#decide(true);
  }

  /** The rest came. Called before the client gets its end. */
  end(): void {
    if (this.#goesOn === null) this.#decide(this.#headNamesNext() ?? true);
  }

  /** Nothing more of it comes: a query whose head is not whole may continue. */
  breakOff(): void {
    if (this.#goesOn === null) this.#decide(this.#size < HEAD_BYTES || (this.#headNamesNext() ?? true));
  }

  #keep(chunk: Buffer): void {
    if (this.#size >= HEAD_BYTES) return;
    this.#chunks.push(chunk);
    this.#size += chunk.length;
  }

  /** Null: it cannot be decoded. */
  #headNamesNext(): boolean | null {
    const bytes = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
    const head = this.#encoding === '' ? bytes : decodeStart(bytes, this.#encoding);
    return head === null ? null : namesNext(head.toString('latin1', 0, HEAD_BYTES));
  }

  #decide(goesOn: boolean): void {
    this.#goesOn = goesOn;
    this.#chunks = [];
    for (const listener of this.#listeners.splice(0)) listener(goesOn);
  }
}
