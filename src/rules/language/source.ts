/** A text that does not compile: the mistake, its position, and valid alternatives. */
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
 * Code that this language does not support or know while Trino Gateway loads it: rejects only its own rule and not the
 * whole rules file (docs/rules.md#rules-that-cannot-run).
 */
export class UnavailableError extends CompileError {}

/** A position in a text: line and column counted from 1, columns in UTF-16 units. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** The position of an offset; only a line feed ends a line. */
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
