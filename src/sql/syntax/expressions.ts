import { LAST_IDENTIFIER, T } from './kinds.ts';
import { interval, string } from './literals.ts';
import type { Parser } from './parser.ts';
import { predicate } from './predicates.ts';
import { postfix, primary } from './primaries.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  AND, ASTERISK, AT, BINARY_LITERAL, CASE, CAST, COMMA, CONCAT, CURRENT_CATALOG, CURRENT_DATE, CURRENT_PATH,
  CURRENT_SCHEMA, CURRENT_TIME, CURRENT_TIMESTAMP, CURRENT_USER, DECIMAL_VALUE, DOUBLE_ARROW, DOUBLE_VALUE, EOF,
  EXISTS, EXTRACT, FALSE, GROUPING, INTEGER_VALUE, INTERVAL, JSON_ARRAY, JSON_EXISTS, JSON_OBJECT, JSON_QUERY,
  JSON_VALUE, LBRACKET, LISTAGG, LOCAL, LOCALTIME, LOCALTIMESTAMP, LPAREN, MATCH, MINUS, NORMALIZE, NOT, NULL,
  OR, OVER, PERCENT, PLUS, QUESTION_MARK, SLASH, STRING, TIME, TRIM, TRUE, UNICODE_STRING, ZONE,
} = T;

/**
 * Shapes of what was read, as far as what may follow depends on them: `identifier` may become the parameter of a
 * lambda,
 * `query` (a parenthesised query without WITH) may continue with UNION and the like, `value` is no predicate or
 * condition.
 */
export const Shape = { condition: 0, value: 1, primary: 2, identifier: 3, query: 4 } as const;

/**
 * `expression` of the grammar; returns its shape. Operators are read without precedence, because neither the names in
 * an expression nor its validity depend on it.
 */
export function expression(p: Parser): number {
  p.enter();
  let shape: number;
  if (p.kind === NOT) {
    p.next();
    while (p.kind === NOT) p.next();
    operand(p);
    shape = Shape.condition;
  } else shape = operand(p);
  if (p.kind === AND || p.kind === OR) {
    conditionRest(p);
    shape = Shape.condition;
  }
  p.leave();
  return shape;
}

function operand(p: Parser): number {
  const shape = valueExpression(p);
  return predicate(p) ? Shape.condition : shape;
}

function conditionRest(p: Parser): void {
  while (p.kind === AND || p.kind === OR) {
    p.next();
    while (p.kind === NOT) p.next();
    operand(p);
  }
}

/** Continues an expression whose first primary was just read up to its closing parenthesis. */
export function expressionRest(p: Parser): number {
  let shape: number = postfix(p, false) ? Shape.primary : Shape.query;
  if (valueRest(p)) shape = Shape.value;
  if (predicate(p)) shape = Shape.condition;
  if (p.kind === AND || p.kind === OR) {
    conditionRest(p);
    shape = Shape.condition;
  }
  return shape;
}

export function conditionTail(p: Parser): void {
  predicate(p);
  conditionRest(p);
}

export function valueTail(p: Parser): void {
  postfix(p, false);
  valueRest(p);
}

/** `valueExpression` of the grammar. */
export function valueExpression(p: Parser): number {
  let sign = -1;
  while (p.kind === MINUS || p.kind === PLUS) {
    sign = p.kind === MINUS ? p.pos : -1;
    p.next();
  }
  const signed = p.pos > 0 && (sign >= 0 || p.kinds[p.pos - 1] === PLUS);
  const shape = primary(p, sign);
  return valueRest(p) || signed ? Shape.value : shape;
}

/** Operators between values; false if there are no operators. */
function valueRest(p: Parser): boolean {
  let isPresent = false;
  for (;;) {
    switch (p.kind) {
      case PLUS:
      case MINUS:
      case ASTERISK:
      case SLASH:
      case PERCENT:
      case CONCAT: {
        p.next();
        let sign = -1;
        while (p.kind === MINUS || p.kind === PLUS) {
          sign = p.kind === MINUS ? p.pos : -1;
          p.next();
        }
        primary(p, sign);
        break;
      }
      case AT:
        if (p.peek(1) === LOCAL) {
          p.next();
          p.next();
        } else if (p.peek(1) === TIME) {
          p.next();
          p.next();
          p.expect(ZONE);
          if (p.kind === INTERVAL) interval(p);
          else string(p);
        } else {
          p.open(p.pos);
          return isPresent;
        }
        break;
      default:
        return isPresent;
    }
    isPresent = true;
  }
}

/** `argument` of the grammar; true if it is named. */
export function argument(p: Parser): boolean {
  if (p.peek(1) === DOUBLE_ARROW && p.atIdentifier()) {
    p.identifier();
    p.next();
    expression(p);
    return true;
  }
  expression(p);
  return false;
}

/** `argument (, argument)*`. */
export function argumentList(p: Parser): void {
  argument(p);
  while (p.accept(COMMA)) argument(p);
}

/** `expression (, expression)*`. */
export function expressionList(p: Parser): void {
  expression(p);
  while (p.accept(COMMA)) expression(p);
}

/** True for kinds that start an expression and cannot continue an expression that an identifier started. */
export function startsExpression(kind: number): boolean {
  if (kind === EOF) return false;
  if (kind <= LAST_IDENTIFIER) return kind !== AT && kind !== OVER && kind !== MATCH;
  switch (kind) {
    case INTEGER_VALUE:
    case DECIMAL_VALUE:
    case DOUBLE_VALUE:
    case BINARY_LITERAL:
    case STRING:
    case UNICODE_STRING:
    case QUESTION_MARK:
    case NULL:
    case TRUE:
    case FALSE:
    case LPAREN:
    case PLUS:
    case MINUS:
    case LBRACKET:
    case CASE:
    case CAST:
    case EXISTS:
    case NOT:
    case TRIM:
    case EXTRACT:
    case NORMALIZE:
    case GROUPING:
    case LISTAGG:
    case JSON_ARRAY:
    case JSON_EXISTS:
    case JSON_OBJECT:
    case JSON_QUERY:
    case JSON_VALUE:
    case CURRENT_CATALOG:
    case CURRENT_DATE:
    case CURRENT_PATH:
    case CURRENT_SCHEMA:
    case CURRENT_TIME:
    case CURRENT_TIMESTAMP:
    case CURRENT_USER:
    case LOCALTIME:
    case LOCALTIMESTAMP:
      return true;
    default:
      return false;
  }
}
