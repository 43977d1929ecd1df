import type { ProductNames } from '../model/names.ts';
import type { RuleRequest } from './decision.ts';
import { Evaluation, EvaluationError } from './evaluation.ts';
import { compileProgram } from './language/program.ts';
import { CompileError, placeText } from './language/source.ts';
import { defaultRuleLimits } from './limits.ts';
import { RequestObject } from './requestObjects.ts';
import { JavaList, JavaMap } from './values/collections.ts';
import { describe } from './values/describe.ts';

/** Values for an expression under one name: texts and lists of texts by key. */
export type TextValues = Readonly<Record<string, string | readonly string[]>>;

export interface TextExpression {
  /** Evaluates the expression: returns the text, null, or the error. */
  run(values: TextValues): { readonly text: string | null } | { readonly failure: string };
}

/** Far more than picking a name takes, and too little to slow down other callers. */
const LIMITS = { ...defaultRuleLimits, steps: 10_000, memory: 1_048_576, stringLength: 65_536, time: 10 };

const noRequest: RuleRequest = {
  method: 'GET',
  path: '/',
  query: null,
  headers: [],
  scheme: 'https',
  serverName: '',
  serverPort: 0,
  remoteAddr: '',
  remoteUser: null,
  formBody: null,
  isSubmission: false,
  user: null,
  queryProperties: null,
};

/**
 * Compiles an expression of the rules language that returns a text from named values (docs/rules.md#the-language),
 * under the language's budgets.
 * @param variable name of the map with the values
 * @returns the expression, or the mistake with its position
 */
export function compileTextExpression(
  source: string,
  variable: string,
  names: ProductNames,
): TextExpression | { readonly problem: string } {
  // The only map that is filled for expressions is `state`; a variable with the configured name refers to it.
  const prefix = `${variable} = state; `;
  let program: ReturnType<typeof compileProgram>;
  try {
    program = compileProgram(prefix + source, { names, analyzeRequest: false });
  } catch (error) {
    if (!(error instanceof CompileError)) throw error;
    return { problem: `${placeText(source, Math.max(0, error.offset - prefix.length))}: ${error.message}` };
  }
  const [warning] = program.warnings;
  if (warning !== undefined) {
    return { problem: `${placeText(source, Math.max(0, warning.offset - prefix.length))}: ${warning.message}` };
  }
  return {
    run(values) {
      const state = new JavaMap();
      const request = new RequestObject(noRequest, names);
      const objects = { request, state, result: new JavaMap(), user: undefined, query: undefined };
      const evaluation = new Evaluation(objects, LIMITS);
      try {
        for (const [key, value] of Object.entries(values)) {
          state.fill(key, typeof value === 'string' ? value : new JavaList([...value]), evaluation);
        }
        const value = program.run(evaluation);
        if (value === null || typeof value === 'string') return { text: value };
        return { failure: `gives ${describe(value)}, not a text` };
      } catch (error) {
        if (error instanceof EvaluationError) return { failure: error.message };
        throw error;
      }
    },
  };
}
