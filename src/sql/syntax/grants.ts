import { T } from './kinds.ts';
import { NameRole, type Parser } from './parser.ts';

/** GRANT, REVOKE, DENY, and the principals that other statements name too. */

/** `principal` of the grammar. */
export function principal(p: Parser): void {
  if ((p.kind === T.USER || p.kind === T.ROLE) && p.atIdentifier(1)) p.next();
  p.identifier();
}

/** `grantor` of the grammar. */
export function grantor(p: Parser): void {
  if (p.kind === T.CURRENT_USER || p.kind === T.CURRENT_ROLE) p.next();
  else principal(p);
}

function principals(p: Parser): void {
  principal(p);
  while (p.accept(T.COMMA)) principal(p);
}

/** A privilege or a role; gives its token if it is the word of a privilege, else -1. */
function privilegeOrRole(p: Parser): number {
  const token = p.pos;
  switch (p.kind) {
    case T.CREATE:
      p.next();
      p.accept(T.BRANCH);
      return token;
    case T.SELECT:
    case T.DELETE:
    case T.INSERT:
      p.next();
      return token;
    case T.UPDATE:
      p.next();
      return token;
    default:
      p.identifier();
      return -1;
  }
}

/** A list of them; gives the token of the first privilege, or -1. */
function privilegesOrRoles(p: Parser): number {
  let first = privilegeOrRole(p);
  while (p.accept(T.COMMA)) {
    const token = privilegeOrRole(p);
    if (first < 0) first = token;
  }
  return first;
}

/** `ALL PRIVILEGES`, where it stands. */
function allPrivileges(p: Parser): boolean {
  if (p.kind !== T.ALL || p.peek(1) !== T.PRIVILEGES) return false;
  p.next();
  p.next();
  return true;
}

function rolesOnly(p: Parser, privilege: number): void {
  if (privilege >= 0) p.later(privilege, 'May not use a privilege name as a role name');
}

/** `grantObject` of the grammar. */
export function grantObject(p: Parser): void {
  if (p.kind === T.BRANCH && p.atIdentifier(1) && p.peek(2) === T.IN) {
    p.next();
    p.identifier();
    p.next();
  }
  let role: number = NameRole.table;
  if (p.kind === T.TABLE) p.next();
  else if (p.atIdentifier() && p.atIdentifier(1) && !targetFollows(p)) {
    if (p.kind === T.SCHEMA) role = NameRole.schema;
    p.identifier();
  }
  p.namedObject(role);
}

/** True if the word after the token is the TO before the principal, not the object's name. */
function targetFollows(p: Parser): boolean {
  return p.peek(1) === T.TO && p.atIdentifier(2) && !(p.peek(2) === T.TO && p.atIdentifier(3));
}

function grantedBy(p: Parser): void {
  if (p.accept(T.GRANTED)) {
    p.expect(T.BY);
    grantor(p);
  }
  if (p.accept(T.IN)) p.identifier();
}

/** A statement at GRANT. */
export function grant(p: Parser): string {
  p.next();
  let privilege = -1;
  if (allPrivileges(p)) {
    if (p.kind !== T.ON) throw p.mismatch();
  } else privilege = privilegesOrRoles(p);
  if (p.accept(T.ON)) {
    grantObject(p);
    p.expect(T.TO);
    principal(p);
    if (p.accept(T.WITH)) {
      p.expect(T.GRANT);
      p.expect(T.OPTION);
    }
    return 'Grant';
  }
  p.expect(T.TO);
  principals(p);
  if (p.accept(T.WITH)) {
    p.expect(T.ADMIN);
    p.expect(T.OPTION);
  }
  grantedBy(p);
  rolesOnly(p, privilege);
  return 'GrantRoles';
}

/** A statement at REVOKE. */
export function revoke(p: Parser): string {
  p.next();
  let kind = '';
  if ((p.kind === T.ADMIN || p.kind === T.GRANT) && p.peek(1) === T.OPTION) {
    kind = p.kind === T.ADMIN ? 'RevokeRoles' : 'Revoke';
    p.next();
    p.next();
    p.expect(T.FOR);
  }
  let privilege = -1;
  if (kind !== 'RevokeRoles' && allPrivileges(p)) kind = 'Revoke';
  else privilege = privilegesOrRoles(p);
  if (kind !== 'RevokeRoles' && p.accept(T.ON)) {
    grantObject(p);
    p.expect(T.FROM);
    principal(p);
    return 'Revoke';
  }
  if (kind === 'Revoke') throw p.mismatch();
  p.expect(T.FROM);
  principals(p);
  grantedBy(p);
  rolesOnly(p, privilege);
  return 'RevokeRoles';
}

/** A statement at DENY. */
export function deny(p: Parser): string {
  p.next();
  if (!allPrivileges(p)) privilegesOrRoles(p);
  p.expect(T.ON);
  grantObject(p);
  p.expect(T.TO);
  principal(p);
  return 'Deny';
}
