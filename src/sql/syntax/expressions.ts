import { functionCall, namedForm, processingCall } from './calls.ts';
import { jsonFunction } from './json.ts';
import { FIRST_KEYWORD, LAST_IDENTIFIER, LAST_KEYWORD, T } from './kinds.ts';
import { atInterval, atString, binaryLiteral, integer, interval, string, typedLiteral } from './literals.ts';
import type { Parser } from './parser.ts';
import { atQueryContinuation, atQueryStart, queryBody, queryRest, subquery } from './queries.ts';
import { type } from './types.ts';
import { windowSpecification } from './windows.ts';

/**
 * Shapes of what was read, as far as what may follow depends on them: `identifier` may become the parameter of a lambda,
 * `query` (a parenthesised query without WITH) may go on with UNION and the like, `value` is no predicate or condition.
 */
export const Shape = { condition: 0, value: 1, primary: 2, identifier: 3, query: 4 } as const;

/**
 * `expression` of the grammar; gives its shape. Operators are not told apart by precedence: which names are in an
 * expression does not depend on it, nor does whether the engine takes it.
 */
export function expression(p: Parser): number {
  p.enter();
  let shape: number;
  if (p.kind === T.NOT) {
    p.next();
    while (p.kind === T.NOT) p.next();
    operand(p);
    shape = Shape.condition;
  } else shape = operand(p);
  if (p.kind === T.AND || p.kind === T.OR) {
    conditionRest(p);
    shape = Shape.condition;
  }
  p.leave();
  return shape;
}

/** A value with or without its predicate. */
function operand(p: Parser): number {
  const shape = valueExpression(p);
  return predicate(p) ? Shape.condition : shape;
}

function conditionRest(p: Parser): void {
  while (p.kind === T.AND || p.kind === T.OR) {
    p.next();
    while (p.kind === T.NOT) p.next();
    operand(p);
  }
}

/** Goes on with an expression whose first primary was just read up to its closing parenthesis. */
export function expressionRest(p: Parser): number {
  let shape: number = postfix(p, false) ? Shape.primary : Shape.query;
  if (valueRest(p)) shape = Shape.value;
  if (predicate(p)) shape = Shape.condition;
  if (p.kind === T.AND || p.kind === T.OR) {
    conditionRest(p);
    shape = Shape.condition;
  }
  return shape;
}

/** Goes on with an expression after its first value. */
export function conditionTail(p: Parser): void {
  predicate(p);
  conditionRest(p);
}

/** Goes on with a value after its first primary. */
export function valueTail(p: Parser): void {
  postfix(p, false);
  valueRest(p);
}

/** `valueExpression` of the grammar. */
export function valueExpression(p: Parser): number {
  let sign = -1;
  while (p.kind === T.MINUS || p.kind === T.PLUS) {
    sign = p.kind === T.MINUS ? p.pos : -1;
    p.next();
  }
  const signed = p.pos > 0 && (sign >= 0 || p.kinds[p.pos - 1] === T.PLUS);
  const shape = primary(p, sign);
  return valueRest(p) || signed ? Shape.value : shape;
}

/** Operators between values; false when there is none. */
function valueRest(p: Parser): boolean {
  let found = false;
  for (;;) {
    switch (p.kind) {
      case T.PLUS:
      case T.MINUS:
      case T.ASTERISK:
      case T.SLASH:
      case T.PERCENT:
      case T.CONCAT: {
        p.next();
        let sign = -1;
        while (p.kind === T.MINUS || p.kind === T.PLUS) {
          sign = p.kind === T.MINUS ? p.pos : -1;
          p.next();
        }
        primary(p, sign);
        break;
      }
      case T.AT:
        if (p.peek(1) === T.LOCAL) {
          p.next();
          p.next();
        } else if (p.peek(1) === T.TIME) {
          p.next();
          p.next();
          p.expect(T.ZONE);
          if (p.kind === T.INTERVAL) interval(p);
          else string(p);
        } else return found;
        break;
      default:
        return found;
    }
    found = true;
  }
}

/** True at a token that starts a predicate (of what stands before it, or of a CASE's operand). */
export function atPredicate(p: Parser): boolean {
  switch (p.kind) {
    case T.EQ:
    case T.NEQ:
    case T.LT:
    case T.LTE:
    case T.GT:
    case T.GTE:
    case T.BETWEEN:
    case T.IN:
    case T.LIKE:
    case T.IS:
    case T.OVERLAPS:
      return true;
    case T.NOT: {
      const next = p.peek(1);
      return next === T.BETWEEN || next === T.IN || next === T.LIKE;
    }
    case T.MATCH:
      switch (p.peek(1)) {
        case T.LPAREN:
          return atQueryStart(p.peek(2)) || p.peek(2) === T.LPAREN;
        case T.UNIQUE:
        case T.SIMPLE:
        case T.PARTIAL:
        case T.FULL:
          return !p.inNearest || p.peek(2) === T.LPAREN || p.peek(1) === T.FULL;
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
    case T.EQ:
    case T.NEQ:
    case T.LT:
    case T.LTE:
    case T.GT:
    case T.GTE: {
      p.next();
      const quantified = p.kind === T.ALL || p.kind === T.ANY || p.kind === T.SOME;
      if (quantified && p.peek(1) === T.LPAREN && (atQueryStart(p.peek(2)) || p.peek(2) === T.LPAREN)) {
        quantifiedQuery(p);
      } else valueExpression(p);
      return true;
    }
    case T.NOT:
      p.next();
      if (p.kind === T.BETWEEN) between(p);
      else if (p.kind === T.IN) inPredicate(p);
      else if (p.kind === T.LIKE) like(p);
      else throw p.mismatch();
      return true;
    case T.BETWEEN:
      between(p);
      return true;
    case T.IN: {
      const outer = p.blame(p.pos);
      inPredicate(p);
      p.unblame(outer);
      return true;
    }
    case T.LIKE:
      like(p);
      return true;
    case T.IS:
      p.next();
      p.accept(T.NOT);
      switch (p.kind) {
        case T.NULL:
        case T.TRUE:
        case T.FALSE:
        case T.UNKNOWN:
          p.next();
          break;
        case T.DISTINCT:
          p.next();
          p.expect(T.FROM);
          valueExpression(p);
          break;
        default:
          throw p.mismatch();
      }
      return true;
    case T.OVERLAPS:
      p.next();
      valueExpression(p);
      return true;
    case T.MATCH:
      if (!atPredicate(p)) return false;
      p.next();
      p.accept(T.UNIQUE);
      if (p.kind === T.SIMPLE || p.kind === T.PARTIAL || p.kind === T.FULL) p.next();
      subquery(p);
      return true;
    default:
      return false;
  }
}

/** `ALL (query)` after a comparison, which may turn out to be a call of a function of that name. */
function quantifiedQuery(p: Parser): void {
  p.next();
  const outer = p.blame(p.pos);
  p.next();
  const shape = expressionOrQuery(p);
  if (shape === Shape.query) {
    p.expect(T.RPAREN);
    p.unblame(outer);
    return;
  }
  p.unblame(outer);
  while (p.accept(T.COMMA)) expression(p);
  p.expect(T.RPAREN);
  valueTail(p);
}

function between(p: Parser): void {
  p.next();
  // Both words may be columns too: then an operator or AND follows.
  if ((p.kind === T.SYMMETRIC || p.kind === T.ASYMMETRIC) && startsExpression(p.peek(1))) p.next();
  valueExpression(p);
  p.expect(T.AND);
  valueExpression(p);
}

function like(p: Parser): void {
  p.next();
  valueExpression(p);
  if (p.accept(T.ESCAPE)) valueExpression(p);
}

function inPredicate(p: Parser): void {
  p.next();
  p.expect(T.LPAREN);
  if (expressionOrQuery(p) !== Shape.query) while (p.accept(T.COMMA)) expression(p);
  p.expect(T.RPAREN);
}

/**
 * What stands inside parentheses that may hold a query or expressions: gives `query` for a query that ends here (a
 * closing parenthesis must follow), another shape for the first expression.
 */
export function expressionOrQuery(p: Parser): number {
  if (atQueryStart(p.kind)) {
    queryBody(p);
    return Shape.query;
  }
  if (p.kind !== T.LPAREN) return expression(p);
  const shape = parenthesized(p);
  if (shape === Shape.query) {
    if (p.kind === T.RPAREN) return Shape.query;
    if (atQueryContinuation(p)) {
      queryRest(p);
      return Shape.query;
    }
  }
  return expressionRest(p) === Shape.query ? Shape.primary : Shape.condition;
}

/**
 * A primary in parentheses: an expression, a row, the parameters of a lambda, or a query. Goes down any number of opening
 * parentheses in a row without a call for each.
 */
export function parenthesized(p: Parser): number {
  if (atQueryStart(p.peek(1))) {
    p.next();
    const shape = queryBody(p) ? Shape.primary : Shape.query;
    p.expect(T.RPAREN);
    return shape;
  }
  const outer = p.blameSelf();
  const shape = parenthesizedMore(p);
  p.unblame(outer);
  return shape;
}

function parenthesizedMore(p: Parser): number {
  let open = 0;
  while (p.kind === T.LPAREN) {
    p.next();
    open += 1;
  }
  let shape: number;
  if (atQueryStart(p.kind)) {
    shape = queryBody(p) ? Shape.primary : Shape.query;
    p.expect(T.RPAREN);
  } else if (p.kind === T.RPAREN) {
    p.next();
    p.expect(T.ARROW);
    expression(p);
    shape = Shape.condition;
  } else {
    let onlyNames = expression(p) === Shape.identifier;
    while (p.accept(T.COMMA)) if (expression(p) !== Shape.identifier) onlyNames = false;
    p.expect(T.RPAREN);
    shape = Shape.primary;
    if (onlyNames && p.kind === T.ARROW) {
      p.next();
      expression(p);
      shape = Shape.condition;
    }
  }
  for (open -= 1; open > 0; open -= 1) {
    if (shape !== Shape.query || p.kind !== T.RPAREN) {
      if (shape === Shape.query && atQueryContinuation(p)) queryRest(p);
      else {
        expressionRest(p);
        while (p.accept(T.COMMA)) expression(p);
        shape = Shape.primary;
      }
    }
    p.expect(T.RPAREN);
  }
  return shape;
}

/** `primaryExpression` of the grammar; `sign` is the token of a minus before it, or -1. */
function primary(p: Parser, sign: number): number {
  const start = p.pos;
  const star = start === p.starStart;
  if (star) {
    // An item that starts with a primary may be `primary.*`.
    p.starStart = -1;
    const outer = p.blameSelf();
    const shape = primaryAt(p, sign, true);
    p.unblame(outer);
    return shape;
  }
  return primaryAt(p, sign, false);
}

function primaryAt(p: Parser, sign: number, star: boolean): number {
  let shape: number = Shape.primary;
  const kind = p.kind;
  if (kind === T.IDENTIFIER || (kind <= LAST_IDENTIFIER && kind !== T.EOF)) {
    shape = nameOrCall(p);
  } else {
    switch (kind) {
      case T.INTEGER_VALUE:
        integer(p, sign);
        break;
      case T.STRING:
      case T.UNICODE_STRING:
        string(p);
        break;
      case T.DECIMAL_VALUE:
      case T.DOUBLE_VALUE:
      case T.TRUE:
      case T.FALSE:
      case T.NULL:
      case T.QUESTION_MARK:
      case T.CURRENT_DATE:
      case T.CURRENT_USER:
      case T.CURRENT_CATALOG:
      case T.CURRENT_SCHEMA:
      case T.CURRENT_PATH:
        p.next();
        break;
      case T.LPAREN:
        shape = parenthesized(p);
        break;
      case T.LBRACKET:
        p.next();
        if (p.kind !== T.RBRACKET) expressionList(p);
        p.expect(T.RBRACKET);
        break;
      case T.BINARY_LITERAL:
        binaryLiteral(p);
        break;
      case T.CURRENT_TIME:
      case T.CURRENT_TIMESTAMP:
      case T.LOCALTIME:
      case T.LOCALTIMESTAMP:
        p.next();
        if (p.accept(T.LPAREN)) {
          p.expect(T.INTEGER_VALUE);
          p.expect(T.RPAREN);
        }
        break;
      case T.CASE:
        caseExpression(p);
        break;
      case T.CAST:
        p.next();
        castBody(p);
        break;
      case T.EXISTS:
        p.next();
        subquery(p);
        break;
      case T.JSON_EXISTS:
      case T.JSON_VALUE:
      case T.JSON_QUERY:
      case T.JSON_OBJECT:
      case T.JSON_ARRAY:
        jsonFunction(p);
        break;
      default:
        namedForm(p);
    }
  }
  // `NULL`, `(…)` and the like may be followed by `[…]` and `.field` as well as names.
  const next = p.kind;
  if (next === T.LBRACKET || next === T.DOT) return postfix(p, star) ? Shape.primary : shape;
  return shape;
}

/** Subscripts, fields and methods after a primary; false when there is none. With `star`, `.*` is left to the caller. */
function postfix(p: Parser, star: boolean): boolean {
  let found = false;
  for (;;) {
    if (p.kind === T.LBRACKET) {
      p.next();
      if (!p.accept(T.ASTERISK)) valueExpression(p);
      p.expect(T.RBRACKET);
    } else if (p.kind === T.DOT) {
      const next = p.peek(1);
      if (next === T.ASTERISK && star) return found;
      p.next();
      if (atString(p)) string(p);
      else if (p.peek(1) === T.LPAREN && next >= FIRST_KEYWORD && next <= LAST_KEYWORD) {
        p.next();
        methodArguments(p);
      } else if (p.atIdentifier()) {
        p.identifier();
        if (p.kind === T.LPAREN) methodArguments(p);
      } else if (next >= FIRST_KEYWORD && next <= LAST_KEYWORD) {
        // A reserved word can only be a method's name.
        p.next();
        throw p.mismatch();
      } else throw p.mismatch();
    } else return found;
    found = true;
  }
}

/** `(argument, …)` of a method. */
function methodArguments(p: Parser): void {
  p.expect(T.LPAREN);
  if (p.kind !== T.RPAREN) argumentList(p);
  p.expect(T.RPAREN);
}

/** `argument` of the grammar; true when it is named. */
export function argument(p: Parser): boolean {
  if (p.peek(1) === T.DOUBLE_ARROW && p.atIdentifier()) {
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
  while (p.accept(T.COMMA)) argument(p);
}

/** `expression (, expression)*`. */
export function expressionList(p: Parser): void {
  expression(p);
  while (p.accept(T.COMMA)) expression(p);
}

/** A primary that starts with an identifier: column, lambda, call, typed literal, measure or a form with its own name. */
function nameOrCall(p: Parser): number {
  const start = p.pos;
  const kind = p.kind;
  const next = p.peek(1);
  if (kind >= FIRST_KEYWORD) {
    switch (kind) {
      case T.INTERVAL:
        if (atInterval(p)) {
          interval(p);
          return Shape.primary;
        }
        break;
      case T.DOUBLE:
        if (next === T.PRECISION && (p.peek(2) === T.STRING || p.peek(2) === T.UNICODE_STRING)) {
          p.next();
          p.next();
          string(p);
          return Shape.primary;
        }
        break;
      case T.ARRAY:
        if (next === T.LBRACKET && p.peek(2) !== T.ASTERISK) {
          p.next();
          p.next();
          if (p.kind !== T.RBRACKET) expressionList(p);
          p.expect(T.RBRACKET);
          return Shape.primary;
        }
        break;
      case T.TRY_CAST:
        if (next === T.LPAREN) {
          p.next();
          castBody(p);
          return Shape.primary;
        }
        break;
      case T.RUNNING:
      case T.FINAL:
        if (p.atIdentifier(1) && processingCall(p)) return Shape.primary;
        break;
      default:
    }
  }
  switch (next) {
    case T.STRING:
    case T.UNICODE_STRING:
      typedLiteral(p);
      return Shape.primary;
    case T.ARROW:
      p.identifier();
      p.next();
      expression(p);
      return Shape.condition;
    case T.LPAREN:
      // No argument starts like a query: then the query after the value of a session property does.
      if (atQueryStart(p.peek(2)) && kind !== T.UNIQUE) break;
      p.identifier();
      functionCall(p, start, start, 1);
      return Shape.primary;
    case T.OVER:
      if (p.peek(2) === T.LPAREN || p.atIdentifier(2)) {
        p.identifier();
        over(p);
        return Shape.primary;
      }
      break;
    case T.DOT:
    case T.DOUBLE_COLON:
      return qualifiedPrimary(p, start);
    default:
  }
  p.identifier();
  return Shape.identifier;
}

/** `a.b…`: a column, a function's or a type's name. */
function qualifiedPrimary(p: Parser, start: number): number {
  p.identifier();
  let parts = 1;
  while (p.kind === T.DOT && p.atIdentifier(1)) {
    p.next();
    p.identifier();
    parts += 1;
  }
  if (p.kind === T.LPAREN) {
    functionCall(p, start, start, parts);
    return Shape.primary;
  }
  if (p.accept(T.DOUBLE_COLON)) {
    if (p.kind < FIRST_KEYWORD || p.kind > LAST_KEYWORD) p.identifier();
    else p.next();
    methodArguments(p);
    return Shape.primary;
  }
  return parts > 1 ? Shape.primary : Shape.identifier;
}

/** `OVER window`. */
export function over(p: Parser): void {
  p.expect(T.OVER);
  if (p.accept(T.LPAREN)) {
    windowSpecification(p);
    p.expect(T.RPAREN);
  } else p.identifier();
}

function castBody(p: Parser): void {
  p.expect(T.LPAREN);
  expression(p);
  p.expect(T.AS);
  type(p);
  p.expect(T.RPAREN);
}

function caseExpression(p: Parser): void {
  p.next();
  const simple = p.kind !== T.WHEN;
  if (simple) expression(p);
  if (p.kind !== T.WHEN) throw p.mismatch();
  while (p.accept(T.WHEN)) {
    if (simple && atPredicate(p)) predicate(p);
    else expression(p);
    p.expect(T.THEN);
    expression(p);
  }
  if (p.accept(T.ELSE)) expression(p);
  p.expect(T.END);
}

/** True for kinds that start an expression and cannot go on with one that an identifier started. */
export function startsExpression(kind: number): boolean {
  if (kind === T.EOF) return false;
  if (kind <= LAST_IDENTIFIER) return kind !== T.AT && kind !== T.OVER && kind !== T.MATCH;
  switch (kind) {
    case T.INTEGER_VALUE:
    case T.DECIMAL_VALUE:
    case T.DOUBLE_VALUE:
    case T.BINARY_LITERAL:
    case T.STRING:
    case T.UNICODE_STRING:
    case T.QUESTION_MARK:
    case T.NULL:
    case T.TRUE:
    case T.FALSE:
    case T.LPAREN:
    case T.PLUS:
    case T.MINUS:
    case T.LBRACKET:
    case T.CASE:
    case T.CAST:
    case T.EXISTS:
    case T.NOT:
    case T.TRIM:
    case T.EXTRACT:
    case T.NORMALIZE:
    case T.GROUPING:
    case T.LISTAGG:
    case T.JSON_ARRAY:
    case T.JSON_EXISTS:
    case T.JSON_OBJECT:
    case T.JSON_QUERY:
    case T.JSON_VALUE:
    case T.CURRENT_CATALOG:
    case T.CURRENT_DATE:
    case T.CURRENT_PATH:
    case T.CURRENT_SCHEMA:
    case T.CURRENT_TIME:
    case T.CURRENT_TIMESTAMP:
    case T.CURRENT_USER:
    case T.LOCALTIME:
    case T.LOCALTIMESTAMP:
      return true;
    default:
      return false;
  }
}
