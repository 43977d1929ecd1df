import { argument, expression, expressionList, valueExpression } from './expressions.ts';
import { jsonTable } from './json.ts';
import { LAST_IDENTIFIER, T } from './kinds.ts';
import { NameRole, type Parser } from './parser.ts';
import { matchRecognize } from './patterns.ts';
import {
  atQueryClause,
  atQueryContinuation,
  atQueryStart,
  columnAliases,
  groupBy,
  queryBody,
  queryRest,
  sortItem,
  subquery,
} from './queries.ts';
import { type } from './types.ts';

/** `relation` of the grammar: joins of sampled relations. */
export function relation(p: Parser): void {
  p.enter();
  sampledRelation(p);
  joins(p);
  p.leave();
}

function joins(p: Parser): void {
  for (;;) {
    switch (p.kind) {
      case T.CROSS:
        p.next();
        p.expect(T.JOIN);
        sampledRelation(p);
        break;
      case T.NATURAL:
        p.next();
        joinType(p);
        p.expect(T.JOIN);
        sampledRelation(p);
        break;
      case T.JOIN:
      case T.INNER:
      case T.LEFT:
      case T.RIGHT:
      case T.FULL:
        joinType(p);
        p.expect(T.JOIN);
        relation(p);
        if (p.accept(T.USING)) columnAliases(p);
        else {
          p.expect(T.ON);
          expression(p);
        }
        break;
      default:
        return;
    }
  }
}

function joinType(p: Parser): void {
  if (p.accept(T.INNER)) return;
  if (p.kind === T.LEFT || p.kind === T.RIGHT || p.kind === T.FULL) {
    p.next();
    p.accept(T.OUTER);
  }
}

function sampledRelation(p: Parser): void {
  relationPrimary(p);
  relationSuffixes(p);
}

/** Alias, MATCH_RECOGNIZE, PIVOT and TABLESAMPLE after a relation's primary. */
function relationSuffixes(p: Parser): void {
  relationAlias(p);
  if (p.kind === T.MATCH_RECOGNIZE) {
    matchRecognize(p);
    relationAlias(p);
  }
  if (p.kind === T.PIVOT) {
    pivot(p);
    relationAlias(p);
  }
  if (p.kind === T.TABLESAMPLE) {
    p.next();
    p.expectEither(T.BERNOULLI, T.SYSTEM);
    p.expect(T.LPAREN);
    expression(p);
    p.expect(T.RPAREN);
  }
}

/** `(AS? identifier columnAliases?)?`. */
function relationAlias(p: Parser): void {
  if (p.kind === T.AS) {
    p.next();
    p.identifier();
  } else if (!implicitAlias(p)) return;
  if (p.kind === T.LPAREN) columnAliases(p);
}

/** Takes an alias without AS, if the token is one: words that start a clause are not where that clause goes on. */
export function implicitAlias(p: Parser): boolean {
  const kind = p.kind;
  if (kind === T.IDENTIFIER) {
    p.next();
    return true;
  }
  if (!p.atIdentifier()) return false;
  const next = p.peek(1);
  if (atQueryClause(p, 0)) return false;
  switch (kind) {
    case T.TABLESAMPLE:
      if (next === T.BERNOULLI || next === T.SYSTEM) return false;
      break;
    case T.MATCH_RECOGNIZE:
      if (next === T.LPAREN && !columnsFollow(p) && startsMatchRecognize(p.peek(2))) return false;
      break;
    case T.PIVOT:
      if (next === T.LPAREN && !columnsFollow(p)) return false;
      break;
    case T.PARTITION:
      if (next === T.BY) return false;
      break;
    case T.PRUNE:
    case T.KEEP:
      if (next === T.WHEN) return false;
      break;
    case T.MATCH:
      if (p.inNearest && next !== T.MATCH && next !== T.WHERE) return false;
      break;
    default:
  }
  p.identifier();
  return true;
}

/** True for what may stand after the parenthesis of MATCH_RECOGNIZE. */
function startsMatchRecognize(kind: number): boolean {
  switch (kind) {
    case T.PARTITION:
    case T.MEASURES:
    case T.ONE:
    case T.ALL:
    case T.AFTER:
    case T.INITIAL:
    case T.SEEK:
    case T.PATTERN:
      return true;
    default:
      return kind === T.EOF || kind > LAST_IDENTIFIER;
  }
}

/** True if the parenthesis after the token holds nothing but a list of names. */
function columnsFollow(p: Parser): boolean {
  let at = p.pos + 2;
  for (;;) {
    const name = p.kinds[at] as number;
    if (name === T.EOF || !p.atIdentifier(at - p.pos)) return false;
    const follower = p.kinds[at + 1];
    if (follower === T.RPAREN) return true;
    if (follower !== T.COMMA) return false;
    at += 2;
  }
}

function relationPrimary(p: Parser): void {
  const next = p.peek(1);
  switch (p.kind) {
    case T.IDENTIFIER:
      break;
    case T.LPAREN:
      parenthesizedRelation(p);
      return;
    case T.UNNEST:
      p.next();
      p.expect(T.LPAREN);
      expressionList(p);
      p.expect(T.RPAREN);
      if (p.kind === T.WITH && p.peek(1) === T.ORDINALITY) {
        p.next();
        p.next();
      }
      return;
    case T.LATERAL:
      if (next === T.LPAREN) {
        p.next();
        subquery(p);
        return;
      }
      break;
    case T.TABLE:
      p.next();
      p.expect(T.LPAREN);
      tableFunctionCall(p);
      p.expect(T.RPAREN);
      return;
    case T.JSON_TABLE:
      jsonTable(p);
      return;
    case T.NEAREST:
      if (next === T.LPAREN) {
        nearest(p);
        return;
      }
      break;
    default:
  }
  const token = p.pos;
  p.relationName(token, p.qualifiedName());
  if (p.kind === T.FOR) {
    p.next();
    p.expectEither(T.TIMESTAMP, T.VERSION);
    p.expect(T.AS);
    p.expect(T.OF);
    valueExpression(p);
  }
}

/** A query or a relation in any number of parentheses. */
function parenthesizedRelation(p: Parser): void {
  let open = 0;
  while (p.kind === T.LPAREN) {
    p.next();
    open += 1;
  }
  /** A parenthesised query without WITH, which may go on as a query. */
  let isQuery = false;
  if (atQueryStart(p.kind) && !(p.kind === T.TABLE && p.peek(1) === T.LPAREN)) isQuery = !queryBody(p);
  else relation(p);
  p.expect(T.RPAREN);
  for (open -= 1; open > 0; open -= 1) {
    if (!isQuery || p.kind !== T.RPAREN) {
      if (isQuery && atQueryContinuation(p) && !(p.atIdentifier() && !atQueryClause(p, 0))) queryRest(p);
      else {
        relationSuffixes(p);
        joins(p);
        isQuery = false;
      }
    }
    p.expect(T.RPAREN);
  }
}

function nearest(p: Parser): void {
  p.next();
  p.next();
  p.expect(T.FROM);
  const outer = p.inNearest;
  p.inNearest = true;
  relation(p);
  if (p.accept(T.WHERE)) expression(p);
  p.inNearest = outer;
  p.expect(T.MATCH);
  expression(p);
  p.expect(T.RPAREN);
}

function pivot(p: Parser): void {
  p.next();
  p.expect(T.LPAREN);
  do {
    expression(p);
    if (p.accept(T.AS)) p.identifier();
    else implicitAlias(p);
  } while (p.accept(T.COMMA));
  p.expect(T.FOR);
  if (p.accept(T.LPAREN)) {
    p.qualifiedName();
    while (p.accept(T.COMMA)) p.qualifiedName();
    p.expect(T.RPAREN);
  } else p.qualifiedName();
  p.expect(T.IN);
  p.expect(T.LPAREN);
  do {
    expression(p);
    if (p.accept(T.AS)) p.identifier();
    else implicitAlias(p);
  } while (p.accept(T.COMMA));
  p.expect(T.RPAREN);
  if (p.accept(T.GROUP)) {
    p.expect(T.BY);
    groupBy(p);
  }
  p.expect(T.RPAREN);
}

function tableFunctionCall(p: Parser): void {
  p.namedObject(NameRole.table);
  p.expect(T.LPAREN);
  if (p.kind !== T.RPAREN && !atCopartition(p)) {
    tableFunctionArgument(p);
    while (p.accept(T.COMMA)) tableFunctionArgument(p);
  }
  if (p.accept(T.COPARTITION)) {
    do {
      p.expect(T.LPAREN);
      p.qualifiedName();
      p.expect(T.COMMA);
      do p.qualifiedName();
      while (p.accept(T.COMMA));
      p.expect(T.RPAREN);
    } while (p.accept(T.COMMA));
  }
  p.expect(T.RPAREN);
}

/** COPARTITION without arguments before it; a call of a function of that name has one argument or `)` after it. */
function atCopartition(p: Parser): boolean {
  return p.kind === T.COPARTITION && p.peek(1) === T.LPAREN && p.peek(3) === T.DOT;
}

function tableFunctionArgument(p: Parser): void {
  if (p.peek(1) === T.DOUBLE_ARROW && p.atIdentifier()) {
    p.identifier();
    p.next();
  }
  if (p.kind === T.TABLE) tableArgument(p);
  else if (p.kind === T.DESCRIPTOR && p.peek(1) === T.LPAREN && p.atIdentifier(2)) descriptor(p);
  else argument(p);
}

/** `DESCRIPTOR(a, b int)`; where a field is no name with or without a type, it is a call. */
function descriptor(p: Parser): void {
  const follower = p.peek(3);
  if (follower !== T.COMMA && follower !== T.RPAREN && !p.atIdentifier(3)) {
    expression(p);
    return;
  }
  p.next();
  p.next();
  do {
    p.identifier();
    if (p.atIdentifier()) type(p);
  } while (p.accept(T.COMMA));
  p.expect(T.RPAREN);
}

const COPARTITION_ALIAS =
  'The word "COPARTITION" is ambiguous in this context. To alias an argument, precede the alias with "AS". To specify co-partitioning, change the argument order so that the last argument cannot be aliased.';

function tableArgument(p: Parser): void {
  p.next();
  p.expect(T.LPAREN);
  if (atQueryStart(p.kind) || p.kind === T.LPAREN) queryBody(p);
  else {
    const token = p.pos;
    p.relationName(token, p.qualifiedName());
  }
  p.expect(T.RPAREN);
  if (p.kind === T.COPARTITION) p.later(p.pos, COPARTITION_ALIAS);
  relationAlias(p);
  if (p.kind === T.PARTITION) {
    p.next();
    p.expect(T.BY);
    if (p.kind === T.LPAREN && p.peek(1) === T.RPAREN && p.peek(2) !== T.ARROW) {
      p.next();
      p.next();
    } else expression(p);
  }
  if ((p.kind === T.PRUNE || p.kind === T.KEEP) && p.peek(1) === T.WHEN) {
    p.next();
    p.next();
    p.expect(T.EMPTY);
  }
  if (p.kind === T.ORDER) {
    // `ORDER BY (a DESC, b)` has its list in parentheses; `ORDER BY (a)` may be either.
    p.next();
    p.expect(T.BY);
    if (p.kind === T.LPAREN) parenthesizedSortItems(p);
    else sortItem(p);
  }
}

function parenthesizedSortItems(p: Parser): void {
  if (atQueryStart(p.peek(1)) || p.peek(1) === T.LPAREN) {
    sortItem(p);
    return;
  }
  p.next();
  sortItem(p);
  while (p.accept(T.COMMA)) sortItem(p);
  p.expect(T.RPAREN);
  // Not a list but an item that started with a parenthesis.
  if (p.kind === T.ASC || p.kind === T.DESC) p.next();
  if (p.accept(T.NULLS)) p.expectEither(T.FIRST, T.LAST);
}
