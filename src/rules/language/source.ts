/** A text that does not compile: what is wrong, where, and what is allowed instead. */
export class CompileError extends Error {
  override readonly name = 'CompileError';
  /** Offset in the text in UTF-16 units. */
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

/**
 * What this language leaves out or does not know while the reference gateway loads it: it leaves out its own rule
 * and not the whole rules file (docs/rules.md#rules-that-cannot-run).
 */
export class UnavailableError extends CompileError {}

/** A place in a text: line and column counted from 1, columns in UTF-16 units. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** The place of an offset; only a line feed ends a line. */
export function positionOf(text: string, offset: number): Position {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf('\n') + 1;
  return { line: before.split('\n').length, column: offset - lineStart + 1 };
}

/** `line L, column C`. */
export function placeText(text: string, offset: number): string {
  const { line, column } = positionOf(text, offset);
  return `line ${line}, column ${column}`;
}
