import { createHmac, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import type { AttemptLimit, LoginSource } from './attemptLimit.ts';
import type { LdapServer } from './ldapServer.ts';
import { passwordCost, passwordMatches, readStoredPassword, type StoredPassword } from './passwords.ts';
import type { SessionOrigin } from './sessions.ts';

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
  readonly #decoys = new Map<string, StoredPassword>([['plain', { kind: 'plain', text: 'nobody' }]]);

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
      if (stored !== null && !this.#decoys.has(passwordCost(stored))) this.#decoys.set(passwordCost(stored), stored);
      const mark = createHmac('sha256', markKey)
        .update(`${name}\n${password ?? ''}`)
        .digest('base64url')
        .slice(0, 16);
      this.#users.set(name, { password: stored, mark, privileges: privileges ?? '' });
    }
  }

  /** True if the password is this user's; does the same work for every name. */
  async check(name: string, password: string): Promise<boolean> {
    const stored = this.#users.get(name)?.password ?? null;
    const ownCost = stored === null ? null : passwordCost(stored);
    let isRight = false;
    for (const [cost, decoy] of this.#decoys) {
      const matches = await passwordMatches(cost === ownCost && stored !== null ? stored : decoy, password);
      if (cost === ownCost) isRight = matches;
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
