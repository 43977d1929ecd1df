import { expression, expressionList } from './expressions.ts';
import { T } from './kinds.ts';
import type { Parser } from './parser.ts';
import { columnAliases, orderBy } from './queries.ts';

/** Row pattern recognition: MATCH_RECOGNIZE and what windows share with it. */

/** `MATCH_RECOGNIZE ( … )`. */
export function matchRecognize(p: Parser): void {
  p.next();
  p.expect(T.LPAREN);
  if (p.accept(T.PARTITION)) {
    p.expect(T.BY);
    expressionList(p);
  }
  if (p.kind === T.ORDER) orderBy(p);
  if (p.accept(T.MEASURES)) measures(p);
  rowsPerMatch(p);
  if (p.accept(T.AFTER)) skipTo(p);
  if (p.kind === T.INITIAL || p.kind === T.SEEK) p.next();
  p.expect(T.PATTERN);
  p.expect(T.LPAREN);
  rowPattern(p);
  p.expect(T.RPAREN);
  if (p.accept(T.SUBSET)) subsets(p);
  p.expect(T.DEFINE);
  variables(p);
  p.expect(T.RPAREN);
}

/** `expression AS name, …` after MEASURES. */
export function measures(p: Parser): void {
  do {
    expression(p);
    p.expect(T.AS);
    p.identifier();
  } while (p.accept(T.COMMA));
}

function rowsPerMatch(p: Parser): void {
  if (p.accept(T.ONE)) {
    p.expect(T.ROW);
    p.expect(T.PER);
    p.expect(T.MATCH);
    return;
  }
  if (!p.accept(T.ALL)) return;
  p.expect(T.ROWS);
  p.expect(T.PER);
  p.expect(T.MATCH);
  if (p.kind === T.SHOW || p.kind === T.OMIT) {
    p.next();
    p.expect(T.EMPTY);
    p.expect(T.MATCHES);
  } else if (p.accept(T.WITH)) {
    p.expect(T.UNMATCHED);
    p.expect(T.ROWS);
  }
}

/** `MATCH SKIP …` after AFTER. */
export function skipTo(p: Parser): void {
  p.expect(T.MATCH);
  p.expect(T.SKIP);
  if (p.accept(T.PAST)) {
    p.expect(T.LAST);
    p.expect(T.ROW);
    return;
  }
  p.expect(T.TO);
  if (p.kind === T.NEXT && p.peek(1) === T.ROW) {
    p.next();
    p.next();
    return;
  }
  if ((p.kind === T.FIRST || p.kind === T.LAST) && nameFollows(p)) p.next();
  p.identifier();
}

/** True if the word after FIRST or LAST is the variable, not the clause after one named so. */
function nameFollows(p: Parser): boolean {
  if (!p.atIdentifier(1)) return false;
  switch (p.peek(1)) {
    case T.INITIAL:
    case T.SEEK:
    case T.PATTERN:
    case T.SUBSET:
    case T.DEFINE: {
      const next = p.peek(2);
      return next === T.PATTERN || next === T.INITIAL || next === T.SEEK || next === T.RPAREN || next === T.DEFINE;
    }
    default:
      return true;
  }
}

/** `name = (name, …), …` after SUBSET. */
export function subsets(p: Parser): void {
  do {
    p.identifier();
    p.expect(T.EQ);
    columnAliases(p);
  } while (p.accept(T.COMMA));
}

/** `name AS expression, …` after DEFINE. */
export function variables(p: Parser): void {
  do {
    p.identifier();
    p.expect(T.AS);
    expression(p);
  } while (p.accept(T.COMMA));
}

/** `rowPattern` of the grammar: alternatives of sequences. */
export function rowPattern(p: Parser): void {
  p.enter();
  patternPrimary(p);
  for (;;) {
    if (p.kind === T.BAR) {
      p.next();
      patternPrimary(p);
    } else if (atPatternPrimary(p)) patternPrimary(p);
    else break;
  }
  p.leave();
}

function atPatternPrimary(p: Parser): boolean {
  return p.atIdentifier() || p.kind === T.LPAREN || p.kind === T.CARET || p.kind === T.DOLLAR || p.kind === T.LEXCLUDE;
}

function patternPrimary(p: Parser): void {
  switch (p.kind) {
    case T.LPAREN:
      p.next();
      if (p.kind !== T.RPAREN) rowPattern(p);
      p.expect(T.RPAREN);
      break;
    case T.CARET:
    case T.DOLLAR:
      p.next();
      break;
    case T.LEXCLUDE:
      p.next();
      rowPattern(p);
      p.expect(T.REXCLUDE);
      break;
    case T.PERMUTE:
      if (p.peek(1) === T.LPAREN) {
        p.next();
        p.next();
        // `permute ()` is the variable of that name and an empty pattern.
        if (p.kind !== T.RPAREN) {
          rowPattern(p);
          while (p.accept(T.COMMA)) rowPattern(p);
        }
        p.expect(T.RPAREN);
        break;
      }
      p.identifier();
      break;
    default:
      p.identifier();
  }
  patternQuantifier(p);
}

function patternQuantifier(p: Parser): void {
  switch (p.kind) {
    case T.ASTERISK:
    case T.PLUS:
    case T.QUESTION_MARK:
      p.next();
      break;
    case T.LBRACE:
      p.next();
      if (p.accept(T.INTEGER_VALUE)) {
        if (p.accept(T.COMMA)) p.accept(T.INTEGER_VALUE);
      } else {
        p.expect(T.COMMA);
        p.accept(T.INTEGER_VALUE);
      }
      p.expect(T.RBRACE);
      break;
    default:
      return;
  }
  p.accept(T.QUESTION_MARK);
}
