import { createHmac } from 'node:crypto';
import { GatewayError } from '../../model/errors.ts';
import { passwordMatches, readStoredPassword, type StoredPassword } from './passwords.ts';

/** A user of the configuration, as it is written there. */
export interface PresetUser {
  readonly password: string | null;
  readonly privileges: string | null;
}

/** The users that the configuration itself holds (`presetUsers`, contract §8.3). */
export class PresetUsers {
  readonly #users = new Map<string, { password: StoredPassword | null; mark: string; privileges: string }>();
  /** What an unknown name is checked against, so that it costs the time that a known one does. */
  readonly #decoy: StoredPassword;

  /**
   * @param markKey key of the marks of passwords, the same on all replicas
   * @throws GatewayError EG_IMPOSSIBLE naming the user whose password cannot be used
   */
  constructor(users: Readonly<Record<string, PresetUser>>, markKey: Uint8Array) {
    let decoy: StoredPassword = { kind: 'plain', text: 'nobody' };
    for (const [name, { password, privileges }] of Object.entries(users)) {
      const stored = password === null ? null : readStoredPassword(password);
      if (typeof stored === 'string') {
        const field = `presetUsers.${name}.password`;
        throw new GatewayError('EG_IMPOSSIBLE', `${field} ${stored}.`, { field });
      }
      if (stored !== null && stored.kind !== 'plain' && decoy.kind === 'plain') decoy = stored;
      const mark = createHmac('sha256', markKey)
        .update(`${name}\n${password ?? ''}`)
        .digest('base64url')
        .slice(0, 16);
      this.#users.set(name, { password: stored, mark, privileges: privileges ?? '' });
    }
    this.#decoy = decoy;
  }

  /** Whether the password is this user's. */
  async check(name: string, password: string): Promise<boolean> {
    const stored = this.#users.get(name)?.password ?? null;
    const matches = await passwordMatches(stored ?? this.#decoy, password);
    return stored !== null && matches;
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
