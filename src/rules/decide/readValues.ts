import { objectTables, requestSource } from '../compile/requestExpressions.ts';
import type { ReadValue, RuleRequest } from '../decision.ts';
import { Evaluation, EvaluationError, systemSources } from '../evaluation.ts';
import type { Expression } from '../language/ast.ts';
import { childrenOf, partsOf, statementsIn } from '../language/children.ts';
import { CompileBudget } from '../language/compileBudget.ts';
import { parse } from '../language/parser.ts';
import { compileProgram } from '../language/program.ts';
import type { CompileContext } from '../language/scope.ts';
import { CompileError } from '../language/source.ts';
import type { MethodTable } from '../library/methodTable.ts';
import { defaultRuleLimits } from '../limits.ts';
import { QueryObject, RequestObject, UserObject } from '../requestObjects.ts';
import { JavaMap } from '../values/collections.ts';
import { javaText } from '../values/text.ts';

const MAX_VALUES = 20;
const MAX_TEXT = 200;

/**
 * Values of a request that a condition reads: calls or properties of the request, its user and its query with literal
 * arguments. Empty if the condition does not compile.
 */
export function readValues(condition: string, request: RuleRequest, context: CompileContext): readonly ReadValue[] {
  const reader = new ValueReader(request, context);
  try {
    for (const statement of statementsIn(parse(condition, new CompileBudget(), context.names))) {
      for (const expression of partsOf(statement).expressions) reader.add(expression);
    }
  } catch (error) {
    if (!(error instanceof CompileError)) throw error;
  }
  return [...reader.values.values()];
}

class ValueReader {
  readonly values = new Map<string, ReadValue>();
  readonly #tables: ReadonlyMap<string, MethodTable>;
  readonly #context: CompileContext;
  readonly #request: RuleRequest;

  constructor(request: RuleRequest, context: CompileContext) {
    this.#request = request;
    this.#context = context;
    this.#tables = objectTables(context.names);
  }

  add(expression: Expression): void {
    if (this.values.size >= MAX_VALUES) return;
    const text = this.#textOf(expression);
    if (text === null) for (const child of childrenOf(expression)) this.add(child);
    else if (!this.values.has(text)) {
      const value = this.#valueOf(text);
      if (value !== null)
        this.values.set(text, { expression: text, value, source: requestSource(expression, this.#context.names) });
    }
  }

  /** Text of an expression that reads a value, in one line; null for other expressions. */
  #textOf(expression: Expression): string | null {
    if (expression.type !== 'property' && expression.type !== 'call') return null;
    const { target, name } = expression;
    if (target.type !== 'name' || !this.#tables.has(target.name)) return null;
    if (expression.type === 'property') return `${target.name}.${name}`;
    const args = expression.args.map((arg) => (arg.type === 'literal' ? literalOf(arg.value) : null));
    return args.includes(null) ? null : `${target.name}.${name}(${args.join(', ')})`;
  }

  #valueOf(text: string): string | null {
    const { user, queryProperties } = this.#request;
    const objects = {
      request: new RequestObject(this.#request, this.#context.names),
      state: new JavaMap(),
      result: new JavaMap(),
      user: user === null ? undefined : new UserObject(user),
      query: queryProperties === null ? undefined : new QueryObject(queryProperties),
    };
    const e = new Evaluation(objects, defaultRuleLimits, systemSources);
    try {
      const value = compileProgram(text, this.#context).run(e);
      const shown = typeof value === 'string' ? JSON.stringify(value) : javaText(value, e);
      return shown.length > MAX_TEXT ? `${shown.slice(0, MAX_TEXT)}…` : shown;
    } catch (error) {
      if (error instanceof EvaluationError) return `fails: ${error.message}`.slice(0, MAX_TEXT);
      if (error instanceof CompileError) return null;
      throw error;
    }
  }
}

/** Source text of a literal; null if it has no short form. */
function literalOf(value: unknown): string | null {
  if (typeof value === 'string') return value.length > MAX_TEXT ? null : JSON.stringify(value);
  return value === null || typeof value === 'boolean' || typeof value === 'number' ? String(value) : null;
}
