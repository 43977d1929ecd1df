import { createHmac, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';
import type { AttemptLimit } from './attemptLimit.ts';
import type { LdapServer } from './ldapServer.ts';
import type { LoginSource } from './loginSource.ts';
import type { PresetUsers } from './presetUsers.ts';
import type { SessionOrigin } from './sessions.ts';

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
