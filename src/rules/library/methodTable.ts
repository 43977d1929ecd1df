import { type Evaluation, EvaluationError, SHORT_TEXT } from '../evaluation.ts';
import { JavaArray, JavaCollection, JavaList, JavaMap, JavaSet } from '../values/collections.ts';
import { describe } from '../values/describe.ts';
import { javaText } from '../values/text.ts';
import {
  doubleToInt,
  doubleToLong,
  hashOf,
  isNumber,
  JavaBuilder,
  JavaChar,
  JavaDouble,
  JavaFloat,
  JavaLong,
  type JavaNumberObject,
  JavaSmallInt,
  javaEquals,
  kindName,
  kindOf,
  toDouble,
  type Value,
} from '../values/value.ts';

interface ParameterTypes {
  /** String, StringBuilder, char or number as text; null is an error. */
  string: string;
  /** Like `string`, or null. */
  'string?': string | null;
  char: string;
  int: number;
  long: bigint;
  float: number;
  double: number;
  boolean: boolean;
  any: Value;
  elements: JavaList | JavaSet | JavaCollection | JavaArray;
  map: JavaMap;
}

export type Parameter = keyof ParameterTypes;

type Arguments<P extends readonly Parameter[]> = { [I in keyof P]: ParameterTypes[P[I]] };

/**
 * Additional inputs of a call's result, besides receiver and arguments (docs/decisions/0012-memory-of-decisions.md):
 * - `operands`: no other input, so that equal operands give an equal result;
 * - `identity`: the result is an object that equals only itself, such as an array;
 * - `time`, `chance`;
 * - `header`: the request's header that the first argument names;
 * - `reads`: this value of the request, a source of `src/rules/decide/conditionIndex.ts`;
 * - `request`: any other value of the request.
 */
export type DependsOn = 'operands' | 'identity' | 'time' | 'chance' | 'header' | 'request' | { readonly reads: string };

export interface Method {
  readonly parameters: readonly Parameter[];
  readonly dependsOn: DependsOn;
  /** The last parameter may be repeated; its values come as one array. */
  readonly variadic: boolean;
  readonly run: (e: Evaluation, self: Value, ...args: unknown[]) => Value;
}

export interface Overloads {
  readonly name: string;
  readonly methods: readonly Method[];
}

const NO = Symbol('not convertible');

/** Fitness of an argument for a parameter: 10 exact, 0 impossible. */
function fitness(parameter: Parameter, value: Value): number {
  switch (parameter) {
    case 'any':
      return value === null ? 4 : 1;
    case 'string':
    case 'string?':
      if (typeof value === 'string') return 10;
      if (value === null) return 5;
      if (value instanceof JavaChar || value instanceof JavaBuilder) return 6;
      return isNumber(value) || typeof value === 'boolean' ? 2 : 0;
    case 'char':
      if (value instanceof JavaChar) return 10;
      return typeof value === 'string' && value.length === 1 ? 3 : 0;
    case 'boolean':
      return typeof value === 'boolean' ? 10 : 0;
    case 'elements':
      if (value instanceof JavaList || value instanceof JavaSet || value instanceof JavaCollection) return 10;
      return value instanceof JavaArray ? 3 : 0;
    case 'map':
      return value instanceof JavaMap ? 10 : 0;
    default:
      return numberFitness(parameter, value);
  }
}

/** Longer texts are not parsed as numbers. */
const MAX_NUMBER_LENGTH = 400;

const NUMBER_RANKS: Partial<Record<string, number>> = { byte: 1, short: 2, int: 3, long: 4, float: 5, double: 6 };

function numberFitness(parameter: 'int' | 'long' | 'float' | 'double', value: Value): number {
  if (isNumber(value)) {
    const from = NUMBER_RANKS[kindOf(value)] ?? 0;
    const to = NUMBER_RANKS[parameter] ?? 0;
    if (from === to) return 10;
    // Java's widening, the nearer the better; narrowing only if nothing else fits.
    return from < to ? 9 - (to - from) : 2;
  }
  if (value instanceof JavaChar) return parameter === 'int' ? 3 : 0;
  const isText = typeof value === 'string' && value.length <= MAX_NUMBER_LENGTH;
  return isText && /^\s*-?[0-9]+(\.[0-9]+)?\s*$/.test(value) ? 1 : 0;
}

function convert(parameter: Parameter, value: Value, e: Evaluation): unknown {
  switch (parameter) {
    case 'any':
      return value;
    case 'string':
      if (typeof value === 'string') return value;
      return value === null || fitness(parameter, value) === 0 ? NO : javaText(value, e);
    case 'string?':
      if (typeof value === 'string' || value === null) return value;
      return fitness(parameter, value) === 0 ? NO : javaText(value, e);
    case 'char':
      if (value instanceof JavaChar) return value.text;
      return typeof value === 'string' && value.length === 1 ? value : NO;
    case 'boolean':
      return typeof value === 'boolean' ? value : NO;
    case 'elements':
    case 'map':
      return fitness(parameter, value) === 0 ? NO : value;
    default:
      return convertNumber(parameter, value);
  }
}

function convertNumber(parameter: 'int' | 'long' | 'float' | 'double', value: Value): unknown {
  if (parameter === 'int' && typeof value === 'number') return value;
  if (fitness(parameter, value) === 0) return NO;
  if (parameter === 'long' && value instanceof JavaLong) return value.value;
  const number =
    value instanceof JavaChar
      ? value.text.charCodeAt(0)
      : typeof value === 'string'
        ? Number(value)
        : toDouble(value as number | JavaNumberObject);
  if (parameter === 'int') return doubleToInt(number);
  return parameter === 'long' ? doubleToLong(number) : number;
}

/** The methods of a type by name: an allow-list, the only way from a rule to code. */
export class MethodTable {
  readonly #overloads = new Map<string, { name: string; methods: Method[] }>();
  readonly owner: string;
  readonly #dependsOn: DependsOn;

  /** @param dependsOn default of its methods */
  constructor(owner: string, dependsOn: DependsOn) {
    this.owner = owner;
    this.#dependsOn = dependsOn;
  }

  /** Adds an overload. Implementations receive the evaluation, the receiver and the converted arguments. */
  add<Self extends Value, const P extends readonly Parameter[]>(
    name: string,
    parameters: P,
    run: (e: Evaluation, self: Self, ...args: Arguments<P>) => Value,
    dependsOn: DependsOn = this.#dependsOn,
  ): this {
    return this.#add(name, { parameters, variadic: false, run: run as unknown as Method['run'], dependsOn });
  }

  /** Adds an overload with a result that equals only itself, such as an array. */
  addFresh<Self extends Value, const P extends readonly Parameter[]>(
    name: string,
    parameters: P,
    run: (e: Evaluation, self: Self, ...args: Arguments<P>) => Value,
  ): this {
    return this.add(name, parameters, run, 'identity');
  }
  /** Adds an overload with a variadic last parameter; its arguments come as one array. */
  addVariadic<Self extends Value, const P extends readonly Parameter[]>(
    name: string,
    parameters: P,
    run: (e: Evaluation, self: Self, ...args: [...Arguments<P>, readonly Value[]]) => Value,
  ): this {
    const dependsOn = this.#dependsOn;
    return this.#add(name, { parameters, variadic: true, run: run as unknown as Method['run'], dependsOn });
  }

  #add(name: string, method: Method): this {
    const overloads = this.#overloads.get(name);
    if (overloads === undefined) this.#overloads.set(name, { name, methods: [method] });
    else overloads.methods.push(method);
    return this;
  }

  include(other: MethodTable): this {
    for (const { name, methods } of other.#overloads.values()) for (const method of methods) this.#add(name, method);
    return this;
  }

  get(name: string): Overloads | undefined {
    return this.#overloads.get(name);
  }

  /** Method called by `x.name`: getName(), isName() or name(); null if missing. */
  getter(name: string): Overloads | null {
    const capital = name.charAt(0).toUpperCase() + name.slice(1);
    for (const candidate of [`get${capital}`, `is${capital}`, name]) {
      const overloads = this.#overloads.get(candidate);
      if (overloads?.methods.some(({ parameters }) => parameters.length === 0) === true) return overloads;
    }
    return null;
  }

  /** All names, sorted. */
  names(): string[] {
    return [...this.#overloads.keys()].sort();
  }

  all(): readonly Overloads[] {
    return [...this.#overloads.values()];
  }

  /** Every overload as `name(parameters)`, sorted, for the documentation's test. */
  signatures(): string[] {
    return [...this.#overloads.values()]
      .flatMap(({ name, methods }) => methods.map((method) => `${name}(${signature(method)})`))
      .sort();
  }
}

function signature(method: Method): string {
  return [...method.parameters, ...(method.variadic ? ['any…'] : [])].join(', ');
}

/** Counts the text of an argument, as most methods read all of it. Methods count work on collections themselves. */
function countText(value: Value, e: Evaluation): void {
  if (typeof value === 'string') {
    if (value.length > SHORT_TEXT) e.text(value.length);
  } else if (value instanceof JavaBuilder) e.text(value.text.length);
}

/** Calls the best overload. Counts the call and the texts of receiver and arguments. */
export function invoke(overloads: Overloads, e: Evaluation, self: Value, args: readonly Value[]): Value {
  e.step();
  countText(self, e);
  for (let index = 0; index < args.length; index += 1) countText(args[index] as Value, e);
  const { methods } = overloads;
  const only = methods.length === 1 ? methods[0] : pick(overloads, args);
  if (only === undefined) throw noOverload(overloads, args);
  const { parameters, variadic } = only;
  if (!variadic && args.length === parameters.length) {
    if (parameters.length === 0) return only.run(e, self);
  } else if (!arityFits(only, args.length)) throw noOverload(overloads, args);
  if (parameters.length === 1 && !variadic) {
    const first = convert(parameters[0] as Parameter, args[0] ?? null, e);
    if (first === NO) throw noOverload(overloads, args);
    return only.run(e, self, first);
  }
  const converted: unknown[] = [];
  for (let index = 0; index < parameters.length; index += 1) {
    const value = convert(parameters[index] as Parameter, args[index] ?? null, e);
    if (value === NO) throw noOverload(overloads, args);
    converted.push(value);
  }
  if (variadic) converted.push(rest(args, parameters.length));
  return only.run(e, self, ...converted);
}

/** Java passes a single array as the arguments themselves. */
function rest(args: readonly Value[], from: number): readonly Value[] {
  const last = args.length === from + 1 ? args[from] : undefined;
  return last instanceof JavaArray ? last.items : args.slice(from);
}

function arityFits(method: Method, count: number): boolean {
  return method.variadic ? count >= method.parameters.length : count === method.parameters.length;
}

function pick(overloads: Overloads, args: readonly Value[]): Method | undefined {
  let best: Method | undefined;
  let bestScore = 0;
  for (const method of overloads.methods) {
    if (!arityFits(method, args.length)) continue;
    let score = method.variadic ? 1 : 2;
    for (let index = 0; index < method.parameters.length; index += 1) {
      const fit = fitness(method.parameters[index] as Parameter, args[index] ?? null);
      if (fit === 0) {
        score = 0;
        break;
      }
      score += fit * 4;
    }
    if (score > bestScore) {
      best = method;
      bestScore = score;
    }
  }
  return best;
}

function noOverload(overloads: Overloads, args: readonly Value[]): EvaluationError {
  const allowed = overloads.methods.map((method) => `${overloads.name}(${signature(method)})`);
  const kinds = args.map((value) => kindName(kindOf(value))).join(', ');
  return new EvaluationError(
    `${overloads.name}(${kinds}) does not exist; there is ${[...new Set(allowed)].join(', ')}`,
  );
}

export function nullReceiver(what: string): EvaluationError {
  return new EvaluationError(`${what} on null`);
}

export function noMember(table: MethodTable | undefined, value: Value, name: string): EvaluationError {
  const names = table === undefined ? [] : nearest(table.names());
  return new EvaluationError(
    `${describe(value)} has no method or property ${name}${names.length > 0 ? `; it has ${names.join(', ')}` : ''}`,
  );
}

function nearest(names: readonly string[]): readonly string[] {
  return names.length <= 24 ? names : [...names.slice(0, 24), '…'];
}

export const long = (value: bigint): JavaLong => new JavaLong(value);
export const double = (value: number): JavaDouble => new JavaDouble(value);
export const float = (value: number): JavaFloat => new JavaFloat(value);
export const short = (value: number): JavaSmallInt => new JavaSmallInt('short', (value << 16) >> 16);
export const char = (text: string): JavaChar => new JavaChar(text);

/** `equals` and `hashCode` of values that compare by content. */
export const equalityMethods = new MethodTable('Object', 'operands')
  .add('hashCode', [], (e, self: Value) => hashOf(self, e))
  .add('equals', ['any'], (e, self: Value, other) => javaEquals(self, other, e));

/** The methods of `java.lang.Object` of such values. */
export const objectMethods = new MethodTable('Object', 'operands')
  .include(equalityMethods)
  .add('toString', [], (e, self: Value) => javaText(self, e));
