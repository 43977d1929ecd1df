import { grantor, principal } from './grants.ts';
import { T } from './kinds.ts';
import { interval, literal, NameRole, type Parser, string } from './parser.ts';
import { properties, withProperties } from './properties.ts';
import { columnAliases, rootQuery } from './queries.ts';
import { functionDeclaration, functionSpecification } from './routines.ts';
import { type } from './types.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ADMIN, AS, AUTHORIZATION, BRANCH, CASCADE, CATALOG, COLUMN, COMMA, COMMENT, DATA, DEFAULT, DEFINER, EXCLUDING,
  EXISTS, FAIL, FROM, FUNCTION, GRACE, IF, IN, INCLUDING, INLINE, INVOKER, IS, LIKE, LPAREN, MATERIALIZED, NO,
  NOT, NULL, ON, OR, PERIOD, PROPERTIES, REPLACE, RESTRICT, ROLE, RPAREN, SCHEMA, SECURITY, STALE, TABLE, USING,
  VIEW, WHEN, WITH,
} = T;

const BOTH_MODES = "'OR REPLACE' and 'IF NOT EXISTS' clauses can not be used together";

/** `IF NOT EXISTS`, optional; an object may be named IF. */
function ifNotExists(p: Parser): boolean {
  if (p.kind !== IF || p.peek(1) !== NOT) return false;
  p.next();
  p.next();
  p.expect(EXISTS);
  return true;
}

/** `IF EXISTS`, optional. */
export function ifExists(p: Parser): boolean {
  if (p.kind !== IF || p.peek(1) !== EXISTS) return false;
  p.next();
  p.next();
  return true;
}

export function create(p: Parser): string {
  const start = p.pos;
  p.next();
  const replace = p.accept(OR);
  if (replace) p.expect(REPLACE);
  switch (p.kind) {
    case TABLE:
      return createTable(p, start, replace);
    case VIEW:
      p.next();
      p.namedObject(NameRole.table);
      commentClause(p);
      if (p.accept(SECURITY)) p.expectEither(DEFINER, INVOKER);
      withProperties(p);
      p.expect(AS);
      rootQuery(p);
      return 'CreateView';
    case MATERIALIZED:
      return createMaterializedView(p);
    case FUNCTION:
      functionSpecification(p);
      return 'CreateFunction';
    case BRANCH:
      p.next();
      bothModes(p, start, ifNotExists(p) && replace);
      p.identifier();
      withProperties(p);
      p.expect(IN);
      p.expect(TABLE);
      p.namedObject(NameRole.table);
      if (p.accept(FROM)) p.identifier();
      return 'CreateBranch';
    default:
  }
  if (replace) throw p.mismatch();
  switch (p.kind) {
    case SCHEMA:
      p.next();
      ifNotExists(p);
      p.namedObject(NameRole.schema);
      if (p.accept(AUTHORIZATION)) principal(p);
      withProperties(p);
      return 'CreateSchema';
    case CATALOG: {
      p.next();
      ifNotExists(p);
      p.names.push(NameRole.catalog, p.pos, 1);
      p.identifier();
      p.expect(USING);
      p.identifier();
      commentClause(p);
      if (p.accept(AUTHORIZATION)) principal(p);
      withProperties(p);
      return 'CreateCatalog';
    }
    case ROLE:
      p.next();
      p.identifier();
      if (p.accept(WITH)) {
        p.expect(ADMIN);
        grantor(p);
      }
      if (p.accept(IN)) p.identifier();
      return 'CreateRole';
    default:
      throw p.mismatch();
  }
}

/** Errors from token `from` on are found later than this one. */
function bothModes(p: Parser, start: number, both: boolean, from = start): void {
  if (both) p.later(start, BOTH_MODES, from);
}

function commentClause(p: Parser): void {
  if (p.accept(COMMENT)) string(p);
}

function createTable(p: Parser, start: number, replace: boolean): string {
  p.next();
  const both = ifNotExists(p) && replace;
  p.namedObject(NameRole.table);
  let isQuery = p.kind !== LPAREN;
  if (!isQuery) {
    const follower = p.peek(2);
    if (p.atIdentifier(1) && (follower === COMMA || follower === RPAREN)) {
      columnAliases(p);
      isQuery = true;
    } else {
      p.next();
      tableElement(p);
      while (p.accept(COMMA)) tableElement(p);
      p.expect(RPAREN);
    }
  }
  commentClause(p);
  withProperties(p);
  if (!isQuery) {
    bothModes(p, start, both);
    return 'CreateTable';
  }
  const asToken = p.pos;
  p.expect(AS);
  if (p.kind === LPAREN && p.peek(1) === WITH) {
    p.next();
    rootQuery(p);
    p.expect(RPAREN);
  } else rootQuery(p);
  if (p.accept(WITH)) {
    p.accept(NO);
    p.expect(DATA);
  }
  bothModes(p, start, both, asToken);
  return 'CreateTableAsSelect';
}

function tableElement(p: Parser): void {
  if (p.accept(LIKE)) {
    p.namedObject(NameRole.table);
    if (p.kind === INCLUDING || p.kind === EXCLUDING) {
      p.next();
      p.expect(PROPERTIES);
    }
  } else columnDefinition(p);
}

/** `columnDefinition` of the grammar. */
export function columnDefinition(p: Parser): void {
  p.qualifiedName();
  type(p);
  if (p.accept(DEFAULT)) literal(p);
  if (p.accept(NOT)) p.expect(NULL);
  commentClause(p);
  withProperties(p);
}

function createMaterializedView(p: Parser): string {
  p.next();
  p.expect(VIEW);
  ifNotExists(p);
  p.namedObject(NameRole.table);
  if (p.accept(GRACE)) {
    p.expect(PERIOD);
    interval(p);
  }
  if (p.accept(WHEN)) {
    p.expect(STALE);
    p.expectEither(INLINE, FAIL);
  }
  commentClause(p);
  if (p.accept(WITH)) properties(p);
  p.expect(AS);
  rootQuery(p);
  return 'CreateMaterializedView';
}

export function drop(p: Parser): string {
  p.next();
  switch (p.kind) {
    case TABLE:
      p.next();
      ifExists(p);
      p.namedObject(NameRole.table);
      return 'DropTable';
    case VIEW:
      p.next();
      ifExists(p);
      p.namedObject(NameRole.table);
      return 'DropView';
    case MATERIALIZED:
      p.next();
      p.expect(VIEW);
      ifExists(p);
      p.namedObject(NameRole.table);
      return 'DropMaterializedView';
    case SCHEMA:
      p.next();
      ifExists(p);
      p.namedObject(NameRole.schema);
      if (p.kind === CASCADE || p.kind === RESTRICT) p.next();
      return 'DropSchema';
    case CATALOG:
      p.next();
      ifExists(p);
      p.names.push(NameRole.catalog, p.pos, 1);
      p.identifier();
      if (p.kind === CASCADE || p.kind === RESTRICT) p.next();
      return 'DropCatalog';
    case FUNCTION:
      p.next();
      ifExists(p);
      functionDeclaration(p);
      return 'DropFunction';
    case BRANCH:
      p.next();
      ifExists(p);
      p.identifier();
      p.expect(IN);
      p.expect(TABLE);
      p.namedObject(NameRole.table);
      return 'DropBranch';
    case ROLE:
      p.next();
      ifExists(p);
      p.identifier();
      if (p.accept(IN)) p.identifier();
      return 'DropRole';
    default:
      throw p.mismatch();
  }
}

export function comment(p: Parser): string {
  p.next();
  p.expect(ON);
  const isColumn = p.kind === COLUMN;
  if (!isColumn && p.kind !== TABLE && p.kind !== VIEW) throw p.mismatch();
  p.next();
  p.namedObject(isColumn ? NameRole.column : NameRole.table);
  p.expect(IS);
  if (!p.accept(NULL)) string(p);
  return 'Comment';
}
