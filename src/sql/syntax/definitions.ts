import { grantor, principal } from './grants.ts';
import { T } from './kinds.ts';
import { interval, literal, string } from './literals.ts';
import { NameRole, type Parser } from './parser.ts';
import { properties, withProperties } from './properties.ts';
import { columnAliases, rootQuery } from './queries.ts';
import { functionDeclaration, functionSpecification } from './routines.ts';
import { type } from './types.ts';

/** CREATE, DROP and COMMENT. */

const BOTH_MODES = "'OR REPLACE' and 'IF NOT EXISTS' clauses can not be used together";

/** `IF NOT EXISTS`, where it stands; an object may be named IF. */
function ifNotExists(p: Parser): boolean {
  if (p.kind !== T.IF || p.peek(1) !== T.NOT) return false;
  p.next();
  p.next();
  p.expect(T.EXISTS);
  return true;
}

/** `IF EXISTS`, where it stands. */
export function ifExists(p: Parser): boolean {
  if (p.kind !== T.IF || p.peek(1) !== T.EXISTS) return false;
  p.next();
  p.next();
  return true;
}

/** A statement at CREATE. */
export function create(p: Parser): string {
  const start = p.pos;
  p.next();
  const replace = p.accept(T.OR);
  if (replace) p.expect(T.REPLACE);
  switch (p.kind) {
    case T.TABLE:
      return createTable(p, start, replace);
    case T.VIEW:
      p.next();
      p.namedObject(NameRole.table);
      commentClause(p);
      if (p.accept(T.SECURITY)) p.expectEither(T.DEFINER, T.INVOKER);
      withProperties(p);
      p.expect(T.AS);
      rootQuery(p);
      return 'CreateView';
    case T.MATERIALIZED:
      return createMaterializedView(p);
    case T.FUNCTION:
      functionSpecification(p);
      return 'CreateFunction';
    case T.BRANCH:
      p.next();
      bothModes(p, start, ifNotExists(p) && replace);
      p.identifier();
      withProperties(p);
      p.expect(T.IN);
      p.expect(T.TABLE);
      p.namedObject(NameRole.table);
      if (p.accept(T.FROM)) p.identifier();
      return 'CreateBranch';
    default:
  }
  if (replace) throw p.mismatch();
  switch (p.kind) {
    case T.SCHEMA:
      p.next();
      ifNotExists(p);
      p.namedObject(NameRole.schema);
      if (p.accept(T.AUTHORIZATION)) principal(p);
      withProperties(p);
      return 'CreateSchema';
    case T.CATALOG: {
      p.next();
      ifNotExists(p);
      p.names.push(NameRole.catalog, p.pos, 1);
      p.identifier();
      p.expect(T.USING);
      p.identifier();
      commentClause(p);
      if (p.accept(T.AUTHORIZATION)) principal(p);
      withProperties(p);
      return 'CreateCatalog';
    }
    case T.ROLE:
      p.next();
      p.identifier();
      if (p.accept(T.WITH)) {
        p.expect(T.ADMIN);
        grantor(p);
      }
      if (p.accept(T.IN)) p.identifier();
      return 'CreateRole';
    default:
      throw p.mismatch();
  }
}

function bothModes(p: Parser, start: number, both: boolean): void {
  if (both) p.later(start, BOTH_MODES);
}

function commentClause(p: Parser): void {
  if (p.accept(T.COMMENT)) string(p);
}

function createTable(p: Parser, start: number, replace: boolean): string {
  p.next();
  const both = ifNotExists(p) && replace;
  p.namedObject(NameRole.table);
  let isQuery = p.kind !== T.LPAREN;
  if (!isQuery) {
    const follower = p.peek(2);
    if (p.atIdentifier(1) && (follower === T.COMMA || follower === T.RPAREN)) {
      columnAliases(p);
      isQuery = true;
    } else {
      p.next();
      tableElement(p);
      while (p.accept(T.COMMA)) tableElement(p);
      p.expect(T.RPAREN);
    }
  }
  commentClause(p);
  withProperties(p);
  if (!isQuery) {
    bothModes(p, start, both);
    return 'CreateTable';
  }
  p.expect(T.AS);
  if (p.kind === T.LPAREN && p.peek(1) === T.WITH) {
    p.next();
    rootQuery(p);
    p.expect(T.RPAREN);
  } else rootQuery(p);
  if (p.accept(T.WITH)) {
    p.accept(T.NO);
    p.expect(T.DATA);
  }
  bothModes(p, start, both);
  return 'CreateTableAsSelect';
}

function tableElement(p: Parser): void {
  if (p.accept(T.LIKE)) {
    p.namedObject(NameRole.table);
    if (p.kind === T.INCLUDING || p.kind === T.EXCLUDING) {
      p.next();
      p.expect(T.PROPERTIES);
    }
  } else columnDefinition(p);
}

/** `columnDefinition` of the grammar. */
export function columnDefinition(p: Parser): void {
  p.qualifiedName();
  type(p);
  if (p.accept(T.DEFAULT)) literal(p);
  if (p.accept(T.NOT)) p.expect(T.NULL);
  commentClause(p);
  withProperties(p);
}

function createMaterializedView(p: Parser): string {
  p.next();
  p.expect(T.VIEW);
  ifNotExists(p);
  p.namedObject(NameRole.table);
  if (p.accept(T.GRACE)) {
    p.expect(T.PERIOD);
    interval(p);
  }
  if (p.accept(T.WHEN)) {
    p.expect(T.STALE);
    p.expectEither(T.INLINE, T.FAIL);
  }
  commentClause(p);
  if (p.accept(T.WITH)) properties(p);
  p.expect(T.AS);
  rootQuery(p);
  return 'CreateMaterializedView';
}

/** A statement at DROP. */
export function drop(p: Parser): string {
  p.next();
  switch (p.kind) {
    case T.TABLE:
      p.next();
      ifExists(p);
      p.namedObject(NameRole.table);
      return 'DropTable';
    case T.VIEW:
      p.next();
      ifExists(p);
      p.namedObject(NameRole.table);
      return 'DropView';
    case T.MATERIALIZED:
      p.next();
      p.expect(T.VIEW);
      ifExists(p);
      p.namedObject(NameRole.table);
      return 'DropMaterializedView';
    case T.SCHEMA:
      p.next();
      ifExists(p);
      p.namedObject(NameRole.schema);
      if (p.kind === T.CASCADE || p.kind === T.RESTRICT) p.next();
      return 'DropSchema';
    case T.CATALOG:
      p.next();
      ifExists(p);
      p.names.push(NameRole.catalog, p.pos, 1);
      p.identifier();
      if (p.kind === T.CASCADE || p.kind === T.RESTRICT) p.next();
      return 'DropCatalog';
    case T.FUNCTION:
      p.next();
      ifExists(p);
      functionDeclaration(p);
      return 'DropFunction';
    case T.BRANCH:
      p.next();
      ifExists(p);
      p.identifier();
      p.expect(T.IN);
      p.expect(T.TABLE);
      p.namedObject(NameRole.table);
      return 'DropBranch';
    case T.ROLE:
      p.next();
      ifExists(p);
      p.identifier();
      if (p.accept(T.IN)) p.identifier();
      return 'DropRole';
    default:
      throw p.mismatch();
  }
}

/** A statement at COMMENT. */
export function comment(p: Parser): string {
  p.next();
  p.expect(T.ON);
  const isColumn = p.kind === T.COLUMN;
  if (!isColumn && p.kind !== T.TABLE && p.kind !== T.VIEW) throw p.mismatch();
  p.next();
  p.namedObject(isColumn ? NameRole.column : NameRole.table);
  p.expect(T.IS);
  if (!p.accept(T.NULL)) string(p);
  return 'Comment';
}
