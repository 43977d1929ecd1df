import { type Expression, QueryError, type Token, type Value } from './sqlSyntax.ts';

/** A column of a table or a result. `type` is the engine's type name, e.g. `bigint`, `varchar(25)`. */
export interface Column {
  readonly name: string;
  readonly type: string;
}

export type Row = readonly Value[];

/** What an expression is evaluated on: one row, and the rows of its group where the query aggregates. */
export interface Scope {
  readonly row: Row;
  readonly group: readonly Row[];
}

/** An expression bound to the columns it reads. */
export interface Bound {
  readonly type: string;
  readonly of: (scope: Scope) => Value;
}

export interface BindContext {
  readonly columns: readonly Column[];
  readonly user: string;
  readonly now: Date;
  readonly version: string;
}

const aggregates = new Set(['count', 'sum', 'min', 'max', 'avg']);

/** Whether an aggregate function occurs in the expression. */
export function aggregating(expression: Expression): boolean {
  return expression.kind === 'call' && (aggregates.has(expression.name) || expression.args.some(aggregating));
}

/** Resolves columns and functions and finds the type of an expression. */
export function bind(expression: Expression, context: BindContext): Bound {
  if (expression.kind === 'literal') return { type: expression.type, of: () => expression.value };
  if (expression.kind === 'column') return column(expression.name, expression.token, context);
  const args = expression.args.map((argument) => bind(argument, context));
  if (aggregates.has(expression.name)) return aggregate(expression.name, args[0]);
  return scalar(expression.name, expression.token, args, context);
}

function column(name: string, token: Token, context: BindContext): Bound {
  const index = context.columns.findIndex((each) => each.name === name);
  const type = context.columns[index]?.type;
  if (type !== undefined) return { type, of: ({ row }) => row[index] ?? null };
  if (name === 'current_user') return { type: 'varchar', of: () => context.user };
  if (name === 'current_date') {
    return { type: 'date', of: () => context.now.toISOString().slice(0, 10) };
  }
  throw located('COLUMN_NOT_FOUND', token, `Column '${name}' cannot be resolved`);
}

function located(errorName: 'COLUMN_NOT_FOUND' | 'FUNCTION_NOT_FOUND' | 'TYPE_MISMATCH', token: Token, text: string) {
  return new QueryError(errorName, `line ${token.line}:${token.column}: ${text}`, {
    lineNumber: token.line,
    columnNumber: token.column,
  });
}

function aggregate(name: string, argument: Bound | undefined): Bound {
  if (argument === undefined) return { type: 'bigint', of: ({ group }) => group.length };
  const values = ({ group }: Scope) =>
    group.map((row) => argument.of({ row, group })).filter((value) => value !== null);
  const sum = (list: readonly Value[]) => list.reduce<number>((total, value) => total + Number(value), 0);
  switch (name) {
    case 'count':
      return { type: 'bigint', of: (scope) => values(scope).length };
    case 'sum':
      return {
        type: argument.type === 'integer' ? 'bigint' : argument.type,
        of: (scope) => {
          const list = values(scope);
          return list.length === 0 ? null : sum(list);
        },
      };
    case 'avg':
      return {
        type: 'double',
        of: (scope) => {
          const list = values(scope);
          return list.length === 0 ? null : sum(list) / list.length;
        },
      };
    default: {
      const direction = name === 'min' ? -1 : 1;
      return {
        type: argument.type,
        of: (scope) =>
          values(scope).reduce<Value>(
            (best, value) => (best === null || compare(value, best) === direction ? value : best),
            null,
          ),
      };
    }
  }
}

/** -1, 0 or 1; null sorts last, as in the engine. */
export function compare(left: Value, right: Value): number {
  if (left === right) return 0;
  if (left === null) return 1;
  if (right === null) return -1;
  return left < right ? -1 : 1;
}

const base = (type: string) => type.replace(/\(.*/, '');
const numeric = ['integer', 'bigint', 'decimal', 'double'];

function scalar(name: string, token: Token, args: readonly Bound[], context: BindContext): Bound {
  const [first, second] = args;
  const text = (convert: (value: string) => Value, type = 'varchar'): Bound => ({
    type,
    of: (scope) => {
      const value = first?.of(scope) ?? null;
      return value === null ? null : convert(String(value));
    },
  });
  if (name === 'version' && args.length === 0) return { type: 'varchar', of: () => context.version };
  if (name === 'now' && args.length === 0) {
    return {
      type: 'timestamp(3) with time zone',
      of: () => `${context.now.toISOString().slice(0, -1)} UTC`.replace('T', ' '),
    };
  }
  if (name === 'date_diff' && second !== undefined && args[2] !== undefined) {
    const [, from, to] = [first, second, args[2]];
    const millis = (bound: Bound, scope: Scope) => Date.parse(String(bound.of(scope)).replace(' UTC', 'Z'));
    const unit = { second: 1_000, minute: 60_000, hour: 3_600_000, day: 86_400_000 };
    return {
      type: 'bigint',
      of: (scope) => {
        const length = unit[String(first?.of(scope)) as keyof typeof unit];
        return length === undefined ? null : Math.trunc((millis(to, scope) - millis(from, scope)) / length);
      },
    };
  }
  if (name === 'not' && first !== undefined) {
    return {
      type: 'boolean',
      of: (scope) => {
        const value = first.of(scope);
        return value === null ? null : value !== true;
      },
    };
  }
  if (name === 'is null' && first !== undefined) return { type: 'boolean', of: (scope) => first.of(scope) === null };
  if (name === 'in' && first !== undefined) {
    return { type: 'boolean', of: (scope) => args.slice(1).some((each) => each.of(scope) === first.of(scope)) };
  }
  if (name === 'upper') return text((value) => value.toUpperCase(), first?.type);
  if (name === 'lower') return text((value) => value.toLowerCase(), first?.type);
  if (name === 'length') return text((value) => value.length, 'bigint');
  if (name === 'negate' && first !== undefined) {
    requireNumber(token, '-', first);
    return { type: first.type, of: (scope) => binaryNumber('-', 0, first.of(scope), first.type) };
  }
  if (first === undefined || second === undefined) {
    throw located('FUNCTION_NOT_FOUND', token, `Function '${name}' not registered`);
  }
  return binary(name, token, first, second);
}

function requireNumber(token: Token, operator: string, ...operands: readonly Bound[]): void {
  if (operands.every((each) => base(each.type) === 'unknown' || numeric.includes(base(each.type)))) return;
  const types = operands.map((each) => each.type).join(', ');
  throw located('TYPE_MISMATCH', token, `Cannot apply operator: ${types} with '${operator}'`);
}

function binary(name: string, token: Token, left: Bound, right: Bound): Bound {
  const strict = (type: string, apply: (a: Value, b: Value) => Value): Bound => ({
    type,
    of: (scope) => {
      const a = left.of(scope);
      const b = right.of(scope);
      return a === null || b === null ? null : apply(a, b);
    },
  });
  const test = (holds: (order: number) => boolean) => strict('boolean', (a, b) => holds(compare(a, b)));
  switch (name) {
    case '+':
    case '-':
    case '*':
    case '/':
    case '%': {
      requireNumber(token, name, left, right);
      const type = resultType(name, left.type, right.type);
      return strict(type, (a, b) => binaryNumber(name, a, b, type));
    }
    case '||':
      return strict('varchar', (a, b) => `${a}${b}`);
    case '=':
      return test((order) => order === 0);
    case '<>':
    case '!=':
      return test((order) => order !== 0);
    case '<':
      return test((order) => order < 0);
    case '<=':
      return test((order) => order <= 0);
    case '>':
      return test((order) => order > 0);
    case '>=':
      return test((order) => order >= 0);
    case 'and':
      return { type: 'boolean', of: (scope) => left.of(scope) === true && right.of(scope) === true };
    case 'or':
      return { type: 'boolean', of: (scope) => left.of(scope) === true || right.of(scope) === true };
    case 'like':
      return strict('boolean', (a, b) => likePattern(String(b)).test(String(a)));
    default:
      throw located('FUNCTION_NOT_FOUND', token, `Function '${name}' not registered`);
  }
}

function likePattern(pattern: string): RegExp {
  const source = pattern
    .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    .replaceAll('%', '[\\s\\S]*')
    .replaceAll('_', '[\\s\\S]');
  return new RegExp(`^${source}$`);
}

function binaryNumber(operator: string, left: Value, right: Value, type: string): Value {
  if (left === null || right === null) return null;
  const a = Number(left);
  const b = Number(right);
  if ((operator === '/' || operator === '%') && b === 0 && type !== 'double') {
    throw new QueryError('DIVISION_BY_ZERO', 'Division by zero');
  }
  const whole = type === 'integer' || type === 'bigint';
  const result = { '+': a + b, '-': a - b, '*': a * b, '/': a / b, '%': a % b }[operator] ?? Number.NaN;
  return whole ? Math.trunc(result) : result;
}

const decimalScale = (type: string) => Number(/^decimal\(\d+,(\d+)\)$/.exec(type)?.[1] ?? 0);

function resultType(operator: string, left: string, right: string): string {
  const types = [base(left), base(right)];
  const widest = numeric.findLast((each) => types.includes(each)) ?? 'unknown';
  if (widest !== 'decimal') return widest;
  const scales = [decimalScale(left), decimalScale(right)];
  const scale = operator === '*' ? scales.reduce((sum, each) => sum + each, 0) : Math.max(...scales);
  return `decimal(${Math.max(18, scale)},${scale})`;
}

/** A value as the protocol carries it: decimals are texts with their scale. */
export function wireValue(value: Value, type: string): Value {
  return typeof value === 'number' && type.startsWith('decimal') ? value.toFixed(decimalScale(type)) : value;
}
