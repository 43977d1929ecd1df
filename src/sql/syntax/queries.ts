import { expression, expressionList, startsExpression } from './expressions.ts';
import { T } from './kinds.ts';
import { integerLiteral, type Parser } from './parser.ts';
import { methodArguments } from './primaries.ts';
import { relation } from './relations.ts';
import { functionSpecification } from './routines.ts';
import { windowDefinition } from './windows.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ALL, ARROW, AS, ASC, ASTERISK, AUTO, BY, COMMA, CORRESPONDING, CUBE, DESC, DISTINCT, DOT, EXCEPT, FETCH,
  FIRST, FROM, FUNCTION, GROUP, GROUPING, HAVING, INTEGER_VALUE, INTERSECT, LAST, LIMIT, LPAREN, MATCH,
  MATCH_RECOGNIZE, NEXT, NULLS, OFFSET, ONLY, ORDER, PIVOT, QUESTION_MARK, RECURSIVE, ROLLUP, ROW, ROWS, RPAREN,
  SELECT, SETS, TABLE, TABLESAMPLE, TIES, UNION, VALUES, WHERE, WINDOW, WITH,
} = T;

/** True for kinds that start a query for sure (a parenthesis may). */
export function atQueryStart(kind: number): boolean {
  return kind === SELECT || kind === WITH || kind === VALUES || kind === TABLE;
}

/** True at what may follow a query's first term: a set operation, ORDER BY and so on. */
export function atQueryContinuation(p: Parser): boolean {
  switch (p.kind) {
    case UNION:
    case EXCEPT:
    case INTERSECT:
    case ORDER:
    case OFFSET:
    case LIMIT:
    case FETCH:
      return true;
    default:
      return false;
  }
}

/** True for words that could be a window's name but also start what follows an alias. */
function mayFollowAlias(kind: number): boolean {
  switch (kind) {
    case LIMIT:
    case OFFSET:
    case FETCH:
    case TABLESAMPLE:
    case PIVOT:
    case MATCH_RECOGNIZE:
    case MATCH:
    case WINDOW:
      return true;
    default:
      return false;
  }
}

/** True if a word that could be an alias starts LIMIT, OFFSET, FETCH or WINDOW, judging by the next tokens. */
export function atQueryClause(p: Parser, offset: number): boolean {
  const next = p.peek(offset + 1);
  switch (p.peek(offset)) {
    case LIMIT:
      return next === INTEGER_VALUE || next === QUESTION_MARK || next === ALL;
    case OFFSET:
      return next === INTEGER_VALUE || next === QUESTION_MARK;
    case FETCH:
      return next === FIRST || next === NEXT;
    case WINDOW:
      return p.atIdentifier(offset + 1) && (p.peek(offset + 2) === AS || !mayFollowAlias(next));
    default:
      return false;
  }
}

/** `rootQuery` of the grammar: a query that may start with its own functions. */
export function rootQuery(p: Parser): void {
  if (p.kind === WITH && p.peek(1) === FUNCTION && p.peek(2) !== AS && p.peek(2) !== LPAREN) {
    p.next();
    functionSpecification(p);
    while (p.accept(COMMA)) functionSpecification(p);
  }
  queryBody(p);
}

/** `query` of the grammar; true if it starts with WITH. Names of its WITH are in scope inside it only. */
export function queryBody(p: Parser): boolean {
  p.enter();
  const hasWith = p.kind === WITH;
  if (hasWith) {
    const bound: string[] = [];
    withClause(p, bound);
    queryNoWith(p);
    p.unbindNames(bound);
  } else queryNoWith(p);
  p.leave();
  return hasWith;
}

function withClause(p: Parser, bound: string[]): void {
  p.next();
  const recursive = p.accept(RECURSIVE);
  do {
    const token = p.pos;
    p.identifier();
    const name = p.identifierValue(token);
    if (recursive) p.bindName(name);
    if (p.kind === LPAREN) columnAliases(p);
    p.expect(AS);
    subquery(p);
    if (!recursive) p.bindName(name);
    bound.push(name);
  } while (p.accept(COMMA));
}

/** `( query )`. */
export function subquery(p: Parser): void {
  p.expect(LPAREN);
  queryBody(p);
  p.expect(RPAREN);
}

function queryNoWith(p: Parser): void {
  queryPrimary(p);
  queryRest(p);
}

/** Set operations, ORDER BY, OFFSET, LIMIT and FETCH after a query's first term. */
export function queryRest(p: Parser): void {
  while (p.kind === UNION || p.kind === EXCEPT || p.kind === INTERSECT) {
    p.next();
    if (p.kind === ALL || p.kind === DISTINCT) p.next();
    if (p.accept(CORRESPONDING) && p.accept(BY)) columnAliases(p);
    queryPrimary(p);
  }
  if (p.kind === ORDER) orderBy(p);
  if (p.accept(OFFSET)) {
    rowCount(p);
    if (p.kind === ROW || p.kind === ROWS) p.next();
  }
  if (p.accept(LIMIT)) {
    if (!p.accept(ALL)) rowCount(p);
  } else if (p.accept(FETCH)) {
    p.expectEither(FIRST, NEXT);
    if (p.kind === INTEGER_VALUE || p.kind === QUESTION_MARK) rowCount(p);
    p.expectEither(ROW, ROWS);
    if (!p.accept(ONLY)) {
      p.expect(WITH);
      p.expect(TIES);
    }
  }
}

function rowCount(p: Parser): void {
  if (p.kind === INTEGER_VALUE) integerLiteral(p, -1);
  else p.expect(QUESTION_MARK);
}

/** `queryPrimary` of the grammar; any number of opening parentheses in a row needs no call for each. */
function queryPrimary(p: Parser): void {
  let open = 0;
  while (p.kind === LPAREN) {
    p.next();
    open += 1;
  }
  switch (p.kind) {
    case SELECT:
      querySpecification(p);
      break;
    case TABLE: {
      p.next();
      const token = p.pos;
      p.relationName(token, p.qualifiedName());
      break;
    }
    case VALUES:
      p.next();
      expressionList(p);
      break;
    default:
      throw p.mismatch();
  }
  for (; open > 0; open -= 1) {
    queryRest(p);
    p.expect(RPAREN);
  }
}

/** `ORDER BY sortItem, …`. */
export function orderBy(p: Parser): void {
  p.expect(ORDER);
  p.expect(BY);
  sortItem(p);
  while (p.accept(COMMA)) sortItem(p);
}

/** `sortItem` of the grammar. */
export function sortItem(p: Parser): void {
  expression(p);
  if (p.kind === ASC || p.kind === DESC) p.next();
  if (p.accept(NULLS)) p.expectEither(FIRST, LAST);
}

function querySpecification(p: Parser): void {
  p.next();
  if (p.kind === DISTINCT || (p.kind === ALL && allIsQuantifier(p))) p.next();
  selectItem(p);
  while (p.accept(COMMA)) selectItem(p);
  if (p.accept(FROM)) {
    relation(p);
    while (p.accept(COMMA)) relation(p);
  }
  if (p.accept(WHERE)) expression(p);
  if (p.kind === GROUP) {
    p.next();
    p.expect(BY);
    groupBy(p);
  }
  if (p.accept(HAVING)) expression(p);
  if (p.accept(WINDOW)) {
    windowDefinition(p);
    while (p.accept(COMMA)) windowDefinition(p);
  }
}

/** ALL after SELECT: the quantifier, unless it is a column. */
function allIsQuantifier(p: Parser): boolean {
  const next = p.peek(1);
  if (atQueryClause(p, 1)) return false;
  if (next !== ASTERISK) return startsExpression(next);
  if (p.peek(2) === WINDOW) return p.peek(4) === AS;
  return !startsExpression(p.peek(2)) || atQueryClause(p, 2);
}

function selectItem(p: Parser): void {
  if (p.kind === ASTERISK) {
    p.next();
    return;
  }
  p.starStart = p.pos;
  expression(p);
  if (p.kind === DOT) {
    p.next();
    if (p.peek(1) === LPAREN) throw starCalled(p);
    p.expect(ASTERISK);
    if (p.accept(AS)) columnAliases(p);
    return;
  }
  if (p.kind === AS) {
    p.next();
    p.identifier();
  } else if (p.atIdentifier() && !atQueryClause(p, 0)) p.identifier();
}

/** The error of `x.*(…)`: the engine's parser reads it as the call of a method, and finds that `*` is no method's name. */
function starCalled(p: Parser): Error {
  const star = p.pos;
  p.next();
  const outer = p.blame(p.pos);
  methodArguments(p);
  p.unblame(outer);
  return p.fail(star, '');
}

/** `( identifier, … )`. */
export function columnAliases(p: Parser): void {
  p.expect(LPAREN);
  p.identifier();
  while (p.accept(COMMA)) p.identifier();
  p.expect(RPAREN);
}

export function groupBy(p: Parser): void {
  if (p.kind === DISTINCT) p.next();
  else if (p.kind === ALL) {
    const next = p.peek(1);
    if (next === ROLLUP || next === CUBE || next === AUTO || startsExpression(next)) p.next();
  }
  groupingElement(p);
  while (p.accept(COMMA)) groupingElement(p);
}

function groupingElement(p: Parser): void {
  switch (p.kind) {
    case AUTO:
      p.next();
      return;
    case ROLLUP:
    case CUBE: {
      const token = p.pos;
      p.next();
      p.expect(LPAREN);
      if (p.kind === RPAREN) p.later(token, 'grouping sets cannot be empty');
      else groupingSets(p);
      p.expect(RPAREN);
      return;
    }
    case GROUPING:
      if (p.peek(1) === SETS) {
        p.next();
        p.next();
        p.expect(LPAREN);
        groupingSets(p);
        p.expect(RPAREN);
        return;
      }
      break;
    default:
  }
  groupingSet(p);
}

function groupingSets(p: Parser): void {
  groupingSet(p);
  while (p.accept(COMMA)) groupingSet(p);
}

function groupingSet(p: Parser): void {
  if (p.kind === LPAREN && p.peek(1) === RPAREN && p.peek(2) !== ARROW) {
    p.next();
    p.next();
  } else if (p.kind === LPAREN) {
    const outer = p.blameSelf();
    expression(p);
    p.unblame(outer);
  } else expression(p);
}
