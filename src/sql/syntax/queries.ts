import { expression, expressionList, startsExpression } from './expressions.ts';
import { T } from './kinds.ts';
import { integer } from './literals.ts';
import type { Parser } from './parser.ts';
import { implicitAlias, relation } from './relations.ts';
import { functionSpecification } from './routines.ts';
import { windowDefinition } from './windows.ts';

/** True for kinds that start a query for sure (a parenthesis may). */
export function atQueryStart(kind: number): boolean {
  return kind === T.SELECT || kind === T.WITH || kind === T.VALUES || kind === T.TABLE;
}

/** True at what may follow a query's first term: a set operation, ORDER BY and so on. */
export function atQueryContinuation(p: Parser): boolean {
  switch (p.kind) {
    case T.UNION:
    case T.EXCEPT:
    case T.INTERSECT:
    case T.ORDER:
    case T.OFFSET:
    case T.LIMIT:
    case T.FETCH:
      return true;
    default:
      return false;
  }
}

/** True if a word that could be an alias starts LIMIT, OFFSET, FETCH or WINDOW, going by what follows it. */
export function atQueryClause(p: Parser, offset: number): boolean {
  const next = p.peek(offset + 1);
  switch (p.peek(offset)) {
    case T.LIMIT:
      return next === T.INTEGER_VALUE || next === T.QUESTION_MARK || next === T.ALL;
    case T.OFFSET:
      return next === T.INTEGER_VALUE || next === T.QUESTION_MARK;
    case T.FETCH:
      return next === T.FIRST || next === T.NEXT;
    case T.WINDOW:
      return p.atIdentifier(offset + 1) && p.peek(offset + 2) === T.AS;
    default:
      return false;
  }
}

/** `rootQuery` of the grammar: a query that may start with functions of its own. */
export function rootQuery(p: Parser): void {
  if (p.kind === T.WITH && p.peek(1) === T.FUNCTION && p.peek(2) !== T.AS && p.peek(2) !== T.LPAREN) {
    p.next();
    functionSpecification(p);
    while (p.accept(T.COMMA)) functionSpecification(p);
  }
  queryBody(p);
}

/** `query` of the grammar; true when it starts with WITH. Names of its WITH are in scope inside it only. */
export function queryBody(p: Parser): boolean {
  p.enter();
  const hasWith = p.kind === T.WITH;
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
  const recursive = p.accept(T.RECURSIVE);
  do {
    const token = p.pos;
    p.identifier();
    const name = p.identifierValue(token);
    if (recursive) p.bindName(name);
    if (p.kind === T.LPAREN) columnAliases(p);
    p.expect(T.AS);
    subquery(p);
    if (!recursive) p.bindName(name);
    bound.push(name);
  } while (p.accept(T.COMMA));
}

/** `( query )`. */
export function subquery(p: Parser): void {
  p.expect(T.LPAREN);
  queryBody(p);
  p.expect(T.RPAREN);
}

function queryNoWith(p: Parser): void {
  queryPrimary(p);
  queryRest(p);
}

/** Set operations, ORDER BY, OFFSET, LIMIT and FETCH after a query's first term. */
export function queryRest(p: Parser): void {
  while (p.kind === T.UNION || p.kind === T.EXCEPT || p.kind === T.INTERSECT) {
    p.next();
    if (p.kind === T.ALL || p.kind === T.DISTINCT) p.next();
    if (p.accept(T.CORRESPONDING) && p.accept(T.BY)) columnAliases(p);
    queryPrimary(p);
  }
  if (p.kind === T.ORDER) orderBy(p);
  if (p.accept(T.OFFSET)) {
    rowCount(p);
    if (p.kind === T.ROW || p.kind === T.ROWS) p.next();
  }
  if (p.accept(T.LIMIT)) {
    if (!p.accept(T.ALL)) rowCount(p);
  } else if (p.accept(T.FETCH)) {
    p.expectEither(T.FIRST, T.NEXT);
    if (p.kind === T.INTEGER_VALUE || p.kind === T.QUESTION_MARK) rowCount(p);
    p.expectEither(T.ROW, T.ROWS);
    if (!p.accept(T.ONLY)) {
      p.expect(T.WITH);
      p.expect(T.TIES);
    }
  }
}

function rowCount(p: Parser): void {
  if (p.kind === T.INTEGER_VALUE) integer(p, -1);
  else p.expect(T.QUESTION_MARK);
}

/** `queryPrimary` of the grammar; any number of opening parentheses in a row needs no call for each. */
function queryPrimary(p: Parser): void {
  let open = 0;
  while (p.kind === T.LPAREN) {
    p.next();
    open += 1;
  }
  switch (p.kind) {
    case T.SELECT:
      querySpecification(p);
      break;
    case T.TABLE: {
      p.next();
      const token = p.pos;
      p.relationName(token, p.qualifiedName());
      break;
    }
    case T.VALUES:
      p.next();
      expressionList(p);
      break;
    default:
      throw p.mismatch();
  }
  for (; open > 0; open -= 1) {
    queryRest(p);
    p.expect(T.RPAREN);
  }
}

/** `ORDER BY sortItem, …`. */
export function orderBy(p: Parser): void {
  p.expect(T.ORDER);
  p.expect(T.BY);
  sortItem(p);
  while (p.accept(T.COMMA)) sortItem(p);
}

/** `sortItem` of the grammar. */
export function sortItem(p: Parser): void {
  expression(p);
  if (p.kind === T.ASC || p.kind === T.DESC) p.next();
  if (p.accept(T.NULLS)) p.expectEither(T.FIRST, T.LAST);
}

function querySpecification(p: Parser): void {
  p.next();
  if (p.kind === T.DISTINCT || (p.kind === T.ALL && allIsQuantifier(p))) p.next();
  selectItem(p);
  while (p.accept(T.COMMA)) selectItem(p);
  if (p.accept(T.FROM)) {
    relation(p);
    while (p.accept(T.COMMA)) relation(p);
  }
  if (p.accept(T.WHERE)) expression(p);
  if (p.kind === T.GROUP) {
    p.next();
    p.expect(T.BY);
    groupBy(p);
  }
  if (p.accept(T.HAVING)) expression(p);
  if (p.kind === T.WINDOW && p.atIdentifier(1)) {
    p.next();
    windowDefinition(p);
    while (p.accept(T.COMMA)) windowDefinition(p);
  }
}

/** ALL after SELECT: the quantifier, unless it is a column. */
function allIsQuantifier(p: Parser): boolean {
  const next = p.peek(1);
  if (next !== T.ASTERISK) return startsExpression(next);
  return !startsExpression(p.peek(2)) || atQueryClause(p, 2);
}

function selectItem(p: Parser): void {
  if (p.kind === T.ASTERISK) {
    p.next();
    return;
  }
  p.starStart = p.pos;
  expression(p);
  if (p.kind === T.DOT) {
    p.next();
    p.expect(T.ASTERISK);
    if (p.accept(T.AS)) columnAliases(p);
    return;
  }
  if (p.kind === T.AS) {
    p.next();
    p.identifier();
  } else implicitAlias(p);
}

/** `( identifier, … )`. */
export function columnAliases(p: Parser): void {
  p.expect(T.LPAREN);
  p.identifier();
  while (p.accept(T.COMMA)) p.identifier();
  p.expect(T.RPAREN);
}

/** What follows GROUP BY. */
export function groupBy(p: Parser): void {
  if (p.kind === T.DISTINCT) p.next();
  else if (p.kind === T.ALL) {
    const next = p.peek(1);
    if (next === T.ROLLUP || next === T.CUBE || next === T.AUTO || startsExpression(next)) p.next();
  }
  groupingElement(p);
  while (p.accept(T.COMMA)) groupingElement(p);
}

function groupingElement(p: Parser): void {
  switch (p.kind) {
    case T.AUTO:
      p.next();
      return;
    case T.ROLLUP:
    case T.CUBE: {
      const token = p.pos;
      p.next();
      p.expect(T.LPAREN);
      if (p.kind === T.RPAREN) p.later(token, 'grouping sets cannot be empty');
      else groupingSets(p);
      p.expect(T.RPAREN);
      return;
    }
    case T.GROUPING:
      if (p.peek(1) === T.SETS) {
        p.next();
        p.next();
        p.expect(T.LPAREN);
        groupingSets(p);
        p.expect(T.RPAREN);
        return;
      }
      break;
    default:
  }
  groupingSet(p);
}

function groupingSets(p: Parser): void {
  groupingSet(p);
  while (p.accept(T.COMMA)) groupingSet(p);
}

function groupingSet(p: Parser): void {
  if (p.kind === T.LPAREN && p.peek(1) === T.RPAREN && p.peek(2) !== T.ARROW) {
    p.next();
    p.next();
  } else if (p.kind === T.LPAREN) {
    const outer = p.blameSelf();
    expression(p);
    p.unblame(outer);
  } else expression(p);
}
