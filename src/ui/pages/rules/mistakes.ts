import { ApiError } from '../../client/apiError.ts';

/** Messages of an error by field, with their places; empty where it names no field of a rule. */
export function mistakesOf(error: unknown): Readonly<Record<string, string>> {
  if (!(error instanceof ApiError) || error.status === 409) return {};
  const named = error.field === undefined ? [] : [{ field: error.field, message: error.message }];
  const problems = error.problems.length > 0 ? error.problems : named;
  const messages: Record<string, string> = {};
  for (const problem of problems) {
    if (!isField(problem.field)) continue;
    const place = 'line' in problem ? `line ${problem.line}, column ${problem.column}: ` : '';
    const before = messages[problem.field];
    messages[problem.field] = `${before === undefined ? '' : `${before}; `}${place}${problem.message}`;
  }
  return messages;
}

const fields = /^(description|priority|condition|actions(\[\d+\])?|routeTo(\.\w+)?|deny(\.\w+)?)$/;
const isField = (field: string): boolean => fields.test(field);

/** Offset of a place in a text; line and column count from 1. Beyond the text: its end. */
export function offsetOf(text: string, line: number, column: number): number {
  const lines = text.split('\n').slice(0, line - 1);
  const start = lines.reduce((sum, each) => sum + each.length + 1, 0);
  return Math.min(start + column - 1, text.length);
}
