import { ApiError } from './apiError.ts';

/**
 * Messages of an error by field of a form, with their places where they have one; empty where the error names no field,
 * or where the field is as it should be but another manager's.
 * @param isField which fields the form has, without the `data.` that calls of the web application put in front
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

/** Offset of a place in a text; line and column count from 1. Beyond the text: its end. */
export function offsetOf(text: string, line: number, column: number): number {
  const lines = text.split('\n').slice(0, line - 1);
  const start = lines.reduce((sum, each) => sum + each.length + 1, 0);
  return Math.min(start + column - 1, text.length);
}
