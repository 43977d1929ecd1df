import { analyzeSql, type SqlAnalysis, unanalyzed } from './analyzeSql.ts';
import { type PreparedStatements, type PreparedText, preparedStatements } from './preparedStatements.ts';

/** Header lines with prepared statements, and limits for decoding them. */
export interface PreparedLines {
  readonly lines: readonly string[];
  /** Maximum number of bytes to decode for the request. */
  readonly maxBytes: number;
  /** Statements of this many characters or more are not analyzed (`maxBodySize`). */
  readonly maxCharacters: number;
}

/** A statement and the inputs of its analysis, in a form that can be sent to another thread. */
export interface StatementTask {
  readonly text: string;
  readonly catalog: string | null;
  readonly schema: string | null;
  /** Prepared statements: of the headers, or texts by name. */
  readonly prepared: PreparedLines | ReadonlyMap<string, string>;
}

export function taskCharacters({ text, prepared }: StatementTask): number {
  let characters = text.length;
  for (const statement of 'lines' in prepared ? prepared.lines : prepared.values()) characters += statement.length;
  return characters;
}

export function analyzeTask(task: StatementTask): SqlAnalysis {
  return analyzeWith(task, preparedOf(task.prepared));
}

/**
 * Analyzes a statement, unless the prepared statements that it names are long: then `long` is the task for another
 * thread.
 * @param longest maximum number of characters of prepared statements that are analyzed here
 */
export function analyzeShort(task: StatementTask, longest: number): SqlAnalysis | { readonly long: StatementTask } {
  let characters = 0;
  const prepared = preparedOf(task.prepared, (text) => {
    characters += text.length;
    return characters <= longest ? text : { errorMessage: 'long' };
  });
  const analysis = analyzeWith(task, prepared);
  return characters > longest ? { long: task } : analysis;
}

function analyzeWith({ text, catalog, schema }: StatementTask, prepared: PreparedStatements): SqlAnalysis {
  const { statements, errorMessage } = prepared;
  if (statements === null) return { ...unanalyzed(errorMessage), body: text, unreadable: errorMessage };
  const analysis = analyzeSql(text, { catalog, schema, prepared: statements });
  return errorMessage === null ? analysis : { ...analysis, errorMessage, unreadable: errorMessage };
}

/** @param bounded returns the text of a prepared statement, or the reason that it is not analyzed */
function preparedOf(
  prepared: StatementTask['prepared'],
  bounded: (text: string) => PreparedText = (text) => text,
): PreparedStatements {
  if (!('lines' in prepared)) return { statements: prepared, errorMessage: null };
  const { lines, maxBytes, maxCharacters } = prepared;
  const read = preparedStatements(lines, maxBytes);
  const { statements } = read;
  if (statements === null) return read;
  const get = (name: string): PreparedText => {
    const text = statements.get(name);
    if (typeof text !== 'string') return text;
    if (text.length < maxCharacters) return bounded(text);
    const limit = `${maxCharacters} characters or more (requestAnalyzerConfig.maxBodySize)`;
    return { errorMessage: `preparedStatement has ${limit}` };
  };
  return { ...read, statements: { get } };
}
