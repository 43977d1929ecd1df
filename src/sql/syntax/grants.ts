import { T } from './kinds.ts';
import { NameRole, type Parser } from './parser.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ADMIN, ALL, BRANCH, BY, COMMA, CREATE, CURRENT_ROLE, CURRENT_USER, DELETE, FOR, FROM, GRANT, GRANTED, IN,
  INSERT, ON, OPTION, PRIVILEGES, ROLE, SCHEMA, SELECT, TABLE, TO, UPDATE, USER, WITH,
} = T;

/** GRANT, REVOKE, DENY, and the principals that other statements name too. */

/** `principal` of the grammar. */
export function principal(p: Parser): void {
  if ((p.kind === USER || p.kind === ROLE) && p.atIdentifier(1)) p.next();
  p.identifier();
}

/** `grantor` of the grammar. */
export function grantor(p: Parser): void {
  if (p.kind === CURRENT_USER || p.kind === CURRENT_ROLE) p.next();
  else principal(p);
}

function principals(p: Parser): void {
  principal(p);
  while (p.accept(COMMA)) principal(p);
}

/** A privilege or a role; returns its token if it is the word of a privilege, else -1. */
function privilegeOrRole(p: Parser): number {
  const token = p.pos;
  switch (p.kind) {
    case CREATE:
      p.next();
      p.accept(BRANCH);
      return token;
    case SELECT:
    case DELETE:
    case INSERT:
      p.next();
      return token;
    case UPDATE:
      p.next();
      return token;
    default:
      p.identifier();
      return -1;
  }
}

/** A list of privileges or roles; returns the token of the first privilege, or -1. */
function privilegesOrRoles(p: Parser): number {
  let first = privilegeOrRole(p);
  while (p.accept(COMMA)) {
    const token = privilegeOrRole(p);
    if (first < 0) first = token;
  }
  return first;
}

/** `ALL PRIVILEGES`, optional. */
function allPrivileges(p: Parser): boolean {
  if (p.kind !== ALL || p.peek(1) !== PRIVILEGES) return false;
  p.next();
  p.next();
  return true;
}

function rolesOnly(p: Parser, privilege: number): void {
  if (privilege >= 0) p.later(privilege, 'May not use a privilege name as a role name');
}

/** `grantObject` of the grammar. */
export function grantObject(p: Parser): void {
  if (p.kind === BRANCH && p.atIdentifier(1) && p.peek(2) === IN) {
    p.next();
    p.identifier();
    p.next();
  }
  let role: number = NameRole.table;
  if (p.kind === TABLE) p.next();
  else if (p.atIdentifier() && p.atIdentifier(1) && !targetFollows(p)) {
    if (p.kind === SCHEMA) role = NameRole.schema;
    p.identifier();
  }
  p.namedObject(role);
}

/** True if the word after the token is the TO before the principal, not the object's name. */
function targetFollows(p: Parser): boolean {
  return p.peek(1) === TO && p.atIdentifier(2) && !(p.peek(2) === TO && p.atIdentifier(3));
}

function grantedBy(p: Parser): void {
  if (p.accept(GRANTED)) {
    p.expect(BY);
    grantor(p);
  }
  if (p.accept(IN)) p.identifier();
}

export function grant(p: Parser): string {
  p.next();
  let privilege = -1;
  if (allPrivileges(p)) {
    if (p.kind !== ON) throw p.mismatch();
  } else privilege = privilegesOrRoles(p);
  if (p.accept(ON)) {
    grantObject(p);
    p.expect(TO);
    principal(p);
    if (p.accept(WITH)) {
      p.expect(GRANT);
      p.expect(OPTION);
    }
    return 'Grant';
  }
  p.expect(TO);
  principals(p);
  if (p.accept(WITH)) {
    p.expect(ADMIN);
    p.expect(OPTION);
  }
  grantedBy(p);
  rolesOnly(p, privilege);
  return 'GrantRoles';
}

export function revoke(p: Parser): string {
  p.next();
  let kind = '';
  if ((p.kind === ADMIN || p.kind === GRANT) && p.peek(1) === OPTION) {
    kind = p.kind === ADMIN ? 'RevokeRoles' : 'Revoke';
    p.next();
    p.next();
    p.expect(FOR);
  }
  let privilege = -1;
  if (kind !== 'RevokeRoles' && allPrivileges(p)) kind = 'Revoke';
  else privilege = privilegesOrRoles(p);
  if (kind !== 'RevokeRoles' && p.accept(ON)) {
    grantObject(p);
    p.expect(FROM);
    principal(p);
    return 'Revoke';
  }
  if (kind === 'Revoke') throw p.mismatch();
  p.expect(FROM);
  principals(p);
  grantedBy(p);
  rolesOnly(p, privilege);
  return 'RevokeRoles';
}

export function deny(p: Parser): string {
  p.next();
  if (!allPrivileges(p)) privilegesOrRoles(p);
  p.expect(ON);
  grantObject(p);
  p.expect(TO);
  principal(p);
  return 'Deny';
}
