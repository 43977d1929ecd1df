import { MAX_DEPTH } from '../limits.ts';
import type { Token } from './lexer.ts';
import { CompileError, UnavailableError } from './source.ts';
import { isWrongEverywhere, rejectionOf } from './vocabulary.ts';

export class TokenReader {
  readonly #tokens: readonly Token[];
  #index = 0;
  #depth = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  protected peek(ahead = 0): Token {
    const last = this.#tokens.length - 1;
    return this.#tokens[Math.min(this.#index + ahead, last)] as Token;
  }

  protected advance(): Token {
    const token = this.peek();
    this.#index += 1;
    return token;
  }

  protected at(text: string): boolean {
    const token = this.peek();
    return token.text === text && token.type !== 'literal';
  }

  protected accept(text: string): boolean {
    if (!this.at(text)) return false;
    this.#index += 1;
    return true;
  }

  protected expect(text: string, where: string): Token {
    if (!this.at(text)) throw this.unexpected(`${text} is missing ${where}`);
    return this.advance();
  }

  protected unexpected(expected: string): CompileError {
    const token = this.peek();
    const rejection = token.type === 'literal' ? undefined : rejectionOf(token.text);
    const actual =
      token.type === 'end' ? 'the end' : token.type === 'literal' ? 'a literal' : JSON.stringify(token.text);
    if (rejection === undefined) return new CompileError(`${expected}; found ${actual}`, token.offset);
    const ErrorType = isWrongEverywhere(token.text) ? CompileError : UnavailableError;
    return new ErrorType(`${token.text} cannot be used here: ${rejection}`, token.offset);
  }

  /** Runs a step one level deeper, within the depth budget. */
  protected nested<T>(read: () => T): T {
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) {
      throw new UnavailableError(`nested deeper than ${MAX_DEPTH} levels`, this.peek().offset);
    }
    const result = read();
    this.#depth -= 1;
    return result;
  }
}
