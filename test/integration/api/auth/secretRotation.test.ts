import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Attribute, Change, Client } from 'ldapts';
import { afterAll, describe, expect, test } from 'vitest';
import { accessSettings, TestClock } from '../../../support/access.ts';
import { type Answer, type ApiServer, startApi } from '../../../support/apiServer.ts';
import { ldapAvailable, startLdapServer } from '../../../support/ldapServer.ts';
import { startOidcProvider } from '../../../support/oidcProvider.ts';
import { sessionKeyPaths } from '../../../support/sessionKeyPair.ts';

const folder = mkdtempSync(join(tmpdir(), 'secret-rotation-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Writes a file of the folder and returns its reference. */
function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return `\${FILE:${join(folder, name)}}`;
}

describe('secrets of logins at an OpenID provider, in files', async () => {
  const callback = 'http://gateway.example/oidc/callback';
  const provider = await startOidcProvider(callback);
  const clock = new TestClock();
  const access = (session: string) =>
    accessSettings(`
authentication:
  oauth:
    issuer: ${provider.issuer}
    clientId: ${provider.clientId}
    clientSecret: ${file('client', provider.clientSecret)}
    redirectUrl: ${callback}
    scopes: [openid]
    privilegesField: groups
  session: ${session}
authorization: {admin: .*ADMIN.*, user: .*USER.*, api: .*API.*}
`);
  const first = 'the first secret of the sessions, long';
  const second = 'the second secret of the sessions, long';
  const session = `{secret: "${file('session', first)}", previousSecrets: ["${file('previous', '')}"]}`;
  const one = await startApi({ access: access(session), accessDependencies: { clock } });
  const other = await startApi({ access: access(session), accessDependencies: { clock } });
  afterAll(async () => {
    for (const api of [one, other]) await api.close();
    await provider.close();
  });

  const cookie = (response: Answer, name: string): string =>
    (response.headers['set-cookie'] ?? [])
      .map((line) => line.split(';')[0] ?? '')
      .find((pair) => pair.startsWith(`${name}=`)) ?? '';
  const begin = async (api: ApiServer) => {
    const response = await api.call('POST', '/sso');
    return { url: response.json().data as string, state: cookie(response, 'Engine-Gateway-OIDC') };
  };
  const finish = async (api: ApiServer, { url, state }: { readonly url: string; readonly state: string }) => {
    const { search } = await provider.login(url, 'grace');
    return await api.call('GET', `/oidc/callback${search}`, { headers: { Cookie: state } });
  };
  const logIn = async (api: ApiServer): Promise<string> =>
    cookie(await finish(api, await begin(api)), 'Engine-Gateway-Session');
  const statusOf = async (api: ApiServer, token: string): Promise<number> =>
    (await api.call('GET', '/gateway/backend/all', { headers: { Cookie: token } })).status;
  /** Every replica reads its files again. */
  const later = () => {
    clock.ahead += 1_000;
  };

  test('the client secret is read at each login', async () => {
    expect(await statusOf(one, await logIn(one))).toBe(200);
    provider.changeClientSecret('another client secret, which is long as well');
    const refused = await finish(one, await begin(one));
    expect([refused.status, refused.json().msg]).toEqual([401, 'The provider did not confirm the login. Start again.']);
    file('client', 'another client secret, which is long as well\n');
    expect(await statusOf(one, await logIn(one))).toBe(200);
  });

  test('sessions and logins of the previous secret stay valid until it is removed', async () => {
    const old = await logIn(one);
    const begun = await begin(one);
    file('previous', first);
    file('session', second);
    later();
    const fresh = await logIn(one);
    for (const api of [one, other]) {
      expect(await Promise.all([old, fresh].map((token) => statusOf(api, token)))).toEqual([200, 200]);
    }
    expect((await finish(other, begun)).status).toBe(302);
    file('previous', '');
    later();
    for (const api of [one, other]) {
      expect(await Promise.all([old, fresh].map((token) => statusOf(api, token)))).toEqual([401, 200]);
    }
    expect(one.logged.filter((line) => line.includes('session secrets changed'))).toHaveLength(2);
    expect(one.logged.join('')).not.toContain(second);
  });

  test('a secret that is too short, and a file that is gone, change nothing', async () => {
    const token = await logIn(one);
    file('session', 'short');
    later();
    expect(await statusOf(one, token)).toBe(200);
    expect(await statusOf(other, await logIn(one))).toBe(200);
    expect(one.logged.join('')).toContain('session secret is too short; the earlier one stays active');
    file('session', second);
    rmSync(join(folder, 'session'));
    later();
    expect(await statusOf(one, token)).toBe(200);
    file('session', second);
  });
});

describe.skipIf(!ldapAvailable)('the password of the account that searches the LDAP server', () => {
  test.each([
    ['in the file of the server', (password: string) => password],
    ['in a file of its own', (password: string) => file('reader', password)],
  ])('%s is read again when the server rejects it', async (_, written) => {
    const user = 'dn: uid=marie,dc=example,dc=com\nobjectClass: inetOrgPerson\nuid: marie\ncn: marie\nsn: marie';
    const ldap = await startLdapServer(`${user}\nuserPassword: radium\nemployeeType: API\n\n`);
    const writeServer = (password: string) =>
      file(
        'ldap.yaml',
        [
          'ldapHost: 127.0.0.1',
          `ldapPort: ${ldap.port}`,
          'ldapAdminBindDn: cn=reader,dc=example,dc=com',
          `ldapAdminPassword: ${written(password)}`,
          'ldapUserBaseDn: dc=example,dc=com',
          'ldapUserSearch: (uid=${USER})',
          'ldapGroupMemberAttribute: employeeType',
        ].join('\n'),
      );
    writeServer('reader-secret');
    const keys = sessionKeyPaths();
    const path = join(folder, 'ldap.yaml');
    const api = await startApi({
      access: accessSettings(`
authentication:
  form:
    ldapConfigPath: ${path}
    selfSignKeyPair: {privateKeyRsa: ${keys.privateKeyRsa}, publicKeyRsa: ${keys.publicKeyRsa}}
authorization: {api: .*API.*, ldapConfigPath: ${path}}
`),
    });
    const logIn = async () =>
      (await api.call('POST', '/login', { body: JSON.stringify({ username: 'marie', password: 'radium' }) })).status;
    try {
      expect(await logIn()).toBe(200);
      const admin = new Client({ url: `ldap://127.0.0.1:${ldap.port}` });
      await admin.bind(ldap.adminDn, ldap.adminPassword);
      const modification = new Attribute({ type: 'userPassword', values: ['next-secret'] });
      await admin.modify('cn=reader,dc=example,dc=com', new Change({ operation: 'replace', modification }));
      await admin.unbind();
      expect(await logIn()).toBe(503);
      expect(api.logged.join('')).toContain('the server rejects ldapAdminBindDn with ldapAdminPassword');
      writeServer('next-secret');
      expect(await logIn()).toBe(200);
      expect(api.logged.join('')).not.toContain('next-secret');
    } finally {
      await api.close();
      await ldap.stop();
    }
  });
});
