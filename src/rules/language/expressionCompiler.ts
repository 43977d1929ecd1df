import { Evaluation, EvaluationError } from '../evaluation.ts';
import { classNames, libraryClass, methodsOf, methodsOfKind, primitiveTypes } from '../library/library.ts';
import { invoke, type MethodTable, noMember, nullReceiver, type Overloads } from '../library/methodTable.ts';
import { tableKey } from '../objects/query.ts';
import { JavaPattern, javaPattern } from '../regex/javaPattern.ts';
import { JavaArray, JavaCollection, JavaList, JavaMap, JavaSet } from '../values/collections.ts';
import { describe } from '../values/describe.ts';
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
import { JavaChar, JavaClass, JavaObject, type Kind, kindOf, type Value } from '../values/value.ts';
import type { Expression } from './ast.ts';
import type { GlobalObject, Scope } from './scope.ts';
import { CompileError } from './source.ts';

/** Compiled code: evaluates against a request. */
export type Code = (e: Evaluation) => Value;

/** What `.?` gives in the middle of a chain where it found null: the rest of the chain is skipped. */
class Skipped extends JavaObject {
  readonly kind = 'null';
}
const SKIPPED = new Skipped();

type Node<T extends Expression['type']> = Extract<Expression, { readonly type: T }>;

/**
 * Compiles an expression to closures.
 * @throws CompileError for names, classes, static methods and patterns that do not exist
 */
export function compileExpression(expression: Expression, scope: Scope): Code {
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
  switch (object) {
    case 'request':
      return (e) => e.objects.request;
    case 'state':
      return (e) => e.objects.state;
    case 'result':
      return (e) => e.objects.result;
    case 'user':
      return (e) => e.objects.user ?? null;
    case 'query':
      return (e) => e.objects.query ?? null;
  }
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
  // As in the reference, a variable is looked for when its turn comes: `false && nosuch` is a working rule.
  scope.warn(unknown.message, offset);
  return () => {
    throw new EvaluationError(unknown.message, offset);
  };
}

function unknownName(name: string, offset: number, scope: Scope): CompileError {
  if (/^[A-Z]/.test(name)) {
    return new CompileError(`the class ${name} is not available; there are ${classNames().join(', ')}`, offset);
  }
  return new CompileError(`unknown variable ${name}; there are ${scope.globalNames().join(', ')}`, offset);
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

function logicalCode({ operator, operands, offset }: Node<'logical'>, scope: Scope): Code {
  const codes = operands.map((operand) => {
    if (operand.type === 'literal' && typeof operand.value !== 'boolean') {
      // The reference refuses such texts, too, unless the operand is never reached.
      return literalOperand(operator, operand.value, operand.offset);
    }
    return compileExpression(operand, scope);
  });
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

function literalOperand(operator: string, value: Value, offset: number): Code {
  return () => requireBoolean(value, operator, offset);
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
      const made = value(e);
      e.at = offset;
      map.fill(keyValue, made, e);
    }
    return map;
  };
}

function newCode({ className, args, offset }: Node<'new'>, scope: Scope): Code {
  const found = libraryClass(className);
  const overloads = found?.constructors.get('new');
  if (found === undefined)
    throw unknownName(/^[A-Z]/.test(className) ? className : `X${className}`.slice(1), offset, scope);
  if (overloads === undefined) throw new CompileError(`${className} cannot be made with new`, offset);
  const named = { name: `new ${className}`, methods: overloads.methods };
  return callCode(named, args, offset, scope);
}

/** A static method or constructor with its arguments. */
function callCode(overloads: Overloads, args: readonly Expression[], offset: number, scope: Scope): Code {
  const codes = args.map((arg) => compileExpression(arg, scope));
  if (
    !overloads.methods.some(({ parameters, variadic }) =>
      variadic ? codes.length >= parameters.length : codes.length === parameters.length,
    )
  ) {
    throw new CompileError(`${overloads.name} cannot take ${codes.length} arguments`, offset);
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

/** Two literals are calculated once; where that fails, the text is refused. */
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

function operatorCode({ operator: given, offset }: Node<'binary'>, a: Code, b: Code): Code {
  const operator = given as Calculation;
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
      return (e) => compare(operator, a(e), b(e), offset);
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
    return (e) => isBlank(value(e)) === isEqual;
  }
  // As in MVEL, whose blank value only knows how to be compared with from the left.
  if (left.type === 'empty') return () => !isEqual;
  const a = compileExpression(left, scope);
  if (right.type === 'literal' && (typeof right.value === 'string' || right.value === null)) {
    const literal = right.value;
    return (e) => {
      const value = a(e);
      if (typeof value === 'string' || value === null) return (value === literal) === isEqual;
      return looseEquals(value, literal, e, offset) === isEqual;
    };
  }
  const b = compileExpression(right, scope);
  return (e) => {
    const first = a(e);
    const second = b(e);
    e.at = offset;
    if (typeof first === 'string' && typeof second === 'string' && first.length > 4096) e.step(first.length >> 10);
    return looseEquals(first, second, e, offset) === isEqual;
  };
}

function isCode(left: Expression, right: Expression, scope: Scope): Code {
  const name = right.type === 'name' ? right.name : '';
  const value = compileExpression(left, scope);
  const kinds: readonly Kind[] | undefined = libraryClass(name)?.instances;
  if (kinds === undefined) throw unknownName(name, right.offset, scope);
  return (e) => kinds.includes(kindOf(value(e)));
}

function matchCode({ left, right, offset }: Node<'binary'>, scope: Scope): Code {
  const text = compileExpression(left, scope);
  if (right.type === 'literal') {
    const pattern = literalPattern(right.value === null ? 'null' : right.value, right.offset);
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

function literalPattern(value: Value, offset: number): JavaPattern {
  if (typeof value !== 'string') throw new CompileError('~= needs a regular expression as a string', offset);
  try {
    return new JavaPattern(value);
  } catch (error) {
    if (error instanceof CompileError) throw new CompileError(error.message, offset);
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
    if (typeof collection === 'string') {
      if (collection.length > 4096) e.step(collection.length >> 10);
      if (typeof part === 'string') return collection.includes(part);
    }
    return contains(collection, part, e);
  };
}

/** A list of literals as a set made once; null when there are other elements. */
function literalSet(items: readonly Expression[]): JavaSet | null {
  const e = constantEvaluation();
  const set = new JavaSet('insertion', true);
  for (const item of items) {
    if (item.type !== 'literal') return null;
    set.fill(item.value, e);
  }
  return set;
}

/** For values made while compiling: they use no objects. */
function constantEvaluation(): Evaluation {
  return new Evaluation({} as Evaluation['objects']);
}

function hasGuard(expression: Expression): boolean {
  if (expression.type === 'property' || expression.type === 'call') {
    return expression.safe || hasGuard(expression.target);
  }
  return expression.type === 'index' && hasGuard(expression.target);
}

/** Code of one link of a chain such as `a.b().c[0]`; may give SKIPPED where the chain has a guard. */
function chainLink(expression: Expression, scope: Scope): Code {
  switch (expression.type) {
    case 'property':
      return guarded(expression, propertyCode(expression, scope));
    case 'call':
      return guarded(expression, methodCode(expression, scope));
    case 'index':
      return indexCode(expression, scope);
    default:
      return compileExpression(expression, scope);
  }
}

function guarded(expression: Node<'property'> | Node<'call'>, code: Code): Code {
  if (!expression.safe) return code;
  return (e) => code(e) ?? SKIPPED;
}

/** `a.b.C` as text, if the expression is nothing but names. */
function dottedName(expression: Expression): string | null {
  if (expression.type === 'name') return expression.name;
  if (expression.type !== 'property' || expression.safe) return null;
  const target = dottedName(expression.target);
  return target === null ? null : `${target}.${expression.name}`;
}

/** The library class that an expression names; throws where it names one that is not available. */
function classOf(expression: Expression, scope: Scope): ReturnType<typeof libraryClass> {
  const name = dottedName(expression);
  if (name === null) return undefined;
  const root = name.split('.')[0] ?? name;
  if (scope.isDefined(root)) return undefined;
  const found = libraryClass(name);
  if (found !== undefined) return found;
  // A package name: the whole dotted text is the class that was meant.
  if (name.includes('.') && (root === 'java' || root === 'javax' || root === 'jakarta')) {
    const isComplete = /\.[A-Z]\w*$/.test(name);
    if (isComplete)
      throw new CompileError(
        `the class ${name} is not available; there are ${classNames().join(', ')}`,
        expression.offset,
      );
  }
  return undefined;
}

function propertyCode(expression: Node<'property'>, scope: Scope): Code {
  const { target, name, safe, offset } = expression;
  const known = classOf(target, scope);
  if (known !== undefined) {
    const field = known.fields.get(name);
    if (field === undefined) {
      const fields = [...known.fields.keys()];
      throw new CompileError(
        `${known.name} has no constant ${name}${fields.length > 0 ? `; it has ${fields.join(', ')}` : ''}`,
        offset,
      );
    }
    return () => field;
  }
  const asClass = classOf(expression, scope);
  if (asClass !== undefined) {
    const value = new JavaClass(asClass.name);
    return () => value;
  }
  const object = rootObject(target, scope);
  if (object === 'request' || object === 'user' || object === 'query') checkMember(object, name, null, offset);
  const receiver = chainLink(target, scope);
  const get = memberReader(name, offset, safe);
  return (e) => {
    const value = receiver(e);
    return value === SKIPPED ? SKIPPED : get(value, e);
  };
}

/** Reads `value.name`: a getter, or a map's key. */
function memberReader(name: string, offset: number, safe: boolean): (value: Value, e: Evaluation) => Value {
  let lastTable: MethodTable | undefined;
  let lastGetter: Overloads | null = null;
  return (value, e) => {
    e.at = offset;
    if (value === null) throw nullReceiver(`.${name}`);
    const table = methodsOf(value);
    if (table !== lastTable || table === undefined) {
      lastTable = table;
      lastGetter = table?.getter(name) ?? null;
    }
    if (lastGetter !== null) return invoke(lastGetter, e, value, []);
    if (!(value instanceof JavaMap)) throw noMember(table, value, name);
    const found = value.get(name, e);
    if (found !== undefined) return found;
    if (safe) return null;
    throw new EvaluationError(`the map has no key ${name}; .get("${name}") gives null instead`);
  };
}

/** The global object that an expression is. */
function rootObject(expression: Expression, scope: Scope): GlobalObject | undefined {
  if (expression.type !== 'name' || scope.slot(expression.name) !== undefined) return undefined;
  return scope.global(expression.name, expression.offset);
}

/** Members of request, user and query are known beforehand: a wrong one does not wait for the first request. */
function checkMember(kind: Kind, name: string, args: number | null, offset: number): void {
  const table = methodsOfKind(kind);
  if (table === undefined) return;
  if (args === null ? table.getter(name) !== null : table.get(name) !== undefined) return;
  throw new CompileError(
    `${table.owner} has no ${args === null ? 'property' : 'method'} ${name}; it has ${table.names().join(', ')}`,
    offset,
  );
}

function methodCode(expression: Node<'call'>, scope: Scope): Code {
  const { target, name, args, offset } = expression;
  const known = classOf(target, scope);
  if (known !== undefined) {
    const overloads = known.statics.get(name);
    if (overloads === undefined) {
      const names = known.statics.names();
      throw new CompileError(
        `${known.name} has no static method ${name}${names.length > 0 ? `; it has ${names.join(', ')}` : ''}`,
        offset,
      );
    }
    return constantWhereImmutable(known.name, overloads, args, callCode(overloads, args, offset, scope));
  }
  if (target.type === 'name' && primitiveTypes.has(target.name)) throw unknownName(target.name, target.offset, scope);
  const object = rootObject(target, scope);
  if (object !== undefined)
    checkMember(object === 'state' || object === 'result' ? 'map' : object, name, args.length, offset);
  const special = specialCall(expression, object) ?? putCall(expression, object, scope);
  if (special !== null) return special;
  const receiver = chainLink(target, scope);
  const codes = args.map((arg) => compileExpression(arg, scope));
  const find = overloadFinder(name);
  const [first] = codes;
  if (codes.length === 1 && first !== undefined) {
    return (e) => {
      const self = receiver(e);
      if (self === SKIPPED) return SKIPPED;
      const arg = first(e);
      e.at = offset;
      return invoke(find(self, e), e, self, [arg]);
    };
  }
  return (e) => {
    const self = receiver(e);
    if (self === SKIPPED) return SKIPPED;
    const values = codes.length === 0 ? NO_ARGUMENTS : codes.map((code) => code(e));
    e.at = offset;
    return invoke(find(self, e), e, self, values);
  };
}

const NO_ARGUMENTS: readonly Value[] = [];

/** Looks up a method by the receiver's type, remembering the last one. */
function overloadFinder(name: string): (self: Value, e: Evaluation) => Overloads {
  let lastTable: MethodTable | undefined;
  let last: Overloads | undefined;
  return (self, e) => {
    if (self === null) throw nullReceiver(`${name}()`);
    const table = methodsOf(self);
    if (table !== lastTable || table === undefined) {
      lastTable = table;
      last = table?.get(name);
    }
    if (last === undefined) throw noMember(table, self, name);
    if (typeof self === 'string' && self.length > 4096) e.step(self.length >> 10);
    return last;
  };
}

/** Methods of String whose first argument is a regular expression. */
const PATTERN_METHODS = new Set(['matches', 'replaceAll', 'replaceFirst', 'split']);

/** The most frequent calls, prepared while compiling. */
function specialCall({ name, args }: Node<'call'>, object: GlobalObject | undefined): Code | null {
  const [arg] = args;
  if (arg?.type !== 'literal' || typeof arg.value !== 'string') return null;
  // A pattern that is wrong does not wait for the first request.
  if (object === undefined && PATTERN_METHODS.has(name)) literalPattern(arg.value, arg.offset);
  if (args.length !== 1) return null;
  if (object === 'request' && name === 'getHeader') {
    const name = arg.value;
    const key = name.toLowerCase();
    return (e) => {
      e.step();
      return e.objects.request.header(key, name);
    };
  }
  if (object === 'query' && name === 'tablesContains') {
    const parts = tableKey(arg.value)?.split('\0') ?? null;
    return (e) => {
      e.step();
      const { query } = e.objects;
      if (query === undefined || (e.requireAnalysis && query.isUnanalysed)) return missingAnalysis();
      return parts !== null && query.hasTable(parts);
    };
  }
  return null;
}

/** `result.put("routingGroup", …)`: what nearly every action is. */
function putCall({ name, args, offset }: Node<'call'>, object: GlobalObject | undefined, scope: Scope): Code | null {
  if ((object !== 'result' && object !== 'state') || name !== 'put') return null;
  const [key, value] = args;
  if (args.length !== 2 || key?.type !== 'literal' || value === undefined) return null;
  const keyValue = key.value;
  const code = compileExpression(value, scope);
  return (e) => {
    const given = code(e);
    e.at = offset;
    e.step();
    return e.objects[object].put(keyValue, given, e) ?? null;
  };
}

function missingAnalysis(): never {
  throw new EvaluationError(
    'the request has no body that was analysed (it is empty, too long or of an unknown charset)',
  );
}

/** `Set.of("a", "b")` of literals never changes: made once. */
function constantWhereImmutable(
  className: string,
  overloads: Overloads,
  args: readonly Expression[],
  code: Code,
): Code {
  if (overloads.name !== 'of' || (className !== 'Set' && className !== 'List')) return code;
  if (!args.every((arg) => arg.type === 'literal')) return code;
  const e = constantEvaluation();
  try {
    const value = code(e);
    return () => value;
  } catch (error) {
    if (error instanceof EvaluationError) return code;
    throw error;
  }
}

function indexCode({ target, key, offset }: Node<'index'>, scope: Scope): Code {
  const receiver = chainLink(target, scope);
  const keyCode = compileExpression(key, scope);
  return (e) => {
    const value = receiver(e);
    if (value === SKIPPED) return SKIPPED;
    const index = keyCode(e);
    e.at = offset;
    if (value === null) throw nullReceiver('[…]');
    if (value instanceof JavaMap) return value.get(index, e) ?? null;
    if (typeof index !== 'number') throw new EvaluationError(`an index must be an int, not ${describe(index)}`);
    return elementAt(value, index);
  };
}

function elementAt(value: Value, index: number): Value {
  if (typeof value === 'string') {
    if (index < 0 || index >= value.length) throw new EvaluationError(`index ${index} is outside the text`);
    return new JavaChar(value.charAt(index));
  }
  if (!(value instanceof JavaList || value instanceof JavaArray || value instanceof JavaCollection)) {
    throw new EvaluationError(`${describe(value)} cannot be indexed`);
  }
  if (index < 0 || index >= value.items.length) {
    throw new EvaluationError(`index ${index} is outside a list of ${value.items.length}`);
  }
  return value.items[index] ?? null;
}
