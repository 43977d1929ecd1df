import { ApiError } from './apiError.ts';

/**
 * Returns messages of an error by field of a form, with their positions if known. Empty if the error names no field, or
 * if the field is correct but owned by another manager.
 * @param isField true for fields of the form, without the prefix `data.` of web application calls
 */
export function mistakesOf(error: unknown, isField: (field: string) => boolean): Readonly<Record<string, string>> {
  if (!(error instanceof ApiError) || error.code === 'EG_FIELD_OWNED') return {};
  const single = error.field === undefined ? [] : [{ field: error.field, message: error.message }];
  const messages: Record<string, string> = {};
  for (const problem of error.problems.length > 0 ? error.problems : single) {
    const field = problem.field.replace(/^data\./, '');
    if (!isField(field)) continue;
    const place = 'line' in problem ? `line ${problem.line}, column ${problem.column}: ` : '';
    const before = messages[field];
    messages[field] = `${before === undefined ? '' : `${before}; `}${place}${problem.message}`;
  }
  return messages;
}

/** Offset of a position in a text; line and column count from 1. Beyond the text: its end. */
export function offsetOf(text: string, line: number, column: number): number {
  const lines = text.split('\n').slice(0, line - 1);
  const start = lines.reduce((sum, each) => sum + each.length + 1, 0);
  return Math.min(start + column - 1, text.length);
}
