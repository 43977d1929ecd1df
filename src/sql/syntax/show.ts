import { grantObject } from './grants.ts';
import { T } from './kinds.ts';
import { NameRole, type Parser, string } from './parser.ts';
import { rootQuery } from './queries.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  BRANCHES, CATALOGS, COLUMNS, CREATE, CURRENT, DESCRIBE, ESCAPE, FOR, FROM, FUNCTION, FUNCTIONS, GRANTS, IN,
  INPUT, LIKE, LPAREN, MATERIALIZED, ON, OUTPUT, ROLE, ROLES, RPAREN, SCHEMA, SCHEMAS, SESSION, STATS, TABLE,
  TABLES, VIEW,
} = T;

/** SHOW and DESCRIBE. */

/** `LIKE pattern (ESCAPE character)?`, optional. */
function likePattern(p: Parser): void {
  if (!p.accept(LIKE)) return;
  string(p);
  if (p.accept(ESCAPE)) string(p);
}

function acceptFrom(p: Parser): boolean {
  return p.accept(FROM) || p.accept(IN);
}

export function show(p: Parser): string {
  p.next();
  switch (p.kind) {
    case TABLES:
      p.next();
      if (acceptFrom(p)) p.namedObject(NameRole.schema);
      else p.names.push(NameRole.defaultSchema, 0, 0);
      likePattern(p);
      return 'ShowTables';
    case SCHEMAS:
      p.next();
      if (acceptFrom(p)) {
        p.names.push(NameRole.catalog, p.pos, 1);
        p.identifier();
      } else p.names.push(NameRole.defaultCatalog, 0, 0);
      likePattern(p);
      return 'ShowSchemas';
    case CATALOGS:
      p.next();
      likePattern(p);
      return 'ShowCatalogs';
    case COLUMNS:
      p.next();
      p.expectEither(FROM, IN);
      p.namedObject(NameRole.table);
      likePattern(p);
      return 'ShowColumns';
    case CREATE:
      return showCreate(p);
    case FUNCTIONS:
      p.next();
      if (acceptFrom(p)) p.qualifiedName();
      likePattern(p);
      return 'ShowFunctions';
    case STATS:
      p.next();
      p.expect(FOR);
      if (p.accept(LPAREN)) {
        rootQuery(p);
        p.expect(RPAREN);
      } else p.namedObject(NameRole.table);
      return 'ShowStats';
    case SESSION:
      p.next();
      likePattern(p);
      return 'ShowSession';
    case GRANTS:
      p.next();
      if (p.accept(ON)) grantObject(p);
      return 'ShowGrants';
    case BRANCHES:
      p.next();
      p.expectEither(FROM, IN);
      p.expect(TABLE);
      p.namedObject(NameRole.table);
      return 'ShowBranches';
    case ROLE:
      p.next();
      p.expect(GRANTS);
      if (acceptFrom(p)) p.identifier();
      return 'ShowRoleGrants';
    case CURRENT:
      p.next();
      p.expect(ROLES);
      if (acceptFrom(p)) p.identifier();
      return 'ShowRoles';
    case ROLES:
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
    case SCHEMA:
      p.next();
      p.namedObject(NameRole.schema);
      return 'ShowCreate';
    case MATERIALIZED:
      p.next();
      p.expect(VIEW);
      p.namedObject(NameRole.table);
      return 'ShowCreate';
    case TABLE:
    case VIEW:
    case FUNCTION:
      p.next();
      p.namedObject(NameRole.table);
      return 'ShowCreate';
    default:
      throw p.mismatch();
  }
}

export function describeStatement(p: Parser): string {
  const full = p.kind === DESCRIBE;
  p.next();
  if (full && p.kind === INPUT && p.atIdentifier(1)) {
    p.next();
    p.executed = p.pos;
    p.identifier();
    return 'DescribeInput';
  }
  if (full && p.kind === OUTPUT && (p.atIdentifier(1) || p.peek(1) === LPAREN)) {
    p.next();
    if (p.accept(LPAREN)) {
      rootQuery(p);
      p.expect(RPAREN);
    } else {
      p.executed = p.pos;
      p.identifier();
    }
    return 'DescribeOutput';
  }
  p.namedObject(NameRole.table);
  return 'ShowColumns';
}
