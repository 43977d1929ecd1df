import { expression, expressionList } from './expressions.ts';
import { T } from './kinds.ts';
import type { Parser } from './parser.ts';
import { measures, rowPattern, skipTo, subsets, variables } from './patterns.ts';
import { orderBy } from './queries.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  AFTER, AND, AS, BETWEEN, BY, CURRENT, DEFINE, FOLLOWING, GROUPS, INITIAL, LPAREN, MEASURES, ORDER, PARTITION,
  PATTERN, PRECEDING, RANGE, ROW, ROWS, RPAREN, SEEK, SUBSET, UNBOUNDED,
} = T;

/** `name AS (specification)` of the WINDOW clause. */
export function windowDefinition(p: Parser): void {
  p.identifier();
  p.expect(AS);
  p.expect(LPAREN);
  windowSpecification(p);
  p.expect(RPAREN);
}

/** `windowSpecification` of the grammar. */
export function windowSpecification(p: Parser): void {
  if (atExistingName(p)) p.identifier();
  if (p.accept(PARTITION)) {
    p.expect(BY);
    expressionList(p);
  }
  if (p.kind === ORDER) orderBy(p);
  if (p.kind !== RPAREN) windowFrame(p);
}

/** True if the first word names another window, though it could start a clause. */
function atExistingName(p: Parser): boolean {
  if (!p.atIdentifier()) return false;
  const next = p.peek(1);
  switch (p.kind) {
    case PARTITION:
      return next !== BY;
    case RANGE:
    case ROWS:
    case GROUPS:
    case MEASURES:
      return (
        next === RPAREN ||
        next === ORDER ||
        (next === PARTITION && p.peek(2) === BY) ||
        ((next === RANGE || next === ROWS || next === GROUPS) && p.peek(2) !== PRECEDING && p.peek(2) !== FOLLOWING)
      );
    default:
      return true;
  }
}

function windowFrame(p: Parser): void {
  if (p.accept(MEASURES)) measures(p);
  if (p.kind !== RANGE && p.kind !== ROWS && p.kind !== GROUPS) throw p.mismatch();
  p.next();
  if (p.accept(BETWEEN)) {
    frameBound(p);
    p.expect(AND);
    frameBound(p);
  } else frameBound(p);
  if (p.accept(AFTER)) skipTo(p);
  if (p.kind === INITIAL || p.kind === SEEK) p.next();
  if (p.accept(PATTERN)) {
    p.expect(LPAREN);
    rowPattern(p);
    p.expect(RPAREN);
  }
  if (p.accept(SUBSET)) subsets(p);
  if (p.accept(DEFINE)) variables(p);
}

function frameBound(p: Parser): void {
  if (p.kind === CURRENT && p.peek(1) === ROW) {
    p.next();
    p.next();
    return;
  }
  if (p.kind === UNBOUNDED && (p.peek(1) === PRECEDING || p.peek(1) === FOLLOWING)) p.next();
  else expression(p);
  p.expectEither(PRECEDING, FOLLOWING);
}
