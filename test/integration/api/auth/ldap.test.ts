import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accessSettings } from '../../../support/access.ts';
import { type ApiServer, startApi } from '../../../support/apiServer.ts';
import { certificateFolder, hasOpenssl } from '../../../support/certificates.ts';
import { type LdapTestServer, ldapAvailable, startLdapServer } from '../../../support/ldapServer.ts';
import { sessionKeyPaths } from '../../../support/sessionKeyPair.ts';
import { startTcpProxy } from '../../../support/tcpProxy.ts';

const person = (rdn: string, uid: string, password: string, privileges: readonly string[]) =>
  [
    `dn: ${rdn},ou=people,dc=example,dc=com`,
    'objectClass: inetOrgPerson',
    `uid: ${uid}`,
    `cn: ${uid}`,
    `sn: ${uid}`,
    `userPassword: ${password}`,
    ...privileges.map((text) => `employeeType: ${text}`),
    '',
    '',
  ].join('\n');

const tree = [
  'dn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\nou: people\n\n',
  person('uid=marie', 'marie', 'radium', ['ADMIN', 'API']),
  person('uid=lise', 'lise', 'fission', ['USER']),
  person('uid=odd\\2Cname', 'odd,name', 'odd', ['API']),
  person('uid=star\\2A', 'star*', 'starry', ['API']),
  person('cn=first', 'twin', 'one', ['API']),
  person('cn=second', 'twin', 'two', ['API']),
].join('');

describe.skipIf(!ldapAvailable)('users of a real LDAP server', () => {
  const keys = sessionKeyPaths();
  const folder = mkdtempSync(join(tmpdir(), 'ldap-file-'));
  let ldap: LdapTestServer;
  let searching: ApiServer;
  let binding: ApiServer;

  const settings = (path: string) =>
    accessSettings(`
authentication:
  defaultType: form
  loginLimit: {maxAttempts: 1000}
  form:
    ldapConfigPath: ${path}
    selfSignKeyPair: {privateKeyRsa: ${keys.privateKeyRsa}, publicKeyRsa: ${keys.publicKeyRsa}}
authorization: {admin: .*ADMIN.*, user: .*USER.*, api: .*API.*, ldapConfigPath: ${path}}
presetUsers:
  machine: {password: preset, privileges: API}
`);
  const file = (name: string, lines: readonly string[], port = ldap.port) => {
    const path = join(folder, name);
    const common = [
      'ldapHost: 127.0.0.1',
      `ldapPort: ${port}`,
      'ldapAdminBindDn: cn=reader,dc=example,dc=com',
      'ldapAdminPassword: ${ENV:READER_PASSWORD}',
      'ldapGroupMemberAttribute: employeeType',
      'poolMaxTotal: 10',
    ];
    writeFileSync(path, [...common, ...lines].join('\n'));
    return path;
  };
  const environment = { READER_PASSWORD: 'reader-secret' };
  const bySearch = [
    'ldapUserBaseDn: ou=people,dc=example,dc=com',
    'ldapUserSearch: (&(objectClass=person)(uid=${USER}))',
  ];

  beforeAll(async () => {
    ldap = await startLdapServer(tree);
    searching = await startApi({
      access: settings(file('search.yaml', bySearch)),
      environment,
    });
    binding = await startApi({
      access: settings(file('bind.yaml', ['ldapUserDnPattern: uid=${USER},ou=people,dc=example,dc=com'])),
      environment,
    });
  });
  afterAll(async () => {
    await searching?.close();
    await binding?.close();
    await ldap?.stop();
  });

  const login = (api: ApiServer, username: string, password: string) =>
    api.call('POST', '/login', { body: JSON.stringify({ username, password }) });
  const rolesOf = async (api: ApiServer, token: string) => {
    const headers = { Authorization: `Bearer ${token}` };
    return (await api.call('POST', '/userinfo', { headers })).json().data?.roles;
  };

  test('log in and hold the roles of their group attribute', async () => {
    for (const api of [searching, binding]) {
      const token = (await login(api, 'marie', 'radium')).json().data.token;
      expect(await rolesOf(api, token)).toEqual(['ADMIN', 'API']);
      const headers = { Authorization: `Bearer ${token}` };
      expect((await api.call('GET', '/gateway/backend/all', { headers })).status).toBe(200);
      expect(await rolesOf(api, (await login(api, 'lise', 'fission')).json().data.token)).toEqual(['USER']);
    }
  });

  test('call by Basic, beside preset users', async () => {
    const status = async (name: string, password: string) => {
      const headers = { Authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}` };
      return (await searching.call('GET', '/gateway/backend/all', { headers })).status;
    };
    expect(await status('marie', 'radium')).toBe(200);
    expect(await status('lise', 'fission')).toBe(403);
    expect(await status('machine', 'preset')).toBe(200);
    expect(await status('machine', 'radium')).toBe(401);
  });

  test.each([
    ['a name that there is', 'marie'],
    ['a name that there is not', 'nobody'],
    ['a name of two entries', 'twin'],
  ])('take as many connections with a wrong password: %s', async (_, name) => {
    const proxy = await startTcpProxy(ldap.port);
    const counted = await startApi({
      access: settings(file('counted.yaml', bySearch, proxy.port)),
      environment,
    });
    const response = await counted.call('POST', '/login', {
      body: JSON.stringify({ username: name, password: 'wrong' }),
    });
    await counted.close();
    await proxy.close();
    expect([response.status, proxy.accepted]).toEqual([401, 2]);
  });

  test('may have names that mean something in filters and DNs', async () => {
    expect((await login(searching, 'odd,name', 'odd')).status).toBe(200);
    expect((await login(binding, 'odd,name', 'odd')).status).toBe(200);
    expect((await login(searching, 'star*', 'starry')).status).toBe(200);
  });

  test.each([
    ['a wrong password', 'marie', 'wrong'],
    ['no password', 'marie', ''],
    ['an unknown name', 'nobody', 'radium'],
    ['a wildcard', '*', 'radium'],
    ['a wildcard after a letter', 'm*', 'radium'],
    ['a filter that is closed', 'marie)(uid=*', 'radium'],
    ['a filter that is always true', '*)(|(objectClass=*', 'radium'],
    ['NUL', 'marie\0', 'radium'],
    ['another DN', 'marie,ou=people,dc=example,dc=com', 'radium'],
    ['more of the DN', 'x+uid=marie', 'radium'],
    ['a name of two entries', 'twin', 'one'],
    ['the admin', 'cn=reader', 'reader-secret'],
  ])('do not log in with %s', async (_, name, password) => {
    expect((await login(searching, name, password)).status).toBe(401);
    expect((await login(binding, name, password)).status).toBe(401);
  });

  test('are refused, but not as wrong, while the server is unavailable', async () => {
    const away = await startApi({
      access: settings(file('away.yaml', bySearch, 9)),
      environment,
    });
    const response = await login(away, 'marie', 'radium');
    expect([response.status, response.json().error.code]).toEqual([503, 'EG_IDENTITY_UNAVAILABLE']);
    expect(away.logged.join('\n')).not.toContain('radium');
    await away.close();
  });

  test('are not let in when the server refuses the account that searches', async () => {
    const path = file('refused.yaml', bySearch);
    const refused = await startApi({
      access: settings(path),
      environment: { READER_PASSWORD: 'x' },
    });
    expect((await login(refused, 'marie', 'radium')).status).toBe(503);
    expect(refused.logged.join('\n')).toContain('the server rejects ldapAdminBindDn with ldapAdminPassword');
    await refused.close();
  });

  describe.skipIf(!hasOpenssl)('over TLS', () => {
    const certificates = certificateFolder();
    const trusted = certificates.authority('trusted');
    const stranger = certificates.authority('stranger');
    let secure: LdapTestServer;
    let elsewhere: LdapTestServer;
    beforeAll(async () => {
      const here = trusted.issue(['IP:127.0.0.1', 'DNS:localhost']);
      const other = trusted.issue(['DNS:ldap.example']);
      secure = await startLdapServer(tree, { cert: here.file, key: here.file });
      elsewhere = await startLdapServer(tree, { cert: other.file, key: other.file });
    });
    afterAll(async () => {
      await secure?.stop();
      await elsewhere?.stop();
      certificates.dispose();
    });

    const over = (way: string, server: LdapTestServer, trust: string | null) => {
      const port = way === 'StartTLS' ? server.port : (server.tlsPort ?? 0);
      const lines = [way === 'StartTLS' ? 'useTls: true' : 'useSsl: true', ...bySearch];
      if (trust !== null) lines.push(`ldapTrustStorePath: ${trust}`);
      return startApi({ access: settings(file('tls.yaml', lines, port)), environment });
    };

    test.each(['StartTLS', 'ldaps'])('by %s, at once and one after the other', async (way) => {
      const api = await over(way, secure, trusted.file);
      const logins = await Promise.all(Array.from({ length: 6 }, () => login(api, 'marie', 'radium')));
      expect(logins.map(({ status }) => status)).toEqual(logins.map(() => 200));
      expect(await rolesOf(api, logins[0]?.json().data.token)).toEqual(['ADMIN', 'API']);
      expect((await login(api, 'lise', 'fission')).status).toBe(200);
      expect((await login(api, 'marie', 'wrong')).status).toBe(401);
      await api.close();
    });

    test.each([
      ['StartTLS', 'another authority', () => secure, () => stranger.file, 'UNABLE_TO_'],
      ['ldaps', 'another authority', () => secure, () => stranger.file, 'UNABLE_TO_'],
      ['StartTLS', "only the system's authorities", () => secure, () => null, 'UNABLE_TO_'],
      ['ldaps', "only the system's authorities", () => secure, () => null, 'UNABLE_TO_'],
      [
        'StartTLS',
        'the certificate of another host',
        () => elsewhere,
        () => trusted.file,
        'ERR_TLS_CERT_ALTNAME_INVALID',
      ],
      ['ldaps', 'the certificate of another host', () => elsewhere, () => trusted.file, 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ])('by %s, not with %s', async (way, _why, server, trust, code) => {
      const api = await over(way, server(), trust());
      const response = await login(api, 'marie', 'radium');
      expect([response.status, response.json().error.code]).toEqual([503, 'EG_IDENTITY_UNAVAILABLE']);
      expect(response.json().msg).toContain("The LDAP server's certificate is not accepted");
      expect(response.json().msg).toContain(code);
      expect(api.logged.join('\n')).not.toContain('radium');
      await api.close();
    });

    test('by StartTLS, not without it where the server has none', async () => {
      const api = await over('StartTLS', ldap, trusted.file);
      expect((await login(api, 'marie', 'radium')).status).toBe(503);
      await api.close();
    });
  });

  test.each([
    ['a key that is not known', ['ldapUserSearsh: (uid=${USER})'], 'did you mean "ldapUserSearch"'],
    [
      'a filter without the name',
      ['ldapUserBaseDn: dc=x', 'ldapUserSearch: (uid=admin)'],
      'must be a filter that holds ${USER}',
    ],
    ['no way to find users', [], 'must be given with ldapUserBaseDn'],
    [
      'a trust store without certificates',
      [...bySearch, `ldapTrustStorePath: ${keys.privateKeyRsa}`],
      'holds no certificate in PEM form; convert a Java key store: keytool -list -rfc -keystore ',
    ],
  ])('stop the start with %s', async (_, lines, message) => {
    const path = file('mistake.yaml', lines);
    await expect(startApi({ access: settings(path), environment })).rejects.toThrow(message);
  });
});
