import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { type LdapTestServer, ldapAvailable, startLdapServer } from '../support/ldapServer.ts';
import { type OidcServer, startOidcProvider } from '../support/oidcProvider.ts';
import { sessionKeyPair } from '../support/sessionKeyPair.ts';
import { attack, send, sendJson } from './attack.ts';
import { startTarget, type Target } from './target.ts';

const CALLBACK = 'http://127.0.0.1:1/oidc/callback';
const LDAP_TREE = 'dn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\nou: people\n';

/** A text of so many characters at most. */
const filled = (unit: string, size: number) => unit.repeat(Math.floor(size / unit.length));

describe.skipIf(!ldapAvailable)('logins at an LDAP server and at an OpenID provider', () => {
  let target: Target;
  let ldap: LdapTestServer;
  let provider: OidcServer;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'abuse-logins-'));
    ldap = await startLdapServer(LDAP_TREE);
    provider = await startOidcProvider(CALLBACK);
    const { privateKeyRsa, publicKeyRsa } = sessionKeyPair();
    const ldapConfigPath = join(folder, 'ldap.yaml');
    const ldapSettings = {
      ...{ ldapHost: '127.0.0.1', ldapPort: ldap.port },
      ...{ ldapAdminBindDn: 'cn=reader,dc=example,dc=com', ldapAdminPassword: 'reader-secret' },
      ...{ ldapUserBaseDn: 'ou=people,dc=example,dc=com', ldapUserSearch: '(&(objectClass=person)(uid=${USER}))' },
      ...{ ldapGroupMemberAttribute: 'employeeType', poolMaxTotal: 10 },
    };
    await writeFile(ldapConfigPath, stringify(ldapSettings));
    target = await startTarget({
      authentication: {
        form: { ldapConfigPath, selfSignKeyPair: { privateKeyRsa, publicKeyRsa } },
        oauth: {
          ...{ issuer: provider.issuer, clientId: provider.clientId, clientSecret: provider.clientSecret },
          ...{ redirectUrl: CALLBACK, privilegesField: 'groups' },
        },
        loginLimit: { maxAttempts: 10_000 },
      },
      authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*', ldapConfigPath },
      presetUsers: { root: { password: 'secret', privileges: 'ADMIN_USER_API' } },
    });
  });
  afterAll(async () => {
    await target?.close();
    await provider?.close();
    await ldap?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** Longest names that the LDAP server is asked for have 1,024 characters; the longest that come fill a body. */
  test.each([1_000, 900_000])('names and passwords of %d characters', async (size) => {
    for (const unit of ['a', '*', '(|(uid=', '\\', '\0', ',', '\u{1f600}', '\u0130']) {
      const text = filled(unit, size);
      const logins = [
        { username: text, password: 'x' },
        { username: 'root', password: text },
      ];
      const { answer } = await attack(target, `logins with ${size} characters of ${JSON.stringify(unit)}`, async () => {
        const answers = await Promise.all(logins.map((login) => sendJson(target, 'POST', '/login', login)));
        return answers.map(({ status }) => status);
      });
      expect(answer.every((status) => [400, 401, 413].includes(status))).toBe(true);
    }
  });

  test('names and passwords of 40 kB in the header Authorization', async () => {
    for (const unit of ['a', '*', ':', '(|(uid=']) {
      const authorization = `Basic ${Buffer.from(`${filled(unit, 20_000)}:${filled(unit, 20_000)}`).toString('base64')}`;
      const { answer } = await attack(target, `Basic credentials of ${unit}`, () =>
        send(target, '/api/rules', { headers: { authorization } }),
      );
      expect(answer.status).toBe(401);
    }
  });

  test('100 names at once', async () => {
    const { answer } = await attack(target, '100 logins at once', () =>
      Promise.all(
        Array.from({ length: 100 }, (_, index) =>
          sendJson(target, 'POST', '/login', { username: filled(`${index}*`, 1_000), password: 'x' }),
        ),
      ),
    );
    expect(answer.every(({ status }) => [401, 429, 503].includes(status))).toBe(true);
  });

  test('codes, states and cookies of 50 kB at the callback of the OpenID provider', async () => {
    const begun = await fetch(`${target.url}/sso`, { method: 'POST' });
    expect(begun.status).toBe(200);
    const { data } = (await begun.json()) as { data: string };
    const state = new URL(data).searchParams.get('state') ?? '';
    const cookie = begun.headers.getSetCookie()[0]?.split(';')[0] ?? '';
    expect([state, cookie]).not.toContain('');
    const name = cookie.split('=')[0];
    const requests: readonly (readonly [string, string, string])[] = [
      ['a state', `?code=x&state=${filled('s', 50_000)}`, cookie],
      ['many states', `?${filled('state=a&', 50_000)}`, cookie],
      ['escapes', `?state=${filled('%41', 50_000)}`, cookie],
      ['an error', `?error=${filled('e', 50_000)}&state=${state}`, ''],
      ['a cookie', `?code=x&state=${state}`, `${name}=${filled('a', 50_000)}`],
      ['a cookie of five parts', `?code=x&state=${state}`, `${name}=${Array(5).fill(filled('e30', 10_000)).join('.')}`],
      // The last: a state works once.
      ['a code', `?code=${filled('c', 50_000)}&state=${state}&iss=${encodeURIComponent(provider.issuer)}`, cookie],
    ];
    for (const [what, query, sent] of requests) {
      const { answer } = await attack(
        target,
        `the callback with ${what} of 50 kB`,
        () => send(target, `/oidc/callback${query}`, { headers: { cookie: sent }, redirect: 'manual' }),
        1,
      );
      const refused = what === 'many states' ? 400 : 401;
      expect(answer.status, `${what}: ${answer.text.slice(0, 300)}`).toBe(refused);
    }
    expect(provider.calls.get('/token')).toBe(1);
  });
});
