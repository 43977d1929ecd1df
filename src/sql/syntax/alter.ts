import { columnDefinition, ifExists } from './definitions.ts';
import { argumentList, expression } from './expressions.ts';
import { principal } from './grants.ts';
import { T } from './kinds.ts';
import { literal } from './literals.ts';
import { NameRole, type Parser } from './parser.ts';
import { propertyAssignments } from './properties.ts';
import { type } from './types.ts';

/** A statement at ALTER. */
export function alter(p: Parser): string {
  p.next();
  switch (p.kind) {
    case T.TABLE:
      p.next();
      return alterTable(p);
    case T.SCHEMA:
      p.next();
      p.namedObject(NameRole.schema);
      if (p.accept(T.RENAME)) {
        p.expect(T.TO);
        p.names.push(NameRole.renamedSchema, p.pos, 1);
        p.identifier();
        return 'RenameSchema';
      }
      return setAuthorization(p);
    case T.VIEW:
      if (!p.atIdentifier(1)) break;
      p.next();
      p.namedObject(NameRole.table);
      if (p.accept(T.RENAME)) return renamed(p, 'RenameView', NameRole.renamedTable);
      if (p.accept(T.REFRESH)) return 'RefreshView';
      return setAuthorization(p);
    case T.MATERIALIZED:
      if (p.peek(1) === T.VIEW && p.peek(2) !== T.SET) return alterMaterializedView(p);
      break;
    case T.BRANCH:
      if (p.peek(2) !== T.IN) break;
      p.next();
      p.identifier();
      p.expect(T.IN);
      p.expect(T.TABLE);
      p.namedObject(NameRole.table);
      p.expect(T.FAST);
      p.expect(T.FORWARD);
      p.expect(T.TO);
      p.identifier();
      return 'FastForwardBranch';
    default:
  }
  p.identifier();
  p.namedObject(NameRole.table);
  return setAuthorization(p);
}

function renamed(p: Parser, statement: string, role: number): string {
  p.expect(T.TO);
  p.namedObject(role);
  return statement;
}

function setAuthorization(p: Parser): string {
  p.expect(T.SET);
  p.expect(T.AUTHORIZATION);
  principal(p);
  return 'SetAuthorizationStatement';
}

function alterMaterializedView(p: Parser): string {
  p.next();
  p.next();
  const guarded = ifExists(p);
  p.namedObject(NameRole.table);
  if (p.accept(T.RENAME)) return renamed(p, 'RenameMaterializedView', NameRole.table);
  if (guarded) throw p.mismatch();
  p.expect(T.SET);
  if (p.accept(T.PROPERTIES)) {
    propertyAssignments(p);
    return 'SetProperties';
  }
  p.expect(T.AUTHORIZATION);
  principal(p);
  return 'SetAuthorizationStatement';
}

function alterTable(p: Parser): string {
  const guarded = ifExists(p);
  p.namedObject(NameRole.table);
  switch (p.kind) {
    case T.RENAME:
      p.next();
      if (!p.accept(T.COLUMN)) return renamed(p, 'RenameTable', NameRole.renamedTable);
      ifExists(p);
      p.qualifiedName();
      p.expect(T.TO);
      p.identifier();
      return 'RenameColumn';
    case T.ADD:
      p.next();
      p.expect(T.COLUMN);
      if (p.kind === T.IF && p.peek(1) === T.NOT) {
        p.next();
        p.next();
        p.expect(T.EXISTS);
      }
      columnDefinition(p);
      if (p.kind === T.FIRST || p.kind === T.LAST) p.next();
      else if (p.accept(T.AFTER)) p.identifier();
      return 'AddColumn';
    case T.DROP:
      p.next();
      p.expect(T.COLUMN);
      ifExists(p);
      p.qualifiedName();
      return 'DropColumn';
    case T.ALTER:
      p.next();
      p.expect(T.COLUMN);
      return alterColumn(p);
    case T.SET:
      if (guarded) break;
      p.next();
      if (p.accept(T.PROPERTIES)) {
        propertyAssignments(p);
        return 'SetProperties';
      }
      p.expect(T.AUTHORIZATION);
      principal(p);
      return 'SetAuthorizationStatement';
    case T.EXECUTE:
      if (guarded) break;
      p.next();
      p.identifier();
      if (p.accept(T.LPAREN)) {
        if (p.kind !== T.RPAREN) argumentList(p);
        p.expect(T.RPAREN);
      }
      if (p.accept(T.WHERE)) expression(p);
      return 'TableExecute';
    default:
  }
  throw p.mismatch();
}

function alterColumn(p: Parser): string {
  const parts = p.qualifiedName();
  if (p.accept(T.DROP)) {
    if (p.accept(T.DEFAULT)) return 'DropDefaultValue';
    if (parts > 1) throw p.mismatch();
    p.expect(T.NOT);
    p.expect(T.NULL);
    return 'DropNotNullConstraint';
  }
  p.expect(T.SET);
  if (p.accept(T.DEFAULT)) {
    literal(p);
    return 'SetDefaultValue';
  }
  p.expect(T.DATA);
  p.expect(T.TYPE);
  type(p);
  return 'SetColumnType';
}
