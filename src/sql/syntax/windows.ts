import { expression, expressionList } from './expressions.ts';
import { T } from './kinds.ts';
import type { Parser } from './parser.ts';
import { measures, rowPattern, skipTo, subsets, variables } from './patterns.ts';
import { orderBy } from './queries.ts';

/** `name AS (specification)` of the WINDOW clause. */
export function windowDefinition(p: Parser): void {
  p.identifier();
  p.expect(T.AS);
  p.expect(T.LPAREN);
  windowSpecification(p);
  p.expect(T.RPAREN);
}

/** `windowSpecification` of the grammar. */
export function windowSpecification(p: Parser): void {
  if (atExistingName(p)) p.identifier();
  if (p.accept(T.PARTITION)) {
    p.expect(T.BY);
    expressionList(p);
  }
  if (p.kind === T.ORDER) orderBy(p);
  if (p.kind !== T.RPAREN) windowFrame(p);
}

/** True if the first word names another window, though it could start a clause. */
function atExistingName(p: Parser): boolean {
  if (!p.atIdentifier()) return false;
  const next = p.peek(1);
  switch (p.kind) {
    case T.PARTITION:
      return next !== T.BY;
    case T.RANGE:
    case T.ROWS:
    case T.GROUPS:
    case T.MEASURES:
      return (
        next === T.RPAREN ||
        next === T.ORDER ||
        (next === T.PARTITION && p.peek(2) === T.BY) ||
        ((next === T.RANGE || next === T.ROWS || next === T.GROUPS) &&
          p.peek(2) !== T.PRECEDING &&
          p.peek(2) !== T.FOLLOWING)
      );
    default:
      return true;
  }
}

function windowFrame(p: Parser): void {
  if (p.accept(T.MEASURES)) measures(p);
  if (p.kind !== T.RANGE && p.kind !== T.ROWS && p.kind !== T.GROUPS) throw p.mismatch();
  p.next();
  if (p.accept(T.BETWEEN)) {
    frameBound(p);
    p.expect(T.AND);
    frameBound(p);
  } else frameBound(p);
  if (p.accept(T.AFTER)) skipTo(p);
  if (p.kind === T.INITIAL || p.kind === T.SEEK) p.next();
  if (p.accept(T.PATTERN)) {
    p.expect(T.LPAREN);
    rowPattern(p);
    p.expect(T.RPAREN);
  }
  if (p.accept(T.SUBSET)) subsets(p);
  if (p.accept(T.DEFINE)) variables(p);
}

function frameBound(p: Parser): void {
  if (p.kind === T.CURRENT && p.peek(1) === T.ROW) {
    p.next();
    p.next();
    return;
  }
  if (p.kind === T.UNBOUNDED && (p.peek(1) === T.PRECEDING || p.peek(1) === T.FOLLOWING)) p.next();
  else expression(p);
  p.expectEither(T.PRECEDING, T.FOLLOWING);
}
