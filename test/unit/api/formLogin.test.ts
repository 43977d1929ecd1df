import { expect, test } from 'vitest';
import { AttemptLimit } from '../../../src/api/auth/attemptLimit.ts';
import { FormLogin, type PasswordPlace } from '../../../src/api/auth/formLogin.ts';
import { PresetUsers } from '../../../src/api/auth/presetUsers.ts';
import { systemClock } from '../../../src/model/clock.ts';

const source = { address: '192.0.2.1', peer: '192.0.2.1' };
const limits = { maxAttempts: 100, window: 60_000 };

/** A form before an LDAP server that knows lise and ada, and preset users, one of whom has the name of a user of LDAP. */
function form(order: readonly PasswordPlace[]) {
  const checks: string[] = [];
  const presets = new PresetUsers(
    { ada: { password: 'preset', privileges: '' }, nora: { password: null, privileges: '' } },
    new Uint8Array(32),
  );
  const check = presets.check.bind(presets);
  presets.check = (name, password) => {
    checks.push('presetUsers');
    return check(name, password);
  };
  const ldap = {
    check: async (name: string, password: string) => {
      checks.push('ldap');
      return ['lise', 'ada'].includes(name) && password === 'directory';
    },
  };
  const limit = new AttemptLimit(limits, systemClock, () => undefined);
  return { login: new FormLogin({ ldap, order, presets, limit, clock: systemClock }), checks };
}

test.each<[string, PasswordPlace[], string, string, string | null, PasswordPlace[]]>([
  ['a user of LDAP', ['ldap', 'presetUsers'], 'lise', 'directory', 'ldap', ['ldap']],
  ['a preset user', ['ldap', 'presetUsers'], 'ada', 'preset', 'preset', ['ldap', 'presetUsers']],
  ['a preset user, asked first', ['presetUsers', 'ldap'], 'ada', 'preset', 'preset', ['presetUsers']],
  ['the same name in LDAP', ['presetUsers', 'ldap'], 'ada', 'directory', 'ldap', ['presetUsers', 'ldap']],
  ['LDAP alone', ['ldap'], 'ada', 'preset', null, ['ldap']],
  ['preset users alone', ['presetUsers'], 'lise', 'directory', null, ['presetUsers']],
])('%s', async (_, order, name, password, kind, asked) => {
  const { login, checks } = form(order);
  expect((await login.check(name, password, source))?.kind ?? null).toBe(kind);
  expect(checks).toEqual(asked);
});

test.each<[PasswordPlace[]]>([[['ldap', 'presetUsers']], [['presetUsers', 'ldap']]])(
  'a wrong password is checked at every place, whatever the name, in the order %j',
  async (order) => {
    for (const name of ['ada', 'lise', 'nora', 'nobody']) {
      const { login, checks } = form(order);
      expect(await login.check(name, 'wrong', source)).toBeNull();
      expect(checks, name).toEqual(order);
    }
  },
);
