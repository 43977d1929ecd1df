import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { classNames, libraryClass, methodsOf, methodsOfKind, primitiveTypes } from '../library/library.ts';
import { invoke, type MethodTable, noMember, nullReceiver, type Overloads } from '../library/methodTable.ts';
import { keepLiteral } from '../regex/javaPattern.ts';
import { analysed, NOT_ANALYSED, tableKey } from '../requestObjects.ts';
import { JavaArray, JavaCollection, JavaList, JavaMap } from '../values/collections.ts';
import { describe } from '../values/describe.ts';
import { JavaChar, JavaClass, JavaObject, type Value, type ValueKind } from '../values/value.ts';
import type { Expression } from './ast.ts';
import {
  type Code,
  callCode,
  compileExpression,
  compileLiteralPattern,
  constantEvaluation,
  type Node,
  unknownName,
} from './expressionCompiler.ts';
import { comparedWith, isOptionalText, optionalTextCall, optionalTextProperty } from './optionalText.ts';
import type { GlobalObject, Scope } from './scope.ts';
import { UnavailableError } from './source.ts';

/** Value of a `.?` in the middle of a chain after null: the rest of the chain is skipped. */
class Skipped extends JavaObject {
  readonly kind = 'null';
}
export const SKIPPED = new Skipped();

/** True if a chain contains `.?`. */
export function hasGuard(expression: Expression): boolean {
  if (expression.type === 'property' || expression.type === 'call') {
    return expression.safe || hasGuard(expression.target);
  }
  return expression.type === 'index' && hasGuard(expression.target);
}

/** Compiles one link of a chain such as `a.b().c[0]`; may return SKIPPED if the chain has a guard. */
export function chainLink(expression: Expression, scope: Scope): Code {
  scope.nodes += 1;
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

/** Maximum number of parts of a class name: longer chains are not read again at each link. */
const MAX_NAME_PARTS = 8;

/** `a.b.C` as text, if the expression only consists of a few names. */
function dottedName(expression: Expression, parts = 1): string | null {
  if (expression.type === 'name') return expression.name;
  if (expression.type !== 'property' || expression.safe || parts > MAX_NAME_PARTS) return null;
  const target = dottedName(expression.target, parts + 1);
  return target === null ? null : `${target}.${expression.name}`;
}

/** The library class that an expression names; throws for an unavailable class. */
function classOf(expression: Expression, scope: Scope): ReturnType<typeof libraryClass> {
  const name = dottedName(expression);
  if (name === null) return undefined;
  const root = name.split('.')[0] ?? name;
  if (scope.isDefined(root)) return undefined;
  const ofName = libraryClass(name);
  if (ofName !== undefined) return ofName;
  // A package name: the whole dotted text is a class.
  if (name.includes('.') && (root === 'java' || root === 'javax' || root === 'jakarta')) {
    const message = `the class ${name} is not available; there are ${classNames().join(', ')}`;
    if (/\.[A-Z]\w*$/.test(name)) throw new UnavailableError(message, expression.offset);
  }
  return undefined;
}

function propertyCode(expression: Node<'property'>, scope: Scope): Code {
  const { target, name, safe, offset } = expression;
  const ofTarget = classOf(target, scope);
  if (ofTarget !== undefined) {
    const field = ofTarget.fields.get(name);
    if (field === undefined) throw unavailable(ofTarget.name, `constant ${name}`, [...ofTarget.fields.keys()], offset);
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
  const asOptional = isOptionalText(target, scope) ? optionalTextProperty(name, receiver, offset) : null;
  if (asOptional !== null) return asOptional;
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
    const entry = value.get(name, e);
    if (entry !== undefined) return entry;
    if (safe) return null;
    throw new EvaluationError(`the map has no key ${name}; .get("${name}") gives null instead`);
  };
}

function rootObject(expression: Expression, scope: Scope): GlobalObject | undefined {
  if (expression.type !== 'name' || scope.slot(expression.name) !== undefined) return undefined;
  return scope.global(expression.name, expression.offset);
}

/** Members of request, user and query are known at compilation: an unknown one is reported then. */
function checkMember(kind: ValueKind, name: string, args: number | null, offset: number): void {
  const table = methodsOfKind(kind);
  if (table === undefined) return;
  if (args === null ? table.getter(name) !== null : table.get(name) !== undefined) return;
  throw unavailable(table.owner, `${args === null ? 'property' : 'method'} ${name}`, table.names(), offset);
}

function unavailable(owner: string, member: string, others: readonly string[], offset: number): UnavailableError {
  const choices = others.length > 0 ? `; it has ${others.join(', ')}` : '';
  return new UnavailableError(`${owner} has no ${member}${choices}`, offset);
}

function methodCode(expression: Node<'call'>, scope: Scope): Code {
  const { target, name, args, offset } = expression;
  const ofTarget = classOf(target, scope);
  if (ofTarget !== undefined) {
    const overloads = ofTarget.statics.get(name);
    if (overloads === undefined) {
      throw unavailable(ofTarget.name, `static method ${name}`, ofTarget.statics.names(), offset);
    }
    return constantWhereImmutable(ofTarget.name, overloads, args, callCode(overloads, args, offset, scope));
  }
  if (target.type === 'name' && primitiveTypes.has(target.name)) throw unknownName(target.name, target.offset, scope);
  const object = rootObject(target, scope);
  if (object !== undefined)
    checkMember(object === 'state' || object === 'result' ? 'map' : object, name, args.length, offset);
  const special = specialCall(expression, object, scope) ?? putCall(expression, object, scope);
  if (special !== null) return special;
  const receiver = chainLink(target, scope);
  const codes = args.map((arg) => compileExpression(arg, scope));
  if (isOptionalText(target, scope)) {
    const asOptional = optionalTextCall(name, receiver, codes, offset);
    if (asOptional !== null) return asOptional;
  }
  const find = overloadFinder(name);
  const [first] = codes;
  const isCompared = name === 'equals' && args[0] !== undefined && isOptionalText(args[0], scope);
  const only = codes.length === 1 ? first : undefined;
  return (e) => {
    const self = receiver(e);
    if (self === SKIPPED) return SKIPPED;
    const values = only === undefined ? codes.map((code) => code(e)) : [only(e)];
    if (isCompared) values[0] = comparedWith(values[0] ?? null, self);
    e.at = offset;
    return invoke(find(self), e, self, values);
  };
}

/** Finds a method by the receiver's type; caches the last one. */
function overloadFinder(name: string): (self: Value) => Overloads {
  let lastTable: MethodTable | undefined;
  let last: Overloads | undefined;
  return (self) => {
    if (self === null) throw nullReceiver(`${name}()`);
    const table = methodsOf(self);
    if (table !== lastTable || table === undefined) {
      lastTable = table;
      last = table?.get(name);
    }
    if (last === undefined) throw noMember(table, self, name);
    return last;
  };
}

/** Methods of String with a regular expression as first argument. */
const PATTERN_METHODS = new Set(['matches', 'replaceAll', 'replaceFirst', 'split']);

/** Optimizes the most frequent calls at compilation. */
function specialCall({ name, args }: Node<'call'>, object: GlobalObject | undefined, scope: Scope): Code | null {
  const [arg] = args;
  if (arg?.type !== 'literal' || typeof arg.value !== 'string') return null;
  // An invalid pattern is reported at compilation.
  if (object === undefined && PATTERN_METHODS.has(name)) {
    keepLiteral(arg.value, compileLiteralPattern(arg.value, arg.offset, scope));
  }
  if (args.length !== 1) return null;
  if (object === 'request' && name === 'getHeader') {
    const key = scope.context.names.ownHeader(arg.value).toLowerCase();
    return (e) => {
      e.step();
      e.objects.request.countHeaders(e);
      return e.objects.request.header(key);
    };
  }
  if (object === 'query' && name === 'tablesContains') {
    const parts = tableKey(arg.value)?.split('\0') ?? null;
    return (e) => {
      e.step();
      const { query } = e.objects;
      if (query === undefined) throw new EvaluationError(NOT_ANALYSED);
      analysed(e, query);
      return parts !== null && query.hasTable(parts);
    };
  }
  return null;
}

/** `result.put("routingGroup", …)`: the call of nearly every action. */
function putCall({ name, args, offset }: Node<'call'>, object: GlobalObject | undefined, scope: Scope): Code | null {
  if ((object !== 'result' && object !== 'state') || name !== 'put') return null;
  const [key, value] = args;
  if (args.length !== 2 || key?.type !== 'literal' || value === undefined) return null;
  const keyValue = key.value;
  const code = compileExpression(value, scope);
  return (e) => {
    const operand = code(e);
    e.at = offset;
    e.step();
    return e.objects[object].put(keyValue, operand, e) ?? null;
  };
}

/** `Set.of("a", "b")` of literals is immutable: created once. */
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
