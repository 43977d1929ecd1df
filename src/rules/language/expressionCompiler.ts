import { Evaluation, EvaluationError } from '../evaluation.ts';
import { classNames, libraryClass, primitiveTypes } from '../library/library.ts';
import { invoke, type Overloads } from '../library/methodTable.ts';
import { JavaPattern, javaPattern } from '../regex/javaPattern.ts';
import { JavaList, JavaMap, JavaSet } from '../values/collections.ts';
import {
  add,
  arithmetic,
  compare,
  contains,
  isBlank,
  looseEquals,
  negate,
  requireBoolean,
} from '../values/operators.ts';
import { javaText } from '../values/text.ts';
import { equalTexts } from '../values/textSearch.ts';
import { JavaClass, kindOf, type Value, type ValueKind } from '../values/value.ts';
import type { Expression } from './ast.ts';
import { chainLink, hasGuard, SKIPPED } from './memberCompiler.ts';
import { comparedWith, isOptionalText } from './optionalText.ts';
import { recordedLogical } from './recordedLogic.ts';
import type { GlobalObject, Scope } from './scope.ts';
import { CompileError, UnavailableError } from './source.ts';

/** Compiled code: evaluates against a request. */
export type Code = (e: Evaluation) => Value;

export type Node<T extends Expression['type']> = Extract<Expression, { readonly type: T }>;

/**
 * Compiles an expression to closures.
 * @throws CompileError for names, classes, static methods and patterns that do not exist
 */
export function compileExpression(expression: Expression, scope: Scope): Code {
  scope.nodes += 1;
  if (expression.type === 'property' || expression.type === 'call' || expression.type === 'index') {
    const code = chainLink(expression, scope);
    if (!hasGuard(expression)) return code;
    return (e) => {
      const value = code(e);
      return value === SKIPPED ? null : value;
    };
  }
  switch (expression.type) {
    case 'literal': {
      const { value } = expression;
      return () => value;
    }
    case 'empty':
      throw new CompileError('empty can only be compared with: x == empty or x != empty', expression.offset);
    case 'name':
      return nameCode(expression, scope);
    case 'not':
      return notCode(expression, scope);
    case 'negate':
      return negateCode(expression, scope);
    case 'binary':
      return binaryCode(expression, scope);
    case 'logical':
      return logicalCode(expression, scope);
    case 'ternary':
      return ternaryCode(expression, scope);
    case 'list':
      return listCode(expression, scope);
    case 'map':
      return mapCode(expression, scope);
    case 'new':
      return newCode(expression, scope);
    case 'isdef': {
      const isDefined = scope.isDefined(expression.name);
      return () => isDefined;
    }
  }
}

function globalCode(object: GlobalObject): Code {
  if (object === 'request') return (e) => e.objects.request;
  return (e) => e.objects[object] ?? null;
}

function nameCode({ name, offset }: Node<'name'>, scope: Scope): Code {
  const slot = scope.slot(name);
  if (slot !== undefined) return (e) => e.locals[slot] ?? null;
  const object = scope.global(name, offset);
  if (object !== undefined) return globalCode(object);
  if (libraryClass(name) !== undefined || primitiveTypes.has(name)) {
    const value = new JavaClass(name);
    return () => value;
  }
  const unknown = unknownName(name, offset, scope);
  if (/^[A-Z]/.test(name)) throw unknown;
  // As in Trino Gateway, a variable is resolved at evaluation: `false && nosuch` is a valid rule.
  scope.warn(unknown.message, offset);
  return () => {
    throw new EvaluationError(unknown.message, offset);
  };
}

export function unknownName(name: string, offset: number, scope: Scope): CompileError {
  if (/^[A-Z]/.test(name)) {
    return new UnavailableError(`the class ${name} is not available; there are ${classNames().join(', ')}`, offset);
  }
  return new UnavailableError(`unknown variable ${name}; there are ${scope.globalNames().join(', ')}`, offset);
}

function notCode({ operand, offset }: Node<'not'>, scope: Scope): Code {
  const code = compileExpression(operand, scope);
  return (e) => {
    const value = code(e);
    return value === false ? true : !requireBoolean(value, '!', offset);
  };
}

function negateCode({ operand, offset }: Node<'negate'>, scope: Scope): Code {
  const code = compileExpression(operand, scope);
  if (operand.type === 'literal') {
    if (typeof operand.value === 'string') throw new CompileError('- needs a number', offset);
    try {
      const value = negate(operand.value, offset);
      return () => value;
    } catch {
      throw new CompileError('- needs a number', offset);
    }
  }
  return (e) => negate(code(e), offset);
}

function logicalCode(expression: Node<'logical'>, scope: Scope): Code {
  const { operator, operands, offset } = expression;
  const codes = operands.map((operand) => {
    if (operand.type === 'literal' && typeof operand.value !== 'boolean') {
      // Trino Gateway rejects such texts too, unless the operand is never reached.
      return () => requireBoolean(operand.value, operator, operand.offset);
    }
    return compileExpression(operand, scope);
  });
  if (scope.context.replay !== undefined) {
    return recordedLogical(expression, codes, scope, scope.whole === expression);
  }
  const [first, second] = codes;
  if (codes.length === 2 && first !== undefined && second !== undefined) {
    return operator === '&&'
      ? (e) => requireBoolean(first(e), '&&', offset) && requireBoolean(second(e), '&&', offset)
      : (e) => requireBoolean(first(e), '||', offset) || requireBoolean(second(e), '||', offset);
  }
  const decisive = operator === '||';
  return (e) => {
    for (const code of codes) if (requireBoolean(code(e), operator, offset) === decisive) return decisive;
    return !decisive;
  };
}

function ternaryCode({ test, yes, no, offset }: Node<'ternary'>, scope: Scope): Code {
  const testCode = compileExpression(test, scope);
  const yesCode = compileExpression(yes, scope);
  const noCode = compileExpression(no, scope);
  return (e) => (requireBoolean(testCode(e), '?:', offset) ? yesCode(e) : noCode(e));
}

function listCode({ items, offset }: Node<'list'>, scope: Scope): Code {
  const codes = items.map((item) => compileExpression(item, scope));
  return (e) => {
    e.at = offset;
    e.reserveElements(codes.length, codes.length);
    return new JavaList(codes.map((code) => code(e)));
  };
}

function mapCode({ entries, offset }: Node<'map'>, scope: Scope): Code {
  const codes = entries.map(({ key, value }) => ({
    key: compileExpression(key, scope),
    value: compileExpression(value, scope),
  }));
  return (e) => {
    const map = new JavaMap();
    for (const { key, value } of codes) {
      const keyValue = key(e);
      const result = value(e);
      e.at = offset;
      map.fill(keyValue, result, e);
    }
    return map;
  };
}

function newCode({ className, args, offset }: Node<'new'>, scope: Scope): Code {
  const ofName = libraryClass(className);
  const overloads = ofName?.constructors.get('new');
  if (ofName === undefined)
    throw unknownName(/^[A-Z]/.test(className) ? className : `X${className}`.slice(1), offset, scope);
  if (overloads === undefined) throw new UnavailableError(`${className} cannot be made with new`, offset);
  const named = { name: `new ${className}`, methods: overloads.methods };
  return callCode(named, args, offset, scope);
}

/** Compiles a static method or constructor with its arguments. */
export function callCode(overloads: Overloads, args: readonly Expression[], offset: number, scope: Scope): Code {
  const codes = args.map((arg) => compileExpression(arg, scope));
  if (
    !overloads.methods.some(({ parameters, variadic }) =>
      variadic ? codes.length >= parameters.length : codes.length === parameters.length,
    )
  ) {
    throw new UnavailableError(`${overloads.name} cannot take ${codes.length} arguments`, offset);
  }
  return (e) => {
    const values = codes.map((code) => code(e));
    e.at = offset;
    return invoke(overloads, e, null, values);
  };
}

function binaryCode(node: Node<'binary'>, scope: Scope): Code {
  const { operator, left, right, offset } = node;
  if (operator === 'is') return isCode(left, right, scope);
  if (operator === '==' || operator === '!=') return equalsCode(node, operator === '==', scope);
  if (operator === '~=') return matchCode(node, scope);
  if (operator === 'contains') return containsCode(node, scope);
  const a = compileExpression(left, scope);
  const b = compileExpression(right, scope);
  if (left.type === 'literal' && right.type === 'literal') return folded(operatorCode(node, a, b), offset);
  return operatorCode(node, a, b);
}

/** Evaluates two literals at compilation; rejects the text if that fails. */
function folded(code: Code, offset: number): Code {
  try {
    const value = code(constantEvaluation());
    return () => value;
  } catch (error) {
    if (error instanceof EvaluationError) throw new CompileError(error.message, offset);
    throw error;
  }
}

type Calculation = Exclude<Node<'binary'>['operator'], 'is' | '==' | '!=' | '~=' | 'contains'>;

function operatorCode({ operator: sign, offset }: Node<'binary'>, a: Code, b: Code): Code {
  const operator = sign as Calculation;
  switch (operator) {
    case '+':
      return (e) => {
        const first = a(e);
        const second = b(e);
        if (typeof first === 'number' && typeof second === 'number') return (first + second) | 0;
        e.at = offset;
        return add(first, second, e);
      };
    case '<':
    case '<=':
    case '>':
    case '>=':
      return (e) => {
        const first = a(e);
        const second = b(e);
        e.at = offset;
        return compare(operator, first, second, e, offset);
      };
    case 'or':
      return (e) => {
        const first = a(e);
        if (first !== null && first !== '') return first;
        const second = b(e);
        return second === '' ? null : second;
      };
    default:
      return (e) => arithmetic(operator, a(e), b(e), offset);
  }
}

function equalsCode({ left, right, offset }: Node<'binary'>, isEqual: boolean, scope: Scope): Code {
  if (right.type === 'empty') {
    if (left.type === 'empty') return () => isEqual;
    const value = compileExpression(left, scope);
    return (e) => isBlank(value(e), e) === isEqual;
  }
  // As in MVEL, whose blank value only supports comparisons from the left.
  if (left.type === 'empty') return () => !isEqual;
  const a = compileExpression(left, scope);
  if (right.type === 'literal' && (typeof right.value === 'string' || right.value === null)) {
    const literal = right.value;
    return (e) => {
      const value = a(e);
      if (value === null) return (literal === null) === isEqual;
      if (typeof value === 'string') return (literal !== null && equalTexts(value, literal, e)) === isEqual;
      return looseEquals(value, literal, e, offset) === isEqual;
    };
  }
  const b = compileExpression(right, scope);
  const [isLeftOptional, isRightOptional] = [isOptionalText(left, scope), isOptionalText(right, scope)];
  return (e) => {
    const givenFirst = a(e);
    const givenSecond = b(e);
    const first = isLeftOptional ? comparedWith(givenFirst, givenSecond) : givenFirst;
    const second = isRightOptional ? comparedWith(givenSecond, givenFirst) : givenSecond;
    e.at = offset;
    return looseEquals(first, second, e, offset) === isEqual;
  };
}

function isCode(left: Expression, right: Expression, scope: Scope): Code {
  const name = right.type === 'name' ? right.name : '';
  const value = compileExpression(left, scope);
  const kinds: readonly ValueKind[] | undefined = libraryClass(name)?.instances;
  if (kinds === undefined) throw unknownName(name, right.offset, scope);
  return (e) => kinds.includes(kindOf(value(e)));
}

function matchCode({ left, right, offset }: Node<'binary'>, scope: Scope): Code {
  const text = compileExpression(left, scope);
  if (right.type === 'literal') {
    const pattern = compileLiteralPattern(right.value === null ? 'null' : right.value, right.offset, scope);
    return (e) => {
      const value = text(e);
      e.at = offset;
      return pattern.matches(typeof value === 'string' ? value : javaText(value, e), e);
    };
  }
  const pattern = compileExpression(right, scope);
  return (e) => {
    const value = text(e);
    const expression = pattern(e);
    e.at = offset;
    return javaPattern(javaText(expression, e), e).matches(javaText(value, e), e);
  };
}

/** Compiles the pattern of a literal; an invalid one is a mistake of the text. */
export function compileLiteralPattern(value: Value, offset: number, scope: Scope): JavaPattern {
  if (typeof value !== 'string') throw new UnavailableError('~= needs a regular expression as a string', offset);
  try {
    const pattern = new JavaPattern(value, true);
    scope.budget.countPattern(pattern.cost, offset);
    return pattern;
  } catch (error) {
    // Java's own engine accepts more: whether it would reject this one too is unknown.
    if (error instanceof CompileError) throw new UnavailableError(error.message, offset);
    throw error;
  }
}

function containsCode({ left, right, offset }: Node<'binary'>, scope: Scope): Code {
  const constants = left.type === 'list' ? literalSet(left.items) : null;
  const value = compileExpression(right, scope);
  if (constants !== null) return (e) => constants.has(value(e), e);
  const whole = compileExpression(left, scope);
  return (e) => {
    const collection = whole(e);
    const part = value(e);
    e.at = offset;
    return contains(collection, part, e);
  };
}

/** A list of literals as a constant set; null if there are other elements. */
function literalSet(items: readonly Expression[]): JavaSet | null {
  const e = constantEvaluation();
  const set = new JavaSet('insertion', true);
  for (const item of items) {
    if (item.type !== 'literal') return null;
    set.fill(item.value, e);
  }
  return set;
}

/** Evaluation for values created at compilation: they use no objects. */
export function constantEvaluation(): Evaluation {
  return new Evaluation({} as Evaluation['objects']);
}
