import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { copied, setElement } from '../library/collections.ts';
import { libraryClass, primitiveTypes } from '../library/library.ts';
import { convertTo } from '../library/numbers.ts';
import { elementsOf, JavaList, JavaMap } from '../values/collections.ts';
import { describe } from '../values/describe.ts';
import { add, arithmetic, compareNatural, requireBoolean } from '../values/operators.ts';
import type { Value } from '../values/value.ts';
import type { AssignmentOperator, Block, Expression, Statement } from './ast.ts';
import { CompileBudget } from './compileBudget.ts';
import { type Code, compileExpression } from './expressionCompiler.ts';
import { parse } from './parser.ts';
import { type CompileContext, Scope } from './scope.ts';
import { CompileError, UnavailableError } from './source.ts';

export interface Program {
  readonly source: string;
  readonly readsUser: boolean;
  readonly readsQuery: boolean;
  /** Mistakes that only fail at evaluation, such as unknown variables. */
  readonly warnings: readonly { readonly message: string; readonly offset: number }[];
  /** Runs it: returns the value of `return` or of the last statement. @throws EvaluationError */
  run(e: Evaluation): Value;
}

type Node<T extends Statement['type']> = Extract<Statement, { readonly type: T }>;

/**
 * Compiles the text of a condition or action.
 * @throws CompileError with the position of the mistake
 */
export function compileProgram(source: string, context: CompileContext): Program {
  const budget = new CompileBudget();
  return compileBlock(source, parse(source, budget, context.names), context, budget);
}

/**
 * Compiles a parsed text.
 * @param budget of the rule
 * @throws CompileError with the position of the mistake
 */
export function compileBlock(source: string, block: Block, context: CompileContext, budget: CompileBudget): Program {
  const [only] = block.statements;
  const whole = block.statements.length === 1 && only?.type === 'expression' ? only.expression : null;
  const scope = new Scope(context, budget, whole);
  const code = blockCode(block, scope);
  const { slots, readsUser, readsQuery, warnings } = scope;
  const cost = Math.trunc(scope.nodes / NODES_A_STEP);
  // A single expression needs neither variables nor return.
  const run =
    whole !== null
      ? cost === 0
        ? code
        : (e: Evaluation): Value => {
            e.step(cost);
            return code(e);
          }
      : (e: Evaluation): Value => {
          e.step(cost);
          e.locals = slots === 0 ? NO_LOCALS : new Array<Value>(slots).fill(null);
          e.hasReturned = false;
          return code(e);
        };
  return { source, readsUser, readsQuery, warnings, run };
}

const NO_LOCALS: Value[] = [];

/** Nodes per step: constants, variables and operators, which are not counted individually. */
const NODES_A_STEP = 64;

/** Compiles a repeated part of the text: returns its code, and the steps of one round. */
function measured<T>(scope: Scope, compile: () => T): { readonly code: T; readonly cost: number } {
  const before = scope.nodes;
  const code = compile();
  return { code, cost: 1 + Math.trunc((scope.nodes - before) / NODES_A_STEP) };
}

function blockCode({ statements }: Block, scope: Scope): Code {
  const codes = statements.map((statement) => statementCode(statement, scope));
  const [only] = codes;
  if (codes.length === 1 && only !== undefined) return only;
  return (e) => {
    let value: Value = null;
    for (const code of codes) {
      value = code(e);
      if (e.hasReturned) return e.returnValue;
    }
    return value;
  };
}

function statementCode(statement: Statement, scope: Scope): Code {
  scope.nodes += 1;
  switch (statement.type) {
    case 'expression':
      return compileExpression(statement.expression, scope);
    case 'assign':
      return assignCode(statement, scope);
    case 'declare':
      return declareCode(statement, scope);
    case 'increment':
      return incrementCode(statement, scope);
    case 'if':
      return ifCode(statement, scope);
    case 'foreach':
      return foreachCode(statement, scope);
    case 'for':
      return scope.inBlock(() => forCode(statement, scope));
    case 'while':
      return loopCode('while', { ...statement, update: null }, scope);
    case 'return':
      return returnCode(statement, scope);
  }
}

function returnCode({ value }: Node<'return'>, scope: Scope): Code {
  const code: Code = value === null ? () => null : compileExpression(value, scope);
  return (e) => {
    const result = code(e);
    e.returnValue = result;
    e.hasReturned = true;
    return result;
  };
}

function ifCode({ test, yes, no, offset }: Node<'if'>, scope: Scope): Code {
  const testCode = compileExpression(test, scope);
  const yesCode = scope.inBlock(() => blockCode(yes, scope));
  const noCode: Code = no === null ? () => null : scope.inBlock(() => blockCode(no, scope));
  return (e) => (requireBoolean(testCode(e), 'if', offset) ? yesCode(e) : noCode(e));
}

function checkType(javaType: string, offset: number): void {
  if (javaType === 'var' || javaType === 'Object' || primitiveTypes.has(javaType)) return;
  if (libraryClass(javaType) === undefined) throw new UnavailableError(`the type ${javaType} is not available`, offset);
}

function declareCode({ javaType, name, value, offset }: Node<'declare'>, scope: Scope): Code {
  checkType(javaType, offset);
  const code: Code = value === null ? () => null : compileExpression(value, scope);
  const slot = scope.declare(name, offset);
  return (e) => {
    const initial = code(e);
    e.at = offset;
    const converted = convertTo(javaType, initial, e);
    e.locals[slot] = converted;
    return converted;
  };
}

function incrementCode({ name, by, prefix, offset }: Node<'increment'>, scope: Scope): Code {
  const slot = scope.slot(name);
  if (slot === undefined) throw new UnavailableError(`unknown variable ${name}`, offset);
  return (e) => {
    const before = e.locals[slot] ?? null;
    const after = by === 1 ? add(before, 1, e) : arithmetic('-', before, 1, offset);
    e.locals[slot] = after;
    return prefix ? after : before;
  };
}

function assignCode({ target, operator, value, offset }: Node<'assign'>, scope: Scope): Code {
  const code = compileExpression(value, scope);
  const combine = combiner(operator, offset);
  if (target.type === 'name') return assignVariable(target, combine, operator, code, scope);
  if (target.type === 'property') {
    const { name } = target;
    return assignMember(target.target, () => name, combine, target, code, offset, scope);
  }
  if (target.type === 'index') {
    return assignMember(target.target, compileExpression(target.key, scope), combine, target, code, offset, scope);
  }
  throw new CompileError('only a variable, map.key or list[index] can be assigned to', offset);
}

type Combine = ((before: Value, value: Value, e: Evaluation) => Value) | null;

/** Calculation of `+=`, `-=` etc.; null for a plain assignment. */
function combiner(operator: AssignmentOperator, offset: number): Combine {
  if (operator === '=') return null;
  if (operator === '+=') return add;
  const sign = signs[operator];
  return (before, value) => arithmetic(sign, before, value, offset);
}

const signs = { '-=': '-', '*=': '*', '/=': '/', '%=': '%' } as const;

function assignVariable(
  { name, offset }: Extract<Expression, { type: 'name' }>,
  combine: Combine,
  operator: AssignmentOperator,
  code: Code,
  scope: Scope,
): Code {
  const existing = scope.slot(name);
  if (existing === undefined && combine !== null)
    throw new UnavailableError(`unknown variable ${name} before ${operator}`, offset);
  const slot = existing ?? scope.declare(name, offset);
  return (e) => {
    const value = code(e);
    e.at = offset;
    const result = combine === null ? value : combine(e.locals[slot] ?? null, value, e);
    e.locals[slot] = result;
    return result;
  };
}

function assignMember(
  owner: Expression,
  key: Code,
  combine: Combine,
  target: Expression,
  code: Code,
  offset: number,
  scope: Scope,
): Code {
  const ownerCode = compileExpression(owner, scope);
  const before = combine === null ? null : compileExpression(target, scope);
  return (e) => {
    const collection = ownerCode(e);
    const at = key(e);
    const value = code(e);
    const result = combine === null || before === null ? value : combine(before(e), value, e);
    e.at = offset;
    store(collection, at, result, e);
    return result;
  };
}

function store(collection: Value, key: Value, value: Value, e: Evaluation): void {
  if (collection instanceof JavaMap) {
    if (collection.immutable) throw new EvaluationError('this map cannot be changed; new HashMap(map) can');
    collection.put(key, value, e);
  } else if (collection instanceof JavaList && typeof key === 'number') {
    setElement(collection, key, value, e);
  } else {
    throw new EvaluationError(`${describe(collection)} cannot be assigned to; only maps and lists can`);
  }
}

function foreachCode({ javaType, name, items, body, offset }: Node<'foreach'>, scope: Scope): Code {
  if (javaType !== null) checkType(javaType, offset);
  const itemsCode = compileExpression(items, scope);
  return scope.inBlock(() => {
    const slot = scope.declare(name, offset);
    const { code: bodyCode, cost } = measured(scope, () => blockCode(body, scope));
    return (e) => {
      const elements = iterated(itemsCode(e), e, offset);
      // A string is iterated by its units.
      for (let index = 0; index < elements.length; index += 1) {
        const element = elements[index] ?? null;
        e.at = offset;
        e.step(cost);
        e.locals[slot] = javaType === null ? element : convertTo(javaType, element, e);
        bodyCode(e);
        if (e.hasReturned) return e.returnValue;
      }
      return null;
    };
  });
}

/** A snapshot of a loop's elements: changes by the body do not affect it. */
function iterated(value: Value, e: Evaluation, offset: number): readonly Value[] | string {
  e.at = offset;
  if (typeof value === 'string') return value;
  const elements = elementsOf(value, e, compareNatural);
  if (elements === null)
    throw new EvaluationError(`foreach needs a list, set, array or string, not ${describe(value)}`);
  return copied(elements, e);
}

function forCode({ start, test, update, body, offset }: Node<'for'>, scope: Scope): Code {
  const startCode: Code = start === null ? () => null : statementCode(start, scope);
  const loop = loopCode('for', { test, update, body, testFirst: true, offset }, scope);
  return (e) => {
    startCode(e);
    return loop(e);
  };
}

type Loop = Pick<Node<'for'>, 'test' | 'update' | 'body' | 'offset'> & Pick<Node<'while'>, 'testFirst'>;

function loopCode(word: 'for' | 'while', { test, update, body, testFirst, offset }: Loop, scope: Scope): Code {
  const { code, cost } = measured(scope, () => ({
    test: test === null ? () => true : compileExpression(test, scope),
    update: update === null ? () => null : statementCode(update, scope),
    body: scope.inBlock(() => blockCode(body, scope)),
  }));
  const { test: testCode, update: updateCode, body: bodyCode } = code;
  return (e) => {
    let isFirst = !testFirst;
    while (isFirst || requireBoolean(testCode(e), word, offset)) {
      isFirst = false;
      e.at = offset;
      e.step(cost);
      bodyCode(e);
      if (e.hasReturned) return e.returnValue;
      updateCode(e);
    }
    return null;
  };
}
