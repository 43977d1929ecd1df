import { expression, expressionList } from './expressions.ts';
import { T } from './kinds.ts';
import type { Parser } from './parser.ts';
import { columnAliases, orderBy } from './queries.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  AFTER, ALL, AS, ASTERISK, BAR, BY, CARET, COMMA, DEFINE, DOLLAR, EMPTY, EQ, FIRST, INITIAL, INTEGER_VALUE,
  LAST, LBRACE, LEXCLUDE, LPAREN, MATCH, MATCHES, MEASURES, NEXT, OMIT, ONE, ORDER, PARTITION, PAST, PATTERN,
  PER, PERMUTE, PLUS, QUESTION_MARK, RBRACE, REXCLUDE, ROW, ROWS, RPAREN, SEEK, SHOW, SKIP, SUBSET, TO,
  UNMATCHED, WITH,
} = T;

/** Row pattern recognition: MATCH_RECOGNIZE and what windows share with it. */

/** `MATCH_RECOGNIZE ( … )`. */
export function matchRecognize(p: Parser): void {
  p.next();
  p.expect(LPAREN);
  if (p.accept(PARTITION)) {
    p.expect(BY);
    expressionList(p);
  }
  if (p.kind === ORDER) orderBy(p);
  if (p.accept(MEASURES)) measures(p);
  rowsPerMatch(p);
  if (p.accept(AFTER)) skipTo(p);
  if (p.kind === INITIAL || p.kind === SEEK) p.next();
  p.expect(PATTERN);
  p.expect(LPAREN);
  rowPattern(p);
  p.expect(RPAREN);
  if (p.accept(SUBSET)) subsets(p);
  p.expect(DEFINE);
  variables(p);
  p.expect(RPAREN);
}

/** `expression AS name, …` after MEASURES. */
export function measures(p: Parser): void {
  do {
    expression(p);
    p.expect(AS);
    p.identifier();
  } while (p.accept(COMMA));
}

function rowsPerMatch(p: Parser): void {
  if (p.accept(ONE)) {
    p.expect(ROW);
    p.expect(PER);
    p.expect(MATCH);
    return;
  }
  if (!p.accept(ALL)) return;
  p.expect(ROWS);
  p.expect(PER);
  p.expect(MATCH);
  if (p.kind === SHOW || p.kind === OMIT) {
    p.next();
    p.expect(EMPTY);
    p.expect(MATCHES);
  } else if (p.accept(WITH)) {
    p.expect(UNMATCHED);
    p.expect(ROWS);
  }
}

/** `MATCH SKIP …` after AFTER. */
export function skipTo(p: Parser): void {
  p.expect(MATCH);
  p.expect(SKIP);
  if (p.accept(PAST)) {
    p.expect(LAST);
    p.expect(ROW);
    return;
  }
  p.expect(TO);
  if (p.kind === NEXT && p.peek(1) === ROW) {
    p.next();
    p.next();
    return;
  }
  if ((p.kind === FIRST || p.kind === LAST) && nameFollows(p)) p.next();
  p.identifier();
}

/** True if the word after FIRST or LAST is the variable, not the clause after one named so. */
function nameFollows(p: Parser): boolean {
  if (!p.atIdentifier(1)) return false;
  switch (p.peek(1)) {
    case INITIAL:
    case SEEK:
    case PATTERN:
    case SUBSET:
    case DEFINE: {
      const next = p.peek(2);
      return next === PATTERN || next === INITIAL || next === SEEK || next === RPAREN || next === DEFINE;
    }
    default:
      return true;
  }
}

/** `name = (name, …), …` after SUBSET. */
export function subsets(p: Parser): void {
  do {
    p.identifier();
    p.expect(EQ);
    columnAliases(p);
  } while (p.accept(COMMA));
}

/** `name AS expression, …` after DEFINE. */
export function variables(p: Parser): void {
  do {
    p.identifier();
    p.expect(AS);
    expression(p);
  } while (p.accept(COMMA));
}

/** `rowPattern` of the grammar: alternatives of sequences. */
export function rowPattern(p: Parser): void {
  p.enter();
  patternPrimary(p);
  for (;;) {
    if (p.kind === BAR) {
      p.next();
      patternPrimary(p);
    } else if (atPatternPrimary(p)) patternPrimary(p);
    else break;
  }
  p.leave();
}

function atPatternPrimary(p: Parser): boolean {
  return p.atIdentifier() || p.kind === LPAREN || p.kind === CARET || p.kind === DOLLAR || p.kind === LEXCLUDE;
}

function patternPrimary(p: Parser): void {
  switch (p.kind) {
    case LPAREN:
      p.next();
      if (p.kind !== RPAREN) rowPattern(p);
      p.expect(RPAREN);
      break;
    case CARET:
    case DOLLAR:
      p.next();
      break;
    case LEXCLUDE:
      p.next();
      rowPattern(p);
      p.expect(REXCLUDE);
      break;
    case PERMUTE:
      if (p.peek(1) === LPAREN) {
        p.next();
        p.next();
        // `permute ()` is the variable of that name and an empty pattern.
        if (p.kind !== RPAREN) {
          rowPattern(p);
          while (p.accept(COMMA)) rowPattern(p);
        }
        p.expect(RPAREN);
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
    case ASTERISK:
    case PLUS:
    case QUESTION_MARK:
      p.next();
      break;
    case LBRACE:
      p.next();
      if (p.accept(INTEGER_VALUE)) {
        if (p.accept(COMMA)) p.accept(INTEGER_VALUE);
      } else {
        p.expect(COMMA);
        p.accept(INTEGER_VALUE);
      }
      p.expect(RBRACE);
      break;
    default:
      return;
  }
  p.accept(QUESTION_MARK);
}
