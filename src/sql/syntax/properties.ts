import { expression } from './expressions.ts';
import { T } from './kinds.ts';
import type { Parser } from './parser.ts';

const { COMMA, EQ, LPAREN, RPAREN, WITH } = T;

/** `properties` of the grammar: assignments in parentheses. */
export function properties(p: Parser): void {
  p.expect(LPAREN);
  propertyAssignments(p);
  p.expect(RPAREN);
}

/** `name = value, …`. */
export function propertyAssignments(p: Parser): void {
  do {
    p.identifier();
    p.expect(EQ);
    // DEFAULT alone is the default, but it may be a column too.
    expression(p);
  } while (p.accept(COMMA));
}

/** `WITH (property = value, …)`, optional. */
export function withProperties(p: Parser): void {
  if (p.accept(WITH)) properties(p);
}
