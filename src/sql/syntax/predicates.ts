import { expression, Shape, startsExpression, valueExpression, valueTail } from './expressions.ts';
import { T } from './kinds.ts';
import { expressionOrQuery } from './parentheses.ts';
import type { Parser } from './parser.ts';
import { atQueryStart, subquery } from './queries.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ALL, AND, ANY, ASYMMETRIC, BETWEEN, COMMA, DISTINCT, EQ, ESCAPE, FALSE, FROM, FULL, GT, GTE, IN, IS, LIKE,
  LPAREN, LT, LTE, MATCH, NEQ, NOT, NULL, OVERLAPS, PARTIAL, RPAREN, SIMPLE, SOME, SYMMETRIC, TRUE, UNIQUE,
  UNKNOWN, WITH,
} = T;

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
