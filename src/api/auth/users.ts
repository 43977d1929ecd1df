import { createHmac, randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import bcrypt from 'bcrypt';
import { LRUCache } from 'lru-cache';
import type { UserGroups } from '../../gateway/user/groups/userGroups.ts';
import { byLogin, type UserEvidence } from '../../gateway/user/userExtractor.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import { compileWholeMatch } from '../../model/regex/wholeMatch.ts';
import type { AttemptLimit, LoginSource } from './attemptLimit.ts';
import { type Role, roles } from './endpointAccess.ts';
import type { LdapServer } from './ldapServer.ts';
import type { SessionOrigin } from './sessions.ts';

const scryptAsync = promisify<string, Buffer, number, object, Buffer>(scrypt as never);

/** Upper bounds of what one scrypt check may cost. */
const MAX_SCRYPT_MEMORY = 64 * 1024 ** 2;
const MAX_SCRYPT_P = 8;

/** Bound: bcrypt reads 72 bytes, and no one types more than this. */
const MAX_PASSWORD_BYTES = 1024;

/** Per process: plain texts are compared by their digests under a key no one knows. */
const comparisonKey = randomBytes(32);

/** A stored password: plain text, a bcrypt hash (`$2b$…`) or a scrypt hash (`$scrypt$ln=…,r=…,p=…$salt$hash`). */
interface StoredPassword {
  /** Kind and cost parameters: two stored passwords of the same text take the same work to check. */
  readonly cost: string;
  /** Takes as long for a wrong password as for the right one. */
  matches(password: string): Promise<boolean>;
}

/**
 * Reads a stored password. What starts like a hash must be one, so that a damaged hash is no plain-text password.
 * @returns what is wrong with it as a sentence, where it is no password; it never repeats the text
 */
function readStoredPassword(text: string): StoredPassword | string {
  if (/^\$2[abxy]?\$/.test(text)) {
    if (!/^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$/.test(text))
      return 'looks like a bcrypt hash, but is none; make a new one';
    // Hashes of Apache and PHP say 2y for what is 2b.
    const hash = text.replace(/^\$2y\$/, '$2b$');
    return { cost: `bcrypt ${text.split('$')[2]}`, matches: (password) => bcrypt.compare(password, hash) };
  }
  if (text.startsWith('$scrypt$')) return readScrypt(text);
  if (/^\$(argon2|5|6|pbkdf2)/.test(text)) return 'is a hash of a kind that is not known here; use bcrypt or scrypt';
  return text === '' ? 'is empty' : plainPassword(text);
}

function plainPassword(text: string): StoredPassword {
  return { cost: 'plain', matches: async (password) => sameText(text, password) };
}

function readScrypt(text: string): StoredPassword | string {
  const match = /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/=_-]+)\$([A-Za-z0-9+/=_-]+)$/.exec(text);
  const wrong = 'looks like a scrypt hash, but is none; the form is $scrypt$ln=15,r=8,p=1$SALT$HASH in base64';
  if (match === null) return wrong;
  const [ln, r, p] = match.slice(1, 4).map(Number) as [number, number, number];
  const [salt, hash] = match.slice(4).map((part) => Buffer.from(part, 'base64')) as [Buffer, Buffer];
  if (ln < 1 || r < 1 || p < 1 || hash.length < 16) return wrong;
  if (128 * 2 ** ln * r > MAX_SCRYPT_MEMORY || p > MAX_SCRYPT_P) {
    return `asks for more work than one login may cost: at most 64 MB (128 * 2^ln * r) and p=${MAX_SCRYPT_P}`;
  }
  const costs = { N: 2 ** ln, r, p, maxmem: 2 * MAX_SCRYPT_MEMORY };
  return {
    cost: `scrypt ${ln} ${r} ${p} ${hash.length}`,
    matches: async (password) => timingSafeEqual(await scryptAsync(password, salt, hash.length, costs), hash),
  };
}

/** True if two secrets are the same text, in a time that does not show where they differ. */
export function sameText(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b));
}

function digest(text: string): Buffer {
  return createHmac('sha256', comparisonKey).update(text).digest();
}

export interface PresetUser {
  readonly password: string | null;
  readonly privileges: string | null;
}

/** The users that the configuration itself holds (`presetUsers`, docs/authentication.md#names-and-passwords). */
export class PresetUsers {
  readonly #users = new Map<string, { password: StoredPassword | null; mark: string; privileges: string }>();
  /**
   * A password of each kind and cost that the users have. Every login is checked against one of each, so that its time
   * does not show which kind a name has, or whether there is such a name.
   */
  readonly #decoys = new Map<string, StoredPassword>([['plain', plainPassword('nobody')]]);

  /**
   * @param markKey key of the marks of passwords, the same on all replicas
   * @throws GatewayError EG_IMPOSSIBLE naming the user whose password cannot be used
   */
  constructor(users: Readonly<Record<string, PresetUser>>, markKey: Uint8Array) {
    for (const [name, { password, privileges }] of Object.entries(users)) {
      const stored = password === null ? null : readStoredPassword(password);
      if (typeof stored === 'string') {
        const field = `presetUsers.${name}.password`;
        throw new GatewayError('EG_IMPOSSIBLE', `${field} ${stored}.`, { field });
      }
      if (stored !== null && !this.#decoys.has(stored.cost)) this.#decoys.set(stored.cost, stored);
      const mark = createHmac('sha256', markKey)
        .update(`${name}\n${password ?? ''}`)
        .digest('base64url')
        .slice(0, 16);
      this.#users.set(name, { password: stored, mark, privileges: privileges ?? '' });
    }
  }

  /** True if the password is this user's; does the same work for every name. */
  async check(name: string, password: string): Promise<boolean> {
    if (Buffer.byteLength(password) > MAX_PASSWORD_BYTES) return false;
    const own = this.#users.get(name)?.password ?? null;
    let isRight = false;
    for (const [cost, decoy] of this.#decoys) {
      const matches = await (own?.cost === cost ? own : decoy).matches(password);
      if (own?.cost === cost) isRight = matches;
    }
    return isRight;
  }

  /** Changes when the user's password changes, so that sessions of an old password end; null for an unknown user. */
  markOf(name: string): string | null {
    const user = this.#users.get(name);
    return user === undefined || user.password === null ? null : user.mark;
  }

  /** The text of the user's privileges; null for an unknown user. */
  privilegesOf(name: string): string | null {
    return this.#users.get(name)?.privileges ?? null;
  }
}

/** Where a password is checked (`authentication.form.order`). */
export type PasswordPlace = 'ldap' | 'presetUsers';

/** Time that a password that was right is believed for Basic calls, in milliseconds; a hash takes its time. */
const BELIEVED_MS = 60_000;

/** Longest name and password that are looked at, in characters. */
const MAX_LENGTH = 1024;

/**
 * Names and passwords (docs/authentication.md#names-and-passwords), checked at the LDAP server, where there is one, and
 * against the preset users, in the configured order. A wrong one is checked at all of them, for every name.
 */
export class FormLogin {
  readonly #ldap: Pick<LdapServer, 'check'> | null;
  readonly #order: readonly PasswordPlace[];
  readonly #presets: PresetUsers;
  readonly #limit: AttemptLimit;
  readonly #believed: LRUCache<string, SessionOrigin>;
  readonly #key = randomBytes(32);

  constructor(
    ldap: Pick<LdapServer, 'check'> | null,
    order: readonly PasswordPlace[],
    presets: PresetUsers,
    limit: AttemptLimit,
    clock: Clock,
  ) {
    this.#ldap = order.includes('ldap') ? ldap : null;
    this.#order = order;
    this.#presets = presets;
    this.#limit = limit;
    const perf = { now: () => clock.monotonic() };
    this.#believed = new LRUCache({ max: 1000, ttl: BELIEVED_MS, ttlResolution: 0, perf });
  }

  /** True if there is an LDAP server to log in at. */
  get hasDirectory(): boolean {
    return this.#ldap !== null;
  }

  /** True if users of the configuration log in. */
  get hasPresets(): boolean {
    return this.#order.includes('presetUsers');
  }

  /**
   * Checks a login.
   * @returns how the user was recognised; null when name or password are wrong
   * @throws GatewayError EG_TOO_MANY_ATTEMPTS, EG_IDENTITY_UNAVAILABLE
   */
  async check(name: string, password: string, source: LoginSource): Promise<SessionOrigin | null> {
    // An empty password makes an LDAP bind an anonymous one, which succeeds (RFC 4513 §5.1.2).
    if (name === '' || password === '' || name.length > MAX_LENGTH || password.length > MAX_LENGTH) return null;
    const attempt = async () => {
      for (const place of this.#order) {
        const origin = await this.#checkAt(place, name, password);
        if (origin !== null) return origin;
      }
      return null;
    };
    return this.#limit.guard<SessionOrigin | null>(name, source, attempt, (origin) => origin !== null);
  }

  async #checkAt(place: PasswordPlace, name: string, password: string): Promise<SessionOrigin | null> {
    if (place === 'ldap') {
      return this.#ldap !== null && (await this.#ldap.check(name, password)) ? { kind: 'ldap' } : null;
    }
    if (!(await this.#presets.check(name, password))) return null;
    return { kind: 'preset', mark: this.#presets.markOf(name) ?? '' };
  }

  /** As `check`, for credentials that come with every call. */
  async checkAgain(name: string, password: string, source: LoginSource): Promise<SessionOrigin | null> {
    const key = createHmac('sha256', this.#key)
      .update(JSON.stringify([name, password]))
      .digest('base64');
    const believed = this.#believed.get(key);
    if (believed !== undefined) return believed;
    const origin = await this.check(name, password, source);
    if (origin !== null) this.#believed.set(key, origin);
    return origin;
  }
}

export type RoleMapping = (privileges: string) => ReadonlySet<Role>;

export interface GroupRoles {
  readonly rolesOf: (groups: readonly string[]) => readonly Role[];
  readonly groups: Pick<UserGroups, 'ofCaller'>;
}

/**
 * Looks up what users may do (docs/authentication.md#roles): the preset users, then the LDAP server's group attribute,
 * else nothing.
 */
export class Privileges {
  readonly #rolesOf: RoleMapping;
  readonly #groupRoles: GroupRoles | null;
  readonly #presets: PresetUsers;
  readonly #directory: Pick<LdapServer, 'privilegesOf'> | null;
  readonly #privileges: LRUCache<string, Promise<string>>;

  /** @param groupRoles null: groups give no roles */
  constructor(
    rolesOf: RoleMapping,
    presets: PresetUsers,
    directory: Pick<LdapServer, 'privilegesOf'> | null,
    groupRoles: GroupRoles | null,
    clock: Clock,
  ) {
    this.#rolesOf = rolesOf;
    this.#groupRoles = groupRoles;
    this.#presets = presets;
    this.#directory = directory;
    const perf = { now: () => clock.monotonic() };
    this.#privileges = new LRUCache({ max: 10_000, ttl: BELIEVED_MS, ttlResolution: 0, perf });
  }

  /**
   * The roles that a user has by privileges and by groups.
   * @param privileges their text
   * @param mapping in place of that of `authorization`, of an issuer that has its own; null: none
   */
  async rolesOf(
    user: string,
    privileges: string,
    { evidence = byLogin, mapping = null }: { evidence?: UserEvidence; mapping?: RoleMapping | null } = {},
  ): Promise<ReadonlySet<Role>> {
    const ofPrivileges = (mapping ?? this.#rolesOf)(privileges);
    if (this.#groupRoles === null) return ofPrivileges;
    const { groups, rolesOf } = this.#groupRoles;
    return new Set([...ofPrivileges, ...rolesOf(await groups.ofCaller(user, evidence))]);
  }

  /** @throws GatewayError EG_IDENTITY_UNAVAILABLE when the directory is unavailable */
  async of(user: string): Promise<string> {
    const preset = this.#presets.privilegesOf(user);
    if (preset !== null) return preset;
    if (this.#directory === null) return '';
    const privileges = this.#privileges.get(user);
    if (privileges !== undefined) return privileges;
    const response = this.#directory.privilegesOf(user).then((text) => text ?? '');
    this.#privileges.set(user, response);
    response.catch(() => this.#privileges.delete(user));
    return response;
  }
}

/** The configured expressions; null if the configuration has no `authorization` at all. */
export type RoleExpressions = {
  readonly admin: string | null;
  readonly user: string | null;
  readonly api: string | null;
};

/**
 * Maps the text of a user's privileges to roles (docs/authentication.md#roles): a role is held when
 * the whole text matches its expression. Without `authorization` everybody who is recognised holds all roles.
 */
export function roleMapping(expressions: RoleExpressions | null): (privileges: string) => ReadonlySet<Role> {
  if (expressions === null) {
    const all = new Set(roles);
    return () => all;
  }
  const patterns = roles.flatMap((role) => {
    const text = expressions[role.toLowerCase() as Lowercase<Role>];
    return text === null ? [] : [[role, compileWholeMatch(text)] as const];
  });
  return (privileges) => new Set(patterns.filter(([, pattern]) => pattern.matches(privileges)).map(([role]) => role));
}

/** Makes the mapping from a user's groups to roles (`authorization.groupRoles`); null if no group gives one. */
export function groupRoleMapping(
  groupRoles: Readonly<Record<Lowercase<Role>, readonly string[]>> | null,
): ((groups: readonly string[]) => readonly Role[]) | null {
  if (groupRoles === null) return null;
  const byRole = roles.map((role) => [role, new Set(groupRoles[role.toLowerCase() as Lowercase<Role>])] as const);
  if (byRole.every(([, groups]) => groups.size === 0)) return null;
  return (groups) => byRole.filter(([, giving]) => groups.some((group) => giving.has(group))).map(([role]) => role);
}

/**
 * Pages that a user sees (`pagePermissions`): empty means all, which any role held without an entry gives; otherwise
 * the union of the entries, split at `_`. Keys of the map are roles in any letter case.
 */
export function pagesOf(
  ownRoles: ReadonlySet<Role>,
  pagePermissions: Readonly<Record<string, string | null>>,
): readonly string[] {
  const byRole = new Map(Object.entries(pagePermissions).map(([role, pages]) => [role.toUpperCase(), pages]));
  const pages = new Set<string>();
  for (const role of ownRoles) {
    const entry = byRole.get(role);
    if (entry === undefined || entry === null || entry === '') return [];
    for (const page of entry.split('_')) if (page !== '') pages.add(page);
  }
  return [...pages];
}
