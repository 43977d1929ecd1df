import { analyzeSql, type SqlAnalysis, unanalyzed } from './analyzeSql.ts';
import { type PreparedText, type PreparedTexts, preparedStatements } from './preparedStatements.ts';

/** Header lines with prepared statements, and how much may be decoded of them. */
export interface PreparedLines {
  readonly lines: readonly string[];
  /** Most bytes that are decoded for the request. */
  readonly maxBytes: number;
  /** Statements of this many characters and more are not analysed, as bodies are not (`maxBodySize`). */
  readonly maxCharacters: number;
}

/** A statement and what its analysis needs, in a form that can be sent to another thread. */
export interface StatementTask {
  readonly text: string;
  readonly catalog: string | null;
  readonly schema: string | null;
  /** Prepared statements: of the headers, or texts by name. */
  readonly prepared: PreparedLines | ReadonlyMap<string, string>;
}

/** Characters that a task holds. */
export function taskCharacters({ text, prepared }: StatementTask): number {
  let characters = text.length;
  for (const statement of 'lines' in prepared ? prepared.lines : prepared.values()) characters += statement.length;
  return characters;
}

/** Analyses a statement here and now. */
export function analyzeTask(task: StatementTask): SqlAnalysis {
  const prepared = preparedOf(task);
  return 'errorMessage' in prepared ? unanalyzed(task.text, prepared.errorMessage) : analyzeWith(task, prepared);
}

/**
 * Analyses a statement, unless it executes a prepared statement that is long: then `long` is the task with that one
 * statement, decoded, for another thread.
 * @param longest characters of a prepared statement that are analysed here
 */
export function analyzeShort(task: StatementTask, longest: number): SqlAnalysis | { readonly long: StatementTask } {
  const prepared = preparedOf(task);
  if ('errorMessage' in prepared) return unanalyzed(task.text, prepared.errorMessage);
  let long: StatementTask | null = null;
  const short: PreparedTexts = {
    get(name) {
      const statement = prepared.get(name);
      if (typeof statement !== 'string' || statement.length <= longest) return statement;
      long = { ...task, prepared: new Map([[name, statement]]) };
      return { errorMessage: 'long' };
    },
  };
  const analysis = analyzeWith(task, short);
  return long === null ? analysis : { long };
}

function analyzeWith({ text, catalog, schema }: StatementTask, prepared: PreparedTexts): SqlAnalysis {
  return analyzeSql(text, { catalog, schema, prepared });
}

function preparedOf({ prepared }: StatementTask): PreparedTexts | { errorMessage: string } {
  return 'lines' in prepared ? ofHeaders(prepared) : prepared;
}

function ofHeaders({ lines, maxBytes, maxCharacters }: PreparedLines): PreparedTexts | { errorMessage: string } {
  const { statements, errorMessage } = preparedStatements(lines, maxBytes);
  if (errorMessage !== null) return { errorMessage };
  return {
    get(name): PreparedText {
      const text = statements.get(name);
      if (typeof text !== 'string' || text.length < maxCharacters) return text;
      const limit = `${maxCharacters} characters or more (requestAnalyzerConfig.maxBodySize)`;
      return { errorMessage: `preparedStatement has ${limit}` };
    },
  };
}
