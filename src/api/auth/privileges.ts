import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';
import type { Role } from './caller.ts';
import type { PresetUsers } from './presetUsers.ts';

/** A directory that knows users' privileges. */
export interface PrivilegesDirectory {
  /**
   * The text of a user's privileges; null for an unknown user.
   * @throws GatewayError EG_IDENTITY_UNAVAILABLE when it is unavailable
   */
  privilegesOf(name: string): Promise<string | null>;
}

/** How long an answer of the directory is believed, in milliseconds. */
const BELIEVED_MS = 60_000;

/**
 * Looks up what users may do (docs/authentication.md#roles): the preset users, then the LDAP server's group attribute,
 * else nothing.
 */
export class Privileges {
  readonly rolesOf: (privileges: string) => ReadonlySet<Role>;
  readonly #presets: PresetUsers;
  readonly #directory: PrivilegesDirectory | null;
  readonly #privileges: LRUCache<string, Promise<string>>;

  constructor(options: {
    readonly rolesOf: (privileges: string) => ReadonlySet<Role>;
    readonly presets: PresetUsers;
    readonly directory: PrivilegesDirectory | null;
    readonly clock: Clock;
  }) {
    this.rolesOf = options.rolesOf;
    this.#presets = options.presets;
    this.#directory = options.directory;
    const perf = { now: () => options.clock.monotonic() };
    this.#privileges = new LRUCache({ max: 10_000, ttl: BELIEVED_MS, ttlResolution: 0, perf });
  }

  /** @throws GatewayError EG_IDENTITY_UNAVAILABLE when the directory is unavailable */
  async of(user: string): Promise<string> {
    const preset = this.#presets.privilegesOf(user);
    if (preset !== null) return preset;
    if (this.#directory === null) return '';
    const privileges = this.#privileges.get(user);
    if (privileges !== undefined) return privileges;
    const answer = this.#directory.privilegesOf(user).then((text) => text ?? '');
    this.#privileges.set(user, answer);
    answer.catch(() => this.#privileges.delete(user));
    return answer;
  }
}
