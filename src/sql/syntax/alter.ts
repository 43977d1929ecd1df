import { columnDefinition, ifExists } from './definitions.ts';
import { argumentList, expression } from './expressions.ts';
import { principal } from './grants.ts';
import { T } from './kinds.ts';
import { literal, NameRole, type Parser } from './parser.ts';
import { propertyAssignments } from './properties.ts';
import { type } from './types.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ADD, AFTER, ALTER, AUTHORIZATION, BRANCH, COLUMN, DATA, DEFAULT, DROP, EXECUTE, EXISTS, FAST, FIRST, FORWARD,
  IF, IN, LAST, LPAREN, MATERIALIZED, NOT, NULL, PROPERTIES, REFRESH, RENAME, RPAREN, SCHEMA, SET, TABLE, TO,
  TYPE, VIEW, WHERE,
} = T;

export function alter(p: Parser): string {
  p.next();
  switch (p.kind) {
    case TABLE:
      p.next();
      return alterTable(p);
    case SCHEMA:
      p.next();
      p.namedObject(NameRole.schema);
      if (p.accept(RENAME)) {
        p.expect(TO);
        p.names.push(NameRole.renamedSchema, p.pos, 1);
        p.identifier();
        return 'RenameSchema';
      }
      return setAuthorization(p);
    case VIEW:
      if (!p.atIdentifier(1)) break;
      p.next();
      p.namedObject(NameRole.table);
      if (p.accept(RENAME)) return renamed(p, 'RenameView', NameRole.renamedTable);
      if (p.accept(REFRESH)) return 'RefreshView';
      return setAuthorization(p);
    case MATERIALIZED:
      if (p.peek(1) === VIEW && p.peek(2) !== SET) return alterMaterializedView(p);
      break;
    case BRANCH:
      if (p.peek(2) !== IN) break;
      p.next();
      p.identifier();
      p.expect(IN);
      p.expect(TABLE);
      p.namedObject(NameRole.table);
      p.expect(FAST);
      p.expect(FORWARD);
      p.expect(TO);
      p.identifier();
      return 'FastForwardBranch';
    default:
  }
  p.identifier();
  p.namedObject(NameRole.table);
  return setAuthorization(p);
}

function renamed(p: Parser, statement: string, role: number): string {
  p.expect(TO);
  p.namedObject(role);
  return statement;
}

function setAuthorization(p: Parser): string {
  p.expect(SET);
  p.expect(AUTHORIZATION);
  principal(p);
  return 'SetAuthorizationStatement';
}

function alterMaterializedView(p: Parser): string {
  p.next();
  p.next();
  const guarded = ifExists(p);
  p.namedObject(NameRole.table);
  if (p.accept(RENAME)) return renamed(p, 'RenameMaterializedView', NameRole.table);
  if (guarded) throw p.mismatch();
  p.expect(SET);
  return propertiesOrOwner(p);
}

/** Reads the clauses after SET of a table or materialized view. */
function propertiesOrOwner(p: Parser): string {
  if (p.accept(PROPERTIES)) {
    propertyAssignments(p);
    return 'SetProperties';
  }
  p.expect(AUTHORIZATION);
  principal(p);
  return 'SetAuthorizationStatement';
}

function alterTable(p: Parser): string {
  const guarded = ifExists(p);
  p.namedObject(NameRole.table);
  switch (p.kind) {
    case RENAME:
      p.next();
      if (!p.accept(COLUMN)) return renamed(p, 'RenameTable', NameRole.renamedTable);
      ifExists(p);
      p.qualifiedName();
      p.expect(TO);
      p.identifier();
      return 'RenameColumn';
    case ADD:
      p.next();
      p.expect(COLUMN);
      if (p.kind === IF && p.peek(1) === NOT) {
        p.next();
        p.next();
        p.expect(EXISTS);
      }
      columnDefinition(p);
      if (p.kind === FIRST || p.kind === LAST) p.next();
      else if (p.accept(AFTER)) p.identifier();
      return 'AddColumn';
    case DROP:
      p.next();
      p.expect(COLUMN);
      ifExists(p);
      p.qualifiedName();
      return 'DropColumn';
    case ALTER:
      p.next();
      p.expect(COLUMN);
      return alterColumn(p);
    case SET:
      if (guarded) break;
      p.next();
      return propertiesOrOwner(p);
    case EXECUTE:
      if (guarded) break;
      p.next();
      p.identifier();
      if (p.accept(LPAREN)) {
        if (p.kind !== RPAREN) argumentList(p);
        p.expect(RPAREN);
      }
      if (p.accept(WHERE)) expression(p);
      return 'TableExecute';
    default:
  }
  throw p.mismatch();
}

function alterColumn(p: Parser): string {
  const parts = p.qualifiedName();
  if (p.accept(DROP)) {
    if (p.accept(DEFAULT)) return 'DropDefaultValue';
    if (parts > 1) throw p.mismatch();
    p.expect(NOT);
    p.expect(NULL);
    return 'DropNotNullConstraint';
  }
  p.expect(SET);
  if (p.accept(DEFAULT)) {
    literal(p);
    return 'SetDefaultValue';
  }
  p.expect(DATA);
  p.expect(TYPE);
  type(p);
  return 'SetColumnType';
}
