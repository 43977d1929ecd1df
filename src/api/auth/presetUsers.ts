import { createHmac } from 'node:crypto';
import { GatewayError } from '../../model/errors.ts';
import { passwordCost, passwordMatches, readStoredPassword, type StoredPassword } from './passwords.ts';

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
