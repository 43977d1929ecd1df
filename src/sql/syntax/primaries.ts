import { functionCall, namedForm, processingCall } from './calls.ts';
import {
  argumentList,
  atPredicate,
  expression,
  expressionList,
  predicate,
  Shape,
  startsExpression,
  valueExpression,
} from './expressions.ts';
import { jsonFunction } from './json.ts';
import { FIRST_KEYWORD, LAST_IDENTIFIER, LAST_KEYWORD, T } from './kinds.ts';
import { parenthesized } from './parentheses.ts';
import {
  atInterval,
  atString,
  binaryLiteral,
  integerLiteral,
  interval,
  type Parser,
  string,
  typedLiteral,
} from './parser.ts';
import { subquery } from './queries.ts';
import { type } from './types.ts';
import { windowSpecification } from './windows.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ARRAY, ARROW, AS, ASTERISK, BINARY_LITERAL, CASE, CAST, COMMA, CURRENT_CATALOG, CURRENT_DATE, CURRENT_PATH,
  CURRENT_SCHEMA, CURRENT_TIME, CURRENT_TIMESTAMP, CURRENT_USER, DECIMAL_VALUE, DISTINCT, DOT, DOUBLE,
  DOUBLE_COLON, DOUBLE_VALUE, ELSE, END, EOF, EXISTS, FALSE, FINAL, IDENTIFIER, INTEGER_VALUE, INTERVAL,
  JSON_ARRAY, JSON_EXISTS, JSON_OBJECT, JSON_QUERY, JSON_VALUE, LBRACKET, LOCALTIME, LOCALTIMESTAMP, LPAREN,
  NULL, ORDER, OVER, PRECISION, QUESTION_MARK, RBRACKET, RPAREN, RUNNING, STRING, THEN, TRUE, TRY_CAST,
  UNICODE_STRING, UNIQUE, WHEN,
} = T;

/** `primaryExpression` of the grammar; `sign` is the token of a minus before it, or -1. */
export function primary(p: Parser, sign: number): number {
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
  if (kind === IDENTIFIER || (kind <= LAST_IDENTIFIER && kind !== EOF)) {
    shape = nameOrCall(p);
  } else {
    switch (kind) {
      case INTEGER_VALUE:
        integerLiteral(p, sign);
        break;
      case STRING:
      case UNICODE_STRING:
        string(p);
        break;
      case DECIMAL_VALUE:
      case DOUBLE_VALUE:
      case TRUE:
      case FALSE:
      case NULL:
      case QUESTION_MARK:
      case CURRENT_DATE:
      case CURRENT_USER:
      case CURRENT_CATALOG:
      case CURRENT_SCHEMA:
      case CURRENT_PATH:
        p.next();
        break;
      case LPAREN:
        shape = parenthesized(p);
        break;
      case LBRACKET:
        p.next();
        if (p.kind !== RBRACKET) expressionList(p);
        p.expect(RBRACKET);
        break;
      case BINARY_LITERAL:
        binaryLiteral(p);
        break;
      case CURRENT_TIME:
      case CURRENT_TIMESTAMP:
      case LOCALTIME:
      case LOCALTIMESTAMP:
        p.next();
        if (atOpening(p, p.peek(1) === INTEGER_VALUE)) {
          p.next();
          p.expect(INTEGER_VALUE);
          p.expect(RPAREN);
        }
        break;
      case CASE:
        caseExpression(p);
        break;
      case CAST:
        p.next();
        castBody(p);
        break;
      case EXISTS:
        p.next();
        subquery(p);
        break;
      case JSON_EXISTS:
      case JSON_VALUE:
      case JSON_QUERY:
      case JSON_OBJECT:
      case JSON_ARRAY:
        jsonFunction(p);
        break;
      default:
        namedForm(p);
    }
  }
  // `NULL`, `(…)` and the like may be followed by `[…]` and `.field` as well as names.
  const next = p.kind;
  if (next === LBRACKET || next === DOT) return postfix(p, star) ? Shape.primary : shape;
  return shape;
}

/**
 * True at a parenthesis that continues the previous construct. If the token after it fits nowhere, the engine's parser
 * treats it as following a whole expression: then the error is at the parenthesis, unless an outer decision decides.
 */
function atOpening(p: Parser, fits: boolean): boolean {
  return p.kind === LPAREN && (fits || p.isBlamed());
}

/**
 * Subscripts, fields and methods after a primary; false if they are missing. With `star`, `.*` is left to the caller.
 */
export function postfix(p: Parser, star: boolean): boolean {
  let isPresent = false;
  for (;;) {
    if (p.kind === LBRACKET) {
      p.next();
      if (!p.accept(ASTERISK)) valueExpression(p);
      p.expect(RBRACKET);
    } else if (p.kind === DOT) {
      const next = p.peek(1);
      if (next === ASTERISK && star) return isPresent;
      if (!p.isBlamed() && (next === EOF || next === ASTERISK)) throw p.mismatch();
      p.next();
      if (atString(p)) string(p);
      else if (p.peek(1) === LPAREN && next >= FIRST_KEYWORD && next <= LAST_KEYWORD) {
        p.next();
        methodArguments(p);
      } else if (p.atIdentifier()) {
        p.identifier();
        if (atOpening(p, p.peek(1) === RPAREN || startsExpression(p.peek(1)))) methodArguments(p);
      } else if (next >= FIRST_KEYWORD && next <= LAST_KEYWORD) {
        // A reserved word can only be a method's name.
        p.next();
        throw p.mismatch();
      } else throw p.mismatch();
    } else return isPresent;
    isPresent = true;
  }
}

/** `(argument, …)` of a method. */
export function methodArguments(p: Parser): void {
  p.expect(LPAREN);
  if (p.kind !== RPAREN) argumentList(p);
  p.expect(RPAREN);
}

/** A primary that starts with an identifier: column, lambda, call, typed literal, measure or a form with its own name. */
function nameOrCall(p: Parser): number {
  const start = p.pos;
  const kind = p.kind;
  const next = p.peek(1);
  if (kind >= FIRST_KEYWORD) {
    switch (kind) {
      case INTERVAL:
        if (atInterval(p)) {
          interval(p);
          return Shape.primary;
        }
        break;
      case DOUBLE:
        if (next === PRECISION && (p.peek(2) === STRING || p.peek(2) === UNICODE_STRING)) {
          p.next();
          p.next();
          string(p);
          return Shape.primary;
        }
        if (next === PRECISION) p.open(p.pos + 1);
        break;
      case ARRAY:
        if (next === LBRACKET && p.peek(2) !== ASTERISK) {
          p.next();
          p.next();
          if (p.kind !== RBRACKET) {
            // An array, or a subscript of a column of that name: the first comma decides.
            const outer = p.blameSelf();
            expression(p);
            p.unblame(outer);
            while (p.accept(COMMA)) expression(p);
          }
          p.expect(RBRACKET);
          return Shape.primary;
        }
        break;
      case TRY_CAST:
        if (next === LPAREN) {
          p.next();
          const outer = p.blameSelf();
          castBody(p);
          p.unblame(outer);
          return Shape.primary;
        }
        break;
      case RUNNING:
      case FINAL:
        if (p.atIdentifier(1) && processingCall(p)) return Shape.primary;
        break;
      default:
    }
  }
  switch (next) {
    case STRING:
    case UNICODE_STRING:
      typedLiteral(p);
      return Shape.primary;
    case ARROW:
      p.identifier();
      p.next();
      expression(p);
      return Shape.condition;
    case LPAREN:
      // No argument starts like a query, but a query may follow the value of a session property.
      if (!p.isBlamed() && kind !== UNIQUE && !startsArguments(p.peek(2))) break;
      p.identifier();
      functionCall(p, start, start, 1);
      return Shape.primary;
    case OVER:
      if (p.peek(2) === LPAREN || p.atIdentifier(2)) {
        p.identifier();
        over(p);
        return Shape.primary;
      }
      break;
    case DOT:
    case DOUBLE_COLON:
      return qualifiedPrimary(p, start);
    default:
  }
  p.identifier();
  return Shape.identifier;
}

function startsArguments(kind: number): boolean {
  return (
    startsExpression(kind) ||
    kind === RPAREN ||
    kind === ASTERISK ||
    kind === DISTINCT ||
    kind === ORDER ||
    (kind <= LAST_IDENTIFIER && kind !== EOF)
  );
}

/** `a.b…`: a column, a function's or a type's name. */
function qualifiedPrimary(p: Parser, start: number): number {
  p.identifier();
  let parts = 1;
  while (p.kind === DOT && p.atIdentifier(1)) {
    p.next();
    p.identifier();
    parts += 1;
  }
  if (p.kind === LPAREN && (p.isBlamed() || startsArguments(p.peek(1)))) {
    functionCall(p, start, start, parts);
    return Shape.primary;
  }
  if (p.accept(DOUBLE_COLON)) {
    if (p.kind < FIRST_KEYWORD || p.kind > LAST_KEYWORD) p.identifier();
    else p.next();
    methodArguments(p);
    return Shape.primary;
  }
  return parts > 1 ? Shape.primary : Shape.identifier;
}

/** `OVER window`. */
export function over(p: Parser): void {
  p.expect(OVER);
  if (p.accept(LPAREN)) {
    windowSpecification(p);
    p.expect(RPAREN);
  } else p.identifier();
}

function castBody(p: Parser): void {
  p.expect(LPAREN);
  expression(p);
  p.expect(AS);
  type(p);
  p.expect(RPAREN);
}

function caseExpression(p: Parser): void {
  p.next();
  const simple = p.kind !== WHEN;
  if (simple) expression(p);
  if (p.kind !== WHEN) throw p.mismatch();
  while (p.accept(WHEN)) {
    if (simple && atPredicate(p)) predicate(p);
    else expression(p);
    p.expect(THEN);
    expression(p);
  }
  if (p.accept(ELSE)) expression(p);
  p.expect(END);
}
