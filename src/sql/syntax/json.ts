import { expression } from './expressions.ts';
import { T } from './kinds.ts';
import { atString, type Parser, string } from './parser.ts';
import { type } from './types.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ABSENT, AND, ARRAY, ARROW, AS, ASTERISK, BETWEEN, COLON, COLUMNS, COMMA, CONCAT, CONDITIONAL, CROSS, DEFAULT,
  DOT, DOUBLE_COLON, EMPTY, ENCODING, EQ, ERROR, FALSE, FOR, FORMAT, GT, GTE, IN, INNER, IS, JSON_EXISTS,
  JSON_OBJECT, JSON_QUERY, JSON_VALUE, JSON_WORD, KEEP, KEY, KEYS, LBRACKET, LIKE, LPAREN, LT, LTE, MINUS, NEQ,
  NESTED, NOT, NULL, OBJECT, OMIT, ON, OR, ORDINALITY, OUTER, OVERLAPS, PASSING, PATH, PERCENT, PLAN, PLUS,
  QUOTES, RETURNING, RPAREN, SCALAR, SLASH, STRING, TEXT_STRING, TRUE, UNCONDITIONAL, UNICODE_STRING, UNION,
  UNIQUE, UNKNOWN, UTF16, UTF32, UTF8, VALUE, WITH, WITHOUT, WRAPPER,
} = T;

/** The JSON functions and JSON_TABLE. */

/** A call at JSON_EXISTS, JSON_VALUE, JSON_QUERY, JSON_OBJECT or JSON_ARRAY. */
export function jsonFunction(p: Parser): void {
  const kind = p.kind;
  p.next();
  p.expect(LPAREN);
  switch (kind) {
    case JSON_EXISTS:
      pathInvocation(p);
      if (p.kind === TRUE || p.kind === FALSE || p.kind === UNKNOWN || p.kind === ERROR) {
        p.next();
        p.expect(ON);
        p.expect(ERROR);
      }
      break;
    case JSON_VALUE:
      pathInvocation(p);
      if (p.accept(RETURNING)) type(p);
      behaviors(p, valueBehavior);
      break;
    case JSON_QUERY:
      pathInvocation(p);
      returning(p);
      wrapperAndQuotes(p);
      behaviors(p, queryBehavior);
      break;
    case JSON_OBJECT:
      if (p.kind !== RPAREN && !atReturning(p)) {
        objectMember(p);
        while (p.accept(COMMA)) objectMember(p);
        nullBehavior(p);
        if (p.kind === WITH || p.kind === WITHOUT) {
          p.next();
          p.expect(UNIQUE);
          p.accept(KEYS);
        }
      }
      returning(p);
      break;
    default:
      if (p.kind !== RPAREN && !atReturning(p)) {
        valueExpressionWithFormat(p);
        while (p.accept(COMMA)) valueExpressionWithFormat(p);
        nullBehavior(p);
      }
      returning(p);
  }
  p.expect(RPAREN);
}

/** RETURNING and a type, not an expression that starts with a column of that name. */
function atReturning(p: Parser): boolean {
  return p.kind === RETURNING && p.atIdentifier(1) && !(p.peek(1) === VALUE && p.peek(2) !== RPAREN);
}

function returning(p: Parser): void {
  if (!p.accept(RETURNING)) return;
  type(p);
  if (p.accept(FORMAT)) representation(p);
}

function nullBehavior(p: Parser): void {
  if (p.kind === NULL || p.kind === ABSENT) {
    p.next();
    p.expect(ON);
    p.expect(NULL);
  }
}

function pathInvocation(p: Parser): void {
  valueExpressionWithFormat(p);
  p.expect(COMMA);
  string(p);
  if (p.accept(AS)) p.identifier();
  if (p.accept(PASSING)) {
    do {
      valueExpressionWithFormat(p);
      p.expect(AS);
      p.identifier();
    } while (p.accept(COMMA));
  }
}

function valueExpressionWithFormat(p: Parser): void {
  expression(p);
  if (p.accept(FORMAT)) representation(p);
}

function representation(p: Parser): void {
  p.expect(JSON_WORD);
  if (p.accept(ENCODING)) {
    if (p.kind !== UTF8 && p.kind !== UTF16 && p.kind !== UTF32) throw p.mismatch();
    p.next();
  }
}

/** `… ON EMPTY` and `… ON ERROR`, each optional. */
function behaviors(p: Parser, one: (p: Parser) => void): void {
  if (p.kind === RPAREN || p.kind === COMMA) return;
  one(p);
  p.expect(ON);
  if (p.accept(ERROR)) return;
  p.expect(EMPTY);
  if (p.kind === RPAREN || p.kind === COMMA) return;
  one(p);
  p.expect(ON);
  p.expect(ERROR);
}

function valueBehavior(p: Parser): void {
  if (p.kind === ERROR || p.kind === NULL) p.next();
  else {
    p.expect(DEFAULT);
    expression(p);
  }
}

function queryBehavior(p: Parser): void {
  if (p.kind === ERROR || p.kind === NULL) p.next();
  else {
    p.expect(EMPTY);
    p.expectEither(ARRAY, OBJECT);
  }
}

function wrapperAndQuotes(p: Parser): void {
  if (p.kind === WITHOUT || p.kind === WITH) {
    const withWrapper = p.kind === WITH;
    p.next();
    if (withWrapper && (p.kind === CONDITIONAL || p.kind === UNCONDITIONAL)) p.next();
    p.accept(ARRAY);
    p.expect(WRAPPER);
  }
  if (p.kind === KEEP || p.kind === OMIT) {
    p.next();
    p.expect(QUOTES);
    if (p.accept(ON)) {
      p.expect(SCALAR);
      p.expect(TEXT_STRING);
    }
  }
}

/** `KEY? expression VALUE value`, `expression : value`. */
function objectMember(p: Parser): void {
  if (p.kind === KEY && keyIsWord(p)) p.next();
  expression(p);
  if (!p.accept(COLON)) p.expect(VALUE);
  valueExpressionWithFormat(p);
}

/** KEY before an expression; a column of that name has an operator, VALUE or `:` after it. */
function keyIsWord(p: Parser): boolean {
  const next = p.peek(1);
  switch (next) {
    case VALUE:
      return p.peek(2) === VALUE || p.peek(2) === COLON;
    case COLON:
    case DOT:
    case LBRACKET:
    case PLUS:
    case MINUS:
    case ASTERISK:
    case SLASH:
    case PERCENT:
    case CONCAT:
    case ARROW:
    case DOUBLE_COLON:
    case AND:
    case OR:
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
      return false;
    case NOT:
      return p.peek(2) !== BETWEEN && p.peek(2) !== IN && p.peek(2) !== LIKE;
    default:
      return true;
  }
}

/** `JSON_TABLE ( … )`. */
export function jsonTable(p: Parser): void {
  p.next();
  p.expect(LPAREN);
  pathInvocation(p);
  p.expect(COLUMNS);
  columns(p);
  if (p.accept(PLAN)) {
    if (p.kind === DEFAULT) {
      p.next();
      p.expect(LPAREN);
      defaultPlan(p);
    } else {
      p.expect(LPAREN);
      specificPlan(p);
    }
    p.expect(RPAREN);
  }
  if (p.kind === EMPTY || p.kind === ERROR) {
    p.next();
    p.expect(ON);
    p.expect(ERROR);
  }
  p.expect(RPAREN);
}

function columns(p: Parser): void {
  p.enter();
  p.expect(LPAREN);
  column(p);
  while (p.accept(COMMA)) column(p);
  p.expect(RPAREN);
  p.leave();
}

function column(p: Parser): void {
  const next = p.peek(1);
  if (
    p.kind === NESTED &&
    (next === STRING ||
      next === UNICODE_STRING ||
      (next === PATH && (p.peek(2) === STRING || p.peek(2) === UNICODE_STRING)))
  ) {
    p.next();
    p.accept(PATH);
    string(p);
    if (p.accept(AS)) p.identifier();
    p.expect(COLUMNS);
    columns(p);
    return;
  }
  p.identifier();
  if (p.accept(FOR)) {
    p.expect(ORDINALITY);
    return;
  }
  type(p);
  if (p.accept(FORMAT)) {
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
  if (p.kind !== PATH) return;
  p.next();
  if (!atString(p)) throw p.mismatch();
  string(p);
}

function specificPlan(p: Parser): void {
  p.enter();
  const isNamed = p.kind !== LPAREN;
  planPrimary(p);
  if (isNamed && (p.kind === INNER || p.kind === OUTER)) {
    p.next();
    planPrimary(p);
  } else if (p.kind === UNION || p.kind === CROSS) {
    const operator = p.kind;
    while (p.accept(operator)) planPrimary(p);
  } else if (!isNamed) throw p.mismatch();
  p.leave();
}

function planPrimary(p: Parser): void {
  if (p.accept(LPAREN)) {
    specificPlan(p);
    p.expect(RPAREN);
  } else p.identifier();
}

function defaultPlan(p: Parser): void {
  if (p.kind === INNER || p.kind === OUTER) {
    p.next();
    if (p.accept(COMMA)) p.expectEither(UNION, CROSS);
  } else {
    p.expectEither(UNION, CROSS);
    if (p.accept(COMMA)) p.expectEither(INNER, OUTER);
  }
}
