import { grantObject } from './grants.ts';
import { T } from './kinds.ts';
import { string } from './literals.ts';
import { NameRole, type Parser } from './parser.ts';
import { rootQuery } from './queries.ts';

/** SHOW and DESCRIBE. */

/** `LIKE pattern (ESCAPE character)?`, where it stands. */
function likePattern(p: Parser): void {
  if (!p.accept(T.LIKE)) return;
  string(p);
  if (p.accept(T.ESCAPE)) string(p);
}

/** FROM or IN, where it stands. */
function acceptFrom(p: Parser): boolean {
  return p.accept(T.FROM) || p.accept(T.IN);
}

/** A statement at SHOW. */
export function show(p: Parser): string {
  p.next();
  switch (p.kind) {
    case T.TABLES:
      p.next();
      if (acceptFrom(p)) p.namedObject(NameRole.schema);
      else p.names.push(NameRole.defaultSchema, 0, 0);
      likePattern(p);
      return 'ShowTables';
    case T.SCHEMAS:
      p.next();
      if (acceptFrom(p)) {
        p.names.push(NameRole.catalog, p.pos, 1);
        p.identifier();
      } else p.names.push(NameRole.defaultCatalog, 0, 0);
      likePattern(p);
      return 'ShowSchemas';
    case T.CATALOGS:
      p.next();
      likePattern(p);
      return 'ShowCatalogs';
    case T.COLUMNS:
      p.next();
      p.expectEither(T.FROM, T.IN);
      p.namedObject(NameRole.table);
      likePattern(p);
      return 'ShowColumns';
    case T.CREATE:
      return showCreate(p);
    case T.FUNCTIONS:
      p.next();
      if (acceptFrom(p)) p.qualifiedName();
      likePattern(p);
      return 'ShowFunctions';
    case T.STATS:
      p.next();
      p.expect(T.FOR);
      if (p.accept(T.LPAREN)) {
        rootQuery(p);
        p.expect(T.RPAREN);
      } else p.namedObject(NameRole.table);
      return 'ShowStats';
    case T.SESSION:
      p.next();
      likePattern(p);
      return 'ShowSession';
    case T.GRANTS:
      p.next();
      if (p.accept(T.ON)) grantObject(p);
      return 'ShowGrants';
    case T.BRANCHES:
      p.next();
      p.expectEither(T.FROM, T.IN);
      p.expect(T.TABLE);
      p.namedObject(NameRole.table);
      return 'ShowBranches';
    case T.ROLE:
      p.next();
      p.expect(T.GRANTS);
      if (acceptFrom(p)) p.identifier();
      return 'ShowRoleGrants';
    case T.CURRENT:
      p.next();
      p.expect(T.ROLES);
      if (acceptFrom(p)) p.identifier();
      return 'ShowRoles';
    case T.ROLES:
      p.next();
      if (acceptFrom(p)) p.identifier();
      return 'ShowRoles';
    default:
      throw p.mismatch();
  }
}

function showCreate(p: Parser): string {
  p.next();
  switch (p.kind) {
    case T.SCHEMA:
      p.next();
      p.namedObject(NameRole.schema);
      return 'ShowCreate';
    case T.MATERIALIZED:
      p.next();
      p.expect(T.VIEW);
      p.namedObject(NameRole.table);
      return 'ShowCreate';
    case T.TABLE:
    case T.VIEW:
    case T.FUNCTION:
      p.next();
      p.namedObject(NameRole.table);
      return 'ShowCreate';
    default:
      throw p.mismatch();
  }
}

/** A statement at DESCRIBE or DESC. */
export function describe(p: Parser): string {
  const full = p.kind === T.DESCRIBE;
  p.next();
  if (full && p.kind === T.INPUT && p.atIdentifier(1)) {
    p.next();
    p.identifier();
    return 'DescribeInput';
  }
  if (full && p.kind === T.OUTPUT && (p.atIdentifier(1) || p.peek(1) === T.LPAREN)) {
    p.next();
    if (p.accept(T.LPAREN)) {
      rootQuery(p);
      p.expect(T.RPAREN);
    } else p.identifier();
    return 'DescribeOutput';
  }
  p.namedObject(NameRole.table);
  return 'ShowColumns';
}
