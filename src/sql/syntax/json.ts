import { expression } from './expressions.ts';
import { T } from './kinds.ts';
import { atString, string } from './literals.ts';
import type { Parser } from './parser.ts';
import { type } from './types.ts';

/** The JSON functions and JSON_TABLE. */

/** A call at JSON_EXISTS, JSON_VALUE, JSON_QUERY, JSON_OBJECT or JSON_ARRAY. */
export function jsonFunction(p: Parser): void {
  const kind = p.kind;
  p.next();
  p.expect(T.LPAREN);
  switch (kind) {
    case T.JSON_EXISTS:
      pathInvocation(p);
      if (p.kind === T.TRUE || p.kind === T.FALSE || p.kind === T.UNKNOWN || p.kind === T.ERROR) {
        p.next();
        p.expect(T.ON);
        p.expect(T.ERROR);
      }
      break;
    case T.JSON_VALUE:
      pathInvocation(p);
      if (p.accept(T.RETURNING)) type(p);
      behaviors(p, valueBehavior);
      break;
    case T.JSON_QUERY:
      pathInvocation(p);
      returning(p);
      wrapperAndQuotes(p);
      behaviors(p, queryBehavior);
      break;
    case T.JSON_OBJECT:
      if (p.kind !== T.RPAREN && !atReturning(p)) {
        objectMember(p);
        while (p.accept(T.COMMA)) objectMember(p);
        nullBehavior(p);
        if (p.kind === T.WITH || p.kind === T.WITHOUT) {
          p.next();
          p.expect(T.UNIQUE);
          p.accept(T.KEYS);
        }
      }
      returning(p);
      break;
    default:
      if (p.kind !== T.RPAREN && !atReturning(p)) {
        valueExpressionWithFormat(p);
        while (p.accept(T.COMMA)) valueExpressionWithFormat(p);
        nullBehavior(p);
      }
      returning(p);
  }
  p.expect(T.RPAREN);
}

/** RETURNING and a type, not an expression that starts with a column of that name. */
function atReturning(p: Parser): boolean {
  return p.kind === T.RETURNING && p.atIdentifier(1) && !(p.peek(1) === T.VALUE && p.peek(2) !== T.RPAREN);
}

function returning(p: Parser): void {
  if (!p.accept(T.RETURNING)) return;
  type(p);
  if (p.accept(T.FORMAT)) representation(p);
}

function nullBehavior(p: Parser): void {
  if ((p.kind === T.NULL || p.kind === T.ABSENT) && p.peek(1) === T.ON) {
    p.next();
    p.next();
    p.expect(T.NULL);
  }
}

function pathInvocation(p: Parser): void {
  valueExpressionWithFormat(p);
  p.expect(T.COMMA);
  string(p);
  if (p.accept(T.AS)) p.identifier();
  if (p.accept(T.PASSING)) {
    do {
      valueExpressionWithFormat(p);
      p.expect(T.AS);
      p.identifier();
    } while (p.accept(T.COMMA));
  }
}

function valueExpressionWithFormat(p: Parser): void {
  expression(p);
  if (p.accept(T.FORMAT)) representation(p);
}

function representation(p: Parser): void {
  p.expect(T.JSON);
  if (p.accept(T.ENCODING)) {
    if (p.kind !== T.UTF8 && p.kind !== T.UTF16 && p.kind !== T.UTF32) throw p.mismatch();
    p.next();
  }
}

/** `… ON EMPTY` and `… ON ERROR`, each where it stands. */
function behaviors(p: Parser, one: (p: Parser) => void): void {
  if (p.kind === T.RPAREN || p.kind === T.COMMA) return;
  one(p);
  p.expect(T.ON);
  if (p.accept(T.ERROR)) return;
  p.expect(T.EMPTY);
  if (p.kind === T.RPAREN || p.kind === T.COMMA) return;
  one(p);
  p.expect(T.ON);
  p.expect(T.ERROR);
}

function valueBehavior(p: Parser): void {
  if (p.kind === T.ERROR || p.kind === T.NULL) p.next();
  else {
    p.expect(T.DEFAULT);
    expression(p);
  }
}

function queryBehavior(p: Parser): void {
  if (p.kind === T.ERROR || p.kind === T.NULL) p.next();
  else {
    p.expect(T.EMPTY);
    p.expectEither(T.ARRAY, T.OBJECT);
  }
}

function wrapperAndQuotes(p: Parser): void {
  if (p.kind === T.WITHOUT || p.kind === T.WITH) {
    const withWrapper = p.kind === T.WITH;
    p.next();
    if (withWrapper && (p.kind === T.CONDITIONAL || p.kind === T.UNCONDITIONAL)) p.next();
    p.accept(T.ARRAY);
    p.expect(T.WRAPPER);
  }
  if (p.kind === T.KEEP || p.kind === T.OMIT) {
    p.next();
    p.expect(T.QUOTES);
    if (p.accept(T.ON)) {
      p.expect(T.SCALAR);
      p.expect(T.TEXT_STRING);
    }
  }
}

/** `KEY? expression VALUE value`, `expression : value`. */
function objectMember(p: Parser): void {
  if (p.kind === T.KEY && keyIsWord(p)) p.next();
  expression(p);
  if (!p.accept(T.COLON)) p.expect(T.VALUE);
  valueExpressionWithFormat(p);
}

/** KEY before an expression; a column of that name has an operator, VALUE or `:` after it. */
function keyIsWord(p: Parser): boolean {
  const next = p.peek(1);
  switch (next) {
    case T.VALUE:
      return p.peek(2) === T.VALUE || p.peek(2) === T.COLON;
    case T.COLON:
    case T.DOT:
    case T.LBRACKET:
    case T.PLUS:
    case T.MINUS:
    case T.ASTERISK:
    case T.SLASH:
    case T.PERCENT:
    case T.CONCAT:
    case T.ARROW:
    case T.DOUBLE_COLON:
    case T.AND:
    case T.OR:
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
      return false;
    case T.NOT:
      return p.peek(2) !== T.BETWEEN && p.peek(2) !== T.IN && p.peek(2) !== T.LIKE;
    default:
      return true;
  }
}

/** `JSON_TABLE ( … )`. */
export function jsonTable(p: Parser): void {
  p.next();
  p.expect(T.LPAREN);
  pathInvocation(p);
  p.expect(T.COLUMNS);
  columns(p);
  if (p.accept(T.PLAN)) {
    if (p.kind === T.DEFAULT) {
      p.next();
      p.expect(T.LPAREN);
      defaultPlan(p);
    } else {
      p.expect(T.LPAREN);
      specificPlan(p);
    }
    p.expect(T.RPAREN);
  }
  if (p.kind === T.EMPTY || p.kind === T.ERROR) {
    p.next();
    p.expect(T.ON);
    p.expect(T.ERROR);
  }
  p.expect(T.RPAREN);
}

function columns(p: Parser): void {
  p.enter();
  p.expect(T.LPAREN);
  column(p);
  while (p.accept(T.COMMA)) column(p);
  p.expect(T.RPAREN);
  p.leave();
}

function column(p: Parser): void {
  const next = p.peek(1);
  if (
    p.kind === T.NESTED &&
    (next === T.STRING ||
      next === T.UNICODE_STRING ||
      (next === T.PATH && (p.peek(2) === T.STRING || p.peek(2) === T.UNICODE_STRING)))
  ) {
    p.next();
    p.accept(T.PATH);
    string(p);
    if (p.accept(T.AS)) p.identifier();
    p.expect(T.COLUMNS);
    columns(p);
    return;
  }
  p.identifier();
  if (p.accept(T.FOR)) {
    p.expect(T.ORDINALITY);
    return;
  }
  type(p);
  if (p.accept(T.FORMAT)) {
    representation(p);
    path(p);
    wrapperAndQuotes(p);
    behaviors(p, queryBehavior);
  } else {
    path(p);
    behaviors(p, valueBehavior);
  }
}

function path(p: Parser): void {
  if (p.kind !== T.PATH) return;
  p.next();
  if (!atString(p)) throw p.mismatch();
  string(p);
}

function specificPlan(p: Parser): void {
  p.enter();
  const named = p.kind !== T.LPAREN;
  planPrimary(p);
  if (named && (p.kind === T.INNER || p.kind === T.OUTER)) {
    p.next();
    planPrimary(p);
  } else if (p.kind === T.UNION || p.kind === T.CROSS) {
    const operator = p.kind;
    while (p.accept(operator)) planPrimary(p);
  } else if (!named) throw p.mismatch();
  p.leave();
}

function planPrimary(p: Parser): void {
  if (p.accept(T.LPAREN)) {
    specificPlan(p);
    p.expect(T.RPAREN);
  } else p.identifier();
}

function defaultPlan(p: Parser): void {
  if (p.kind === T.INNER || p.kind === T.OUTER) {
    p.next();
    if (p.accept(T.COMMA)) p.expectEither(T.UNION, T.CROSS);
  } else {
    p.expectEither(T.UNION, T.CROSS);
    if (p.accept(T.COMMA)) p.expectEither(T.INNER, T.OUTER);
  }
}
