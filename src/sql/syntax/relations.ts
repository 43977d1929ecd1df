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

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  AFTER, ALL, ARROW, AS, ASC, BERNOULLI, BY, COMMA, COPARTITION, CROSS, DESC, DESCRIPTOR, DOT, DOUBLE_ARROW,
  EMPTY, EOF, FIRST, FOR, FROM, FULL, GROUP, IDENTIFIER, IN, INITIAL, INNER, JOIN, JSON_TABLE, KEEP, LAST,
  LATERAL, LEFT, LPAREN, MATCH, MATCH_RECOGNIZE, MEASURES, NATURAL, NEAREST, NULLS, OF, ON, ONE, ORDER,
  ORDINALITY, OUTER, PARTITION, PATTERN, PIVOT, PRUNE, RIGHT, RPAREN, SEEK, SYSTEM, TABLE, TABLESAMPLE,
  TIMESTAMP, UNNEST, USING, VERSION, WHEN, WHERE, WITH,
} = T;

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
      case CROSS:
        p.next();
        p.expect(JOIN);
        sampledRelation(p);
        break;
      case NATURAL:
        p.next();
        joinType(p);
        p.expect(JOIN);
        sampledRelation(p);
        break;
      case JOIN:
      case INNER:
      case LEFT:
      case RIGHT:
      case FULL:
        joinType(p);
        p.expect(JOIN);
        relation(p);
        if (p.accept(USING)) columnAliases(p);
        else {
          p.expect(ON);
          expression(p);
        }
        break;
      default:
        return;
    }
  }
}

function joinType(p: Parser): void {
  if (p.accept(INNER)) return;
  if (p.kind === LEFT || p.kind === RIGHT || p.kind === FULL) {
    p.next();
    p.accept(OUTER);
  }
}

function sampledRelation(p: Parser): void {
  relationPrimary(p);
  relationSuffixes(p);
}

/** Alias, MATCH_RECOGNIZE, PIVOT and TABLESAMPLE after a relation's primary. */
function relationSuffixes(p: Parser): void {
  relationAlias(p);
  if (p.kind === MATCH_RECOGNIZE) {
    matchRecognize(p);
    relationAlias(p);
  }
  if (p.kind === PIVOT) {
    pivot(p);
    relationAlias(p);
  }
  if (p.kind === TABLESAMPLE) {
    p.next();
    p.expectEither(BERNOULLI, SYSTEM);
    p.expect(LPAREN);
    expression(p);
    p.expect(RPAREN);
  }
}

/** `(AS? identifier columnAliases?)?`. */
function relationAlias(p: Parser): void {
  if (p.kind === AS) {
    p.next();
    p.identifier();
  } else if (!implicitAlias(p)) return;
  if (p.kind === LPAREN) columnAliases(p);
}

/**
 * Takes an alias without AS, if the token is one: words that start a clause are not an alias if that clause continues.
 */
function implicitAlias(p: Parser): boolean {
  const kind = p.kind;
  if (kind === IDENTIFIER) {
    p.next();
    return true;
  }
  if (!p.atIdentifier()) return false;
  const next = p.peek(1);
  if (atQueryClause(p, 0)) return false;
  switch (kind) {
    case TABLESAMPLE:
      if (next === BERNOULLI || next === SYSTEM) return false;
      break;
    case MATCH_RECOGNIZE:
      if (next === LPAREN && !columnsFollow(p) && startsMatchRecognize(p.peek(2))) return false;
      break;
    case PIVOT:
      if (next === LPAREN && !columnsFollow(p)) return false;
      break;
    case PARTITION:
      if (next === BY) return false;
      break;
    case PRUNE:
    case KEEP:
      if (next === WHEN) return false;
      break;
    case MATCH:
      if (p.inNearest && next !== MATCH && next !== WHERE) return false;
      break;
    default:
  }
  p.identifier();
  return true;
}

/** True for what may stand after the parenthesis of MATCH_RECOGNIZE. */
function startsMatchRecognize(kind: number): boolean {
  switch (kind) {
    case PARTITION:
    case MEASURES:
    case ONE:
    case ALL:
    case AFTER:
    case INITIAL:
    case SEEK:
    case PATTERN:
      return true;
    default:
      return kind === EOF || kind > LAST_IDENTIFIER;
  }
}

/** True if the parenthesis after the token holds nothing but a list of names. */
function columnsFollow(p: Parser): boolean {
  let at = p.pos + 2;
  for (;;) {
    const name = p.kinds[at] as number;
    if (name === EOF || !p.atIdentifier(at - p.pos)) return false;
    const follower = p.kinds[at + 1];
    if (follower === RPAREN) return true;
    if (follower !== COMMA) return false;
    at += 2;
  }
}

function relationPrimary(p: Parser): void {
  const next = p.peek(1);
  switch (p.kind) {
    case IDENTIFIER:
      break;
    case LPAREN:
      parenthesizedRelation(p);
      return;
    case UNNEST:
      p.next();
      p.expect(LPAREN);
      expressionList(p);
      p.expect(RPAREN);
      if (p.kind === WITH && p.peek(1) === ORDINALITY) {
        p.next();
        p.next();
      }
      return;
    case LATERAL:
      if (next === LPAREN) {
        p.next();
        subquery(p);
        return;
      }
      break;
    case TABLE:
      p.next();
      p.expect(LPAREN);
      tableFunctionCall(p);
      p.expect(RPAREN);
      return;
    case JSON_TABLE:
      jsonTable(p);
      return;
    case NEAREST:
      if (next === LPAREN) {
        nearest(p);
        return;
      }
      break;
    default:
  }
  const token = p.pos;
  p.relationName(token, p.qualifiedName());
  if (p.kind === FOR) {
    p.next();
    p.expectEither(TIMESTAMP, VERSION);
    p.expect(AS);
    p.expect(OF);
    valueExpression(p);
  }
}

function parenthesizedRelation(p: Parser): void {
  let open = 0;
  while (p.kind === LPAREN) {
    p.next();
    open += 1;
  }
  /** A parenthesized query without WITH, which may continue as a query. */
  let isQuery = false;
  if (atQueryStart(p.kind) && !(p.kind === TABLE && p.peek(1) === LPAREN)) isQuery = !queryBody(p);
  else relation(p);
  p.expect(RPAREN);
  for (open -= 1; open > 0; open -= 1) {
    if (!isQuery || p.kind !== RPAREN) {
      if (isQuery && atQueryContinuation(p) && !(p.atIdentifier() && !atQueryClause(p, 0))) queryRest(p);
      else {
        relationSuffixes(p);
        joins(p);
        isQuery = false;
      }
    }
    p.expect(RPAREN);
  }
}

function nearest(p: Parser): void {
  p.next();
  p.next();
  p.expect(FROM);
  const outer = p.inNearest;
  p.inNearest = true;
  relation(p);
  if (p.accept(WHERE)) expression(p);
  p.inNearest = outer;
  p.expect(MATCH);
  expression(p);
  p.expect(RPAREN);
}

function aliasedExpressions(p: Parser): void {
  do {
    expression(p);
    if (p.accept(AS)) p.identifier();
    else implicitAlias(p);
  } while (p.accept(COMMA));
}

function pivot(p: Parser): void {
  p.next();
  p.expect(LPAREN);
  aliasedExpressions(p);
  p.expect(FOR);
  if (p.accept(LPAREN)) {
    p.qualifiedName();
    while (p.accept(COMMA)) p.qualifiedName();
    p.expect(RPAREN);
  } else p.qualifiedName();
  p.expect(IN);
  p.expect(LPAREN);
  aliasedExpressions(p);
  p.expect(RPAREN);
  if (p.accept(GROUP)) {
    p.expect(BY);
    groupBy(p);
  }
  p.expect(RPAREN);
}

function tableFunctionCall(p: Parser): void {
  p.namedObject(NameRole.tableFunction);
  p.expect(LPAREN);
  if (p.kind !== RPAREN && !atCopartition(p)) {
    tableFunctionArgument(p);
    while (p.accept(COMMA)) tableFunctionArgument(p);
  }
  if (p.accept(COPARTITION)) {
    do {
      p.expect(LPAREN);
      p.qualifiedName();
      p.expect(COMMA);
      do p.qualifiedName();
      while (p.accept(COMMA));
      p.expect(RPAREN);
    } while (p.accept(COMMA));
  }
  p.expect(RPAREN);
}

/** COPARTITION without arguments before it; a call of a function of that name has one argument or `)` after it. */
function atCopartition(p: Parser): boolean {
  return p.kind === COPARTITION && p.peek(1) === LPAREN && p.peek(3) === DOT;
}

function tableFunctionArgument(p: Parser): void {
  if (p.peek(1) === DOUBLE_ARROW && p.atIdentifier()) {
    p.identifier();
    p.next();
  }
  if (p.kind === TABLE) tableArgument(p);
  else if (p.kind === DESCRIPTOR && p.peek(1) === LPAREN && p.atIdentifier(2)) descriptor(p);
  else argument(p);
}

/** `DESCRIPTOR(a, b int)`; a call if a field is not a name with an optional type. */
function descriptor(p: Parser): void {
  const follower = p.peek(3);
  if (follower !== COMMA && follower !== RPAREN && !p.atIdentifier(3)) {
    expression(p);
    return;
  }
  p.next();
  p.next();
  do {
    p.identifier();
    if (p.atIdentifier()) type(p);
  } while (p.accept(COMMA));
  p.expect(RPAREN);
}

const COPARTITION_ALIAS =
  'The word "COPARTITION" is ambiguous in this context. To alias an argument, precede the alias with "AS". To specify co-partitioning, change the argument order so that the last argument cannot be aliased.';

function tableArgument(p: Parser): void {
  p.next();
  p.expect(LPAREN);
  if (atQueryStart(p.kind) || p.kind === LPAREN) queryBody(p);
  else {
    const token = p.pos;
    p.relationName(token, p.qualifiedName());
  }
  p.expect(RPAREN);
  if (p.kind === COPARTITION) p.later(p.pos, COPARTITION_ALIAS);
  relationAlias(p);
  if (p.kind === PARTITION) {
    p.next();
    p.expect(BY);
    if (p.kind === LPAREN && p.peek(1) === RPAREN && p.peek(2) !== ARROW) {
      p.next();
      p.next();
    } else expression(p);
  }
  if ((p.kind === PRUNE || p.kind === KEEP) && p.peek(1) === WHEN) {
    p.next();
    p.next();
    p.expect(EMPTY);
  }
  if (p.kind === ORDER) {
    // `ORDER BY (a DESC, b)` has its list in parentheses; `ORDER BY (a)` may be either.
    p.next();
    p.expect(BY);
    if (p.kind === LPAREN) parenthesizedSortItems(p);
    else sortItem(p);
  }
}

function parenthesizedSortItems(p: Parser): void {
  if (atQueryStart(p.peek(1)) || p.peek(1) === LPAREN) {
    sortItem(p);
    return;
  }
  p.next();
  sortItem(p);
  while (p.accept(COMMA)) sortItem(p);
  p.expect(RPAREN);
  // Not a list but an item that started with a parenthesis.
  if (p.kind === ASC || p.kind === DESC) p.next();
  if (p.accept(NULLS)) p.expectEither(FIRST, LAST);
}
