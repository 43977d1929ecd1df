import { expression, expressionRest, Shape } from './expressions.ts';
import { T } from './kinds.ts';
import type { Parser } from './parser.ts';
import { atQueryContinuation, atQueryStart, queryBody, queryRest } from './queries.ts';

const { ARROW, COMMA, LPAREN, RPAREN } = T;

/**
 * Content of parentheses that may contain a query or expressions. Returns `query` for a query that ends here (a closing
 * parenthesis must follow), another shape for the first expression.
 */
export function expressionOrQuery(p: Parser): number {
  if (atQueryStart(p.kind)) {
    queryBody(p);
    return Shape.query;
  }
  if (p.kind !== LPAREN) return expression(p);
  const shape = parenthesized(p);
  if (shape === Shape.query) {
    if (p.kind === RPAREN) return Shape.query;
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
    p.expect(RPAREN);
    return shape;
  }
  const outer = p.blameSelf();
  const shape = parenthesizedMore(p);
  p.unblame(outer);
  return shape;
}

function parenthesizedMore(p: Parser): number {
  let open = 0;
  while (p.kind === LPAREN) {
    p.next();
    open += 1;
  }
  let shape: number;
  if (atQueryStart(p.kind)) {
    shape = queryBody(p) ? Shape.primary : Shape.query;
    p.expect(RPAREN);
  } else if (p.kind === RPAREN) {
    p.next();
    p.expect(ARROW);
    expression(p);
    shape = Shape.condition;
  } else {
    let onlyNames = expression(p) === Shape.identifier;
    while (p.accept(COMMA)) if (expression(p) !== Shape.identifier) onlyNames = false;
    p.expect(RPAREN);
    shape = Shape.primary;
    if (onlyNames && p.kind === ARROW) {
      p.next();
      expression(p);
      shape = Shape.condition;
    }
  }
  for (open -= 1; open > 0; open -= 1) {
    if (shape !== Shape.query || p.kind !== RPAREN) {
      if (shape === Shape.query && atQueryContinuation(p)) queryRest(p);
      else {
        expressionRest(p);
        while (p.accept(COMMA)) expression(p);
        shape = Shape.primary;
      }
    }
    p.expect(RPAREN);
  }
  return shape;
}
