import { LAST_IDENTIFIER, T } from './kinds.ts';
import { expressionOrQuery } from './parentheses.ts';
import { interval, type Parser, string } from './parser.ts';
import { postfix, primary } from './primaries.ts';
import { atQueryStart, subquery } from './queries.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ALL, AND, ANY, ASTERISK, ASYMMETRIC, AT, BETWEEN, BINARY_LITERAL, CASE, CAST, COMMA, CONCAT, CURRENT_CATALOG,
  CURRENT_DATE, CURRENT_PATH, CURRENT_SCHEMA, CURRENT_TIME, CURRENT_TIMESTAMP, CURRENT_USER, DECIMAL_VALUE,
  DISTINCT, DOUBLE_ARROW, DOUBLE_VALUE, EOF, EQ, ESCAPE, EXISTS, EXTRACT, FALSE, FROM, FULL, GROUPING, GT, GTE, IN,
  INTEGER_VALUE, INTERVAL, IS, JSON_ARRAY, JSON_EXISTS, JSON_OBJECT, JSON_QUERY, JSON_VALUE, LBRACKET, LIKE,
  LISTAGG, LOCAL, LOCALTIME, LOCALTIMESTAMP, LPAREN, LT, LTE, MATCH, MINUS, NEQ, NORMALIZE, NOT, NULL, OR, OVER,
  OVERLAPS, PARTIAL, PERCENT, PLUS, QUESTION_MARK, RPAREN, SIMPLE, SLASH, SOME, STRING, SYMMETRIC, TIME, TRIM, TRUE,
  UNICODE_STRING, UNIQUE, UNKNOWN, WITH, ZONE,
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

/** True at a token that starts a predicate (of what stands before it, or of a CASE's operand). */
export function atPredicate(p: Parser): boolean {
  switch (p.kind) {
    case EQ:
    case NEQ:
    case LT:
    case LTE:
    case GT:
    case GTE:
    case BETWEEN:
    case IN:
    case LIKE:
    case IS:
    case OVERLAPS:
      return true;
    case NOT: {
      const next = p.peek(1);
      return next === BETWEEN || next === IN || next === LIKE;
    }
    case MATCH:
      switch (p.peek(1)) {
        case LPAREN:
          return atQueryStart(p.peek(2)) || p.peek(2) === LPAREN;
        case UNIQUE:
        case SIMPLE:
        case PARTIAL:
        case FULL:
          return !p.inNearest || p.peek(2) === LPAREN || p.peek(1) === FULL;
        default:
          return false;
      }
    default:
      return false;
  }
}

/** `predicate` of the grammar, where there is one. */
export function predicate(p: Parser): boolean {
  switch (p.kind) {
    case EQ:
    case NEQ:
    case LT:
    case LTE:
    case GT:
    case GTE: {
      p.next();
      const quantified = p.kind === ALL || p.kind === ANY || p.kind === SOME;
      if (quantified && p.peek(1) === LPAREN && (atQueryStart(p.peek(2)) || p.peek(2) === LPAREN)) {
        quantifiedQuery(p);
      } else valueExpression(p);
      return true;
    }
    case NOT:
      p.next();
      if (p.kind === BETWEEN) between(p);
      else if (p.kind === IN) inPredicate(p);
      else if (p.kind === LIKE) like(p);
      else throw p.mismatch();
      return true;
    case BETWEEN:
      between(p);
      return true;
    case IN: {
      const outer = p.blame(p.pos);
      inPredicate(p);
      p.unblame(outer);
      return true;
    }
    case LIKE:
      like(p);
      return true;
    case IS:
      p.next();
      p.accept(NOT);
      switch (p.kind) {
        case NULL:
        case TRUE:
        case FALSE:
        case UNKNOWN:
          p.next();
          break;
        case DISTINCT:
          p.next();
          p.expect(FROM);
          valueExpression(p);
          break;
        default:
          throw p.mismatch();
      }
      return true;
    case OVERLAPS:
      p.next();
      valueExpression(p);
      return true;
    case MATCH:
      if (!atPredicate(p)) {
        p.open(p.pos);
        return false;
      }
      matchPredicate(p);
      return true;
    default:
      return false;
  }
}

function matchPredicate(p: Parser): void {
  const outer = p.blame(p.pos);
  p.next();
  p.accept(UNIQUE);
  if (p.kind === SIMPLE || p.kind === PARTIAL || p.kind === FULL) p.next();
  subquery(p);
  p.unblame(outer);
}

/** `ALL (query)` after a comparison, which may turn out to be a call of a function of that name. */
function quantifiedQuery(p: Parser): void {
  p.next();
  // A query with WITH cannot be the one that follows the value of a session property.
  const outer = p.peek(1) === WITH ? p.blameSelf() : p.blame(p.pos);
  p.next();
  const shape = expressionOrQuery(p);
  if (shape === Shape.query) {
    p.expect(RPAREN);
    p.unblame(outer);
    return;
  }
  p.unblame(outer);
  while (p.accept(COMMA)) expression(p);
  p.expect(RPAREN);
  valueTail(p);
}

function between(p: Parser): void {
  p.next();
  // Both words may be columns too: then an operator or AND follows.
  if ((p.kind === SYMMETRIC || p.kind === ASYMMETRIC) && startsExpression(p.peek(1))) p.next();
  valueExpression(p);
  p.expect(AND);
  valueExpression(p);
}

function like(p: Parser): void {
  p.next();
  valueExpression(p);
  if (p.accept(ESCAPE)) valueExpression(p);
}

function inPredicate(p: Parser): void {
  p.next();
  p.expect(LPAREN);
  if (expressionOrQuery(p) !== Shape.query) while (p.accept(COMMA)) expression(p);
  p.expect(RPAREN);
}
