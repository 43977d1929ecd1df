import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UnsecuredJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accessSettings } from '../../../support/access.ts';
import { type Answer, type ApiServer, startApi } from '../../../support/apiServer.ts';
import { type LdapTestServer, ldapAvailable, startLdapServer } from '../../../support/ldapServer.ts';
import { type OidcServer, startOidcProvider } from '../../../support/oidcProvider.ts';
import { sessionKeyPair } from '../../../support/sessionKeyPair.ts';

const host = 'http://gateway.example';
const folder = mkdtempSync(join(tmpdir(), 'logins-'));
const pair = sessionKeyPair();
let ldap: LdapTestServer;
/** The organisation's provider (`authentication.oauth`), that of its partners, and the issuer of programs' tokens. */
let own: OidcServer;
let partners: OidcServer;
let programs: OidcServer;
let api: ApiServer;

const ldapFile = (port: number) => {
  const path = join(folder, `ldap-${port}.yaml`);
  writeFileSync(
    path,
    `ldapHost: 127.0.0.1
ldapPort: ${port}
ldapAdminBindDn: cn=reader,dc=example,dc=com
ldapAdminPassword: reader-secret
ldapUserBaseDn: ou=people,dc=example,dc=com
ldapUserSearch: (uid=\${USER})
ldapGroupMemberAttribute: title
`,
  );
  return path;
};

const settings = (ldapPath: string, order = '[ldap, presetUsers]') =>
  accessSettings(`
authentication:
  form:
    selfSignKeyPair: {privateKeyRsa: ${pair.privateKeyRsa}, publicKeyRsa: ${pair.publicKeyRsa}}
    ldapConfigPath: ${ldapPath}
    order: ${order}
  oauth:
    label: Example Corp
    issuer: ${own.issuer}
    clientId: ${own.clientId}
    clientSecret: ${own.clientSecret}
    redirectUrl: ${host}/oidc/callback
    redirectWebUrl: /engine-gateway
    scopes: [openid]
    privilegesField: groups
  providers:
    partners:
      label: Partners
      issuer: ${partners.issuer}
      clientId: ${partners.clientId}
      clientSecret: ${partners.clientSecret}
      redirectUrl: ${host}/oidc/callback/partners
      redirectWebUrl: /engine-gateway/history
      logoutRedirectUrl: ${host}/engine-gateway
      scopes: [openid]
      privilegesField: groups
      roles: {user: .*USER.*}
  tokenIssuers:
    ci:
      issuer: ${programs.issuer}
      audiences: [https://gateway.example]
      algorithms: [RS256]
      requiredClaims: {repository_owner: example, email_verified: "true"}
      userIdField: repository
      privilegesField: environment
      roles: {api: production}
authorization: {admin: .*ADMIN.*, user: .*USER.*, api: .*API.*, ldapConfigPath: ${ldapPath}}
presetUsers:
  ada: {password: ada-secret, privileges: ADMIN_USER_API}
  # Without a password nobody logs in by this name.
  partners/admin: {privileges: ADMIN}
`);

beforeAll(async () => {
  ldap = await startLdapServer(
    `dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
ou: people

dn: uid=lise,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: lise
cn: lise
sn: lise
title: USER
userPassword: lise-secret
`,
  );
  own = await startOidcProvider(`${host}/oidc/callback`);
  partners = await startOidcProvider(`${host}/oidc/callback/partners`, 'gateway', {
    // Whatever the partners' provider says: it cannot make administrators here.
    groups: { grace: ['ADMIN', 'USER', 'API'], olaf: ['OTHER'] },
    logoutRedirectUri: `${host}/engine-gateway`,
  });
  programs = await startOidcProvider(`${host}/unused`);
  api = await startApi({ access: settings(ldapFile(ldap.port)) });
});
afterAll(async () => {
  await api?.close();
  for (const server of [own, partners, programs]) await server?.close();
  await ldap?.stop();
  rmSync(folder, { recursive: true });
});

function cookie(response: Answer, name: string): string | undefined {
  return (response.headers['set-cookie'] ?? [])
    .map((line) => line.split(';')[0] ?? '')
    .find((text) => text.startsWith(`${name}=`));
}

async function begin(path: string) {
  const response = await api.call('POST', path);
  expect(response.status).toBe(200);
  return { url: response.json().data as string, state: cookie(response, 'Engine-Gateway-OIDC') ?? '' };
}

const finish = (path: string, query: string, state: string) =>
  api.call('GET', `${path}${query}`, { headers: { Cookie: state } });

/** Session of a user who logs in at a provider, as headers of calls. */
async function sessionAt(provider: OidcServer, name: string, user: string): Promise<Record<string, string>> {
  const begun = await begin(`/sso${name}`);
  const answered = await provider.login(begun.url, user);
  const done = await finish(answered.pathname, answered.search, begun.state);
  expect([done.status, done.text]).toEqual([302, '']);
  const csrf = cookie(done, 'Engine-Gateway-CSRF')?.split('=')[1] ?? '';
  return { Cookie: cookie(done, 'Engine-Gateway-Session') ?? '', 'X-Engine-Gateway-CSRF': csrf };
}

async function sessionOf(username: string, password: string): Promise<Record<string, string>> {
  const response = await api.call('POST', '/login', { body: JSON.stringify({ username, password }) });
  expect(response.status).toBe(200);
  return { Authorization: `Bearer ${response.json().data.token}` };
}

const whoIs = async (headers: Record<string, string>) =>
  (await api.call('POST', '/userinfo', { headers })).json().data as unknown;

describe.skipIf(!ldapAvailable)('several ways of logging in at once', () => {
  test('are listed, and the one that the reference would name is named', async () => {
    expect((await api.call('GET', '/api/logins')).json()).toEqual({
      methods: [
        { kind: 'form' },
        { kind: 'provider', name: 'oauth', label: 'Example Corp' },
        { kind: 'provider', name: 'partners', label: 'Partners' },
      ],
    });
    expect((await api.call('POST', '/loginType')).json()).toEqual({ code: 200, msg: 'Ok', data: 'form' });
  });

  test.each<[string, () => Promise<Record<string, string>>, string, string, readonly string[]]>([
    ['a preset user', () => sessionOf('ada', 'ada-secret'), 'ada', 'presetUsers', ['ADMIN', 'USER', 'API']],
    ['a user of LDAP', () => sessionOf('lise', 'lise-secret'), 'lise', 'ldap', ['USER']],
    ['of the own provider', () => sessionAt(own, '', 'grace'), 'grace', 'oauth', ['ADMIN', 'USER', 'API']],
    ['of the own provider, by its name', () => sessionAt(own, '/oauth', 'linus'), 'linus', 'oauth', ['USER']],
    ['of the partners', () => sessionAt(partners, '/partners', 'grace'), 'partners/grace', 'partners', ['USER']],
  ])('%s', async (_, logIn, userId, method, roles) => {
    const headers = await logIn();
    expect(await whoIs(headers)).toEqual({ roles, permissions: [], userId, userName: userId, method });
    expect((await api.call('POST', '/logout', { headers })).status).toBe(200);
    expect((await api.call('POST', '/userinfo', { headers })).status).toBe(401);
    const sessions = api.logged.filter((line) => line.includes(`session of ${userId}`)).map((line) => JSON.parse(line));
    expect(sessions.slice(-2).map(({ audit }) => [audit.before, audit.after])).toEqual([
      [null, { by: method }],
      [{ by: method }, null],
    ]);
  });

  test('a user of the partners without a privilege that counts there has no role', async () => {
    const headers = await sessionAt(partners, '/partners', 'olaf');
    expect((await api.call('POST', '/userinfo', { headers })).status).toBe(403);
  });

  test('a login leads to the page of its provider, and a logout to its end there', async () => {
    const begun = await begin('/sso/partners');
    const answered = await partners.login(begun.url, 'grace');
    const done = await finish(answered.pathname, answered.search, begun.state);
    expect(done.headers.location).toBe('/engine-gateway/history');
    const headers = {
      Cookie: cookie(done, 'Engine-Gateway-Session') ?? '',
      'X-Engine-Gateway-CSRF': cookie(done, 'Engine-Gateway-CSRF')?.split('=')[1] ?? '',
    };
    const left = new URL((await api.call('POST', '/logout', { headers })).json().data as string);
    expect([left.origin, left.pathname, Object.fromEntries(left.searchParams)]).toEqual([
      partners.issuer,
      '/session/end',
      { client_id: partners.clientId, post_logout_redirect_uri: `${host}/engine-gateway` },
    ]);
    expect((await fetch(left)).status).toBe(200);
    const other = await sessionAt(own, '', 'grace');
    expect((await api.call('POST', '/logout', { headers: other })).json().data).toBeUndefined();
  });

  test('a wrong password is the same answer for every name, at every place', async () => {
    const responses = await Promise.all(
      ['ada', 'lise', 'nobody', 'partners/admin'].map((username) =>
        api.call('POST', '/login', { body: JSON.stringify({ username, password: 'wrong' }) }),
      ),
    );
    expect(
      new Set(responses.map(({ status, text }) => `${status} ${text.replace(/"requestId":"[^"]*"/, '')}`)).size,
    ).toBe(1);
    expect(responses[0]?.status).toBe(401);
  });

  test('with presetUsers first they log in while the LDAP server is unavailable, and a wrong password says nothing', async () => {
    const away = ldapFile(1);
    const log = async (at: ApiServer, username: string, password: string) =>
      (await at.call('POST', '/login', { body: JSON.stringify({ username, password }) })).status;
    const presetsFirst = await startApi({ access: settings(away, '[presetUsers, ldap]') });
    expect(await log(presetsFirst, 'ada', 'ada-secret')).toBe(200);
    expect([await log(presetsFirst, 'ada', 'x'), await log(presetsFirst, 'nobody', 'x')]).toEqual([503, 503]);
    await presetsFirst.close();
    const ldapFirst = await startApi({ access: settings(away) });
    expect(await log(ldapFirst, 'ada', 'ada-secret')).toBe(503);
    await ldapFirst.close();
  });

  test.each([
    [
      '/sso/nobody',
      'There is no OpenID provider of this name (authentication.providers); log in by POST /sso/partners.',
    ],
    [
      '/sso/constructor',
      'There is no OpenID provider of this name (authentication.providers); log in by POST /sso/partners.',
    ],
  ])('%s is refused', async (path, message) => {
    const response = await api.call('POST', path);
    expect([response.status, response.json().msg]).toEqual([422, message]);
  });
});

describe.skipIf(!ldapAvailable)('answers of providers cannot be mixed up', () => {
  const tokenCalls = () => [own.calls.get('/token') ?? 0, partners.calls.get('/token') ?? 0];

  test.each<[string, () => Promise<Answer>]>([
    [
      'a login of one, finished at the callback of the other',
      async () => {
        const begun = await begin('/sso');
        const answered = await own.login(begun.url, 'grace');
        return finish('/oidc/callback/partners', answered.search, begun.state);
      },
    ],
    [
      'the other way round',
      async () => {
        const begun = await begin('/sso/partners');
        const answered = await partners.login(begun.url, 'grace');
        return finish('/oidc/callback', answered.search, begun.state);
      },
    ],
    [
      'the code of one with the state of a login at the other',
      async () => {
        const [first, second] = [await begin('/sso'), await begin('/sso/partners')];
        const answered = await partners.login(second.url, 'grace');
        const query = new URLSearchParams(answered.search);
        query.set('state', new URL(first.url).searchParams.get('state') ?? '');
        return finish('/oidc/callback', `?${query}`, first.state);
      },
    ],
    [
      'an answer that names the other as its issuer (RFC 9207)',
      async () => {
        const begun = await begin('/sso/partners');
        const answered = await partners.login(begun.url, 'grace');
        const query = new URLSearchParams(answered.search);
        query.set('iss', own.issuer);
        return finish('/oidc/callback/partners', `?${query}`, begun.state);
      },
    ],
    [
      'an answer that names no issuer, where the provider says that it does',
      async () => {
        const begun = await begin('/sso/partners');
        const answered = await partners.login(begun.url, 'grace');
        const query = new URLSearchParams(answered.search);
        query.delete('iss');
        return finish('/oidc/callback/partners', `?${query}`, begun.state);
      },
    ],
  ])('%s', async (_, attack) => {
    const before = tokenCalls();
    const refused = await attack();
    expect([refused.status, refused.json().error.code]).toEqual([401, 'EG_UNAUTHENTICATED']);
    expect(cookie(refused, 'Engine-Gateway-Session')).toBeUndefined();
    // No provider was shown the code of another.
    expect(tokenCalls()).toEqual(before);
  });
});

describe.skipIf(!ldapAvailable)('bearer tokens', () => {
  const now = () => Math.floor(Date.now() / 1000);
  const times = () => ({ iat: now(), exp: now() + 60 });
  const ofOwn = () => ({ iss: own.issuer, aud: own.clientId, sub: 'grace', groups: ['ADMIN', 'API'], ...times() });
  const ofPartners = () => ({
    iss: partners.issuer,
    aud: partners.clientId,
    sub: 'grace',
    groups: ['ADMIN', 'API', 'USER'],
    ...times(),
  });
  const ofPrograms = () => ({
    iss: programs.issuer,
    aud: ['https://gateway.example', 'other'],
    repository: 'example/etl',
    repository_owner: 'example',
    email_verified: true,
    environment: 'production',
    ...times(),
  });
  const registry = (token: string) =>
    api.call('GET', '/gateway/backend/all', { headers: { Authorization: `Bearer ${token}` } });

  // All three have the key id provider-key: it means nothing beyond its issuer.
  test.each<[string, () => Promise<string> | string, number, RegExp?]>([
    ['of the own provider', () => own.sign(ofOwn()), 200],
    ['of the partners: no role API', () => partners.sign(ofPartners()), 403, /"partners\/grace" lacks the role API/],
    ['of the issuer for programs', () => programs.sign(ofPrograms()), 200],
    [
      'for another environment',
      () => programs.sign({ ...ofPrograms(), environment: 'staging' }),
      403,
      /"ci\/example\/etl" lacks/,
    ],
    [
      'signed by the partners in the name of the own provider',
      () => partners.sign(ofOwn()),
      401,
      /not a valid one of the provider/,
    ],
    ['signed by the own provider in the name of the partners', () => own.sign(ofPartners()), 401],
    [
      'signed by a provider in the name of the issuer for programs',
      () => own.sign(ofPrograms()),
      401,
      /not a valid one of its issuer/,
    ],
    ['signed for programs in the name of the own provider', () => programs.sign(ofOwn()), 401],
    [
      'of the partners for the audience of another',
      () => partners.sign({ ...ofPartners(), aud: 'else' }),
      401,
      /another audience/,
    ],
    [
      'of the own provider with a name of the partners',
      () => own.sign({ ...ofOwn(), sub: 'partners/grace' }),
      401,
      /names a user of another issuer/,
    ],
    [
      'of the partners with a name of programs',
      () => partners.sign({ ...ofPartners(), sub: '../ci/example/etl' }),
      403,
    ],
    ['unsigned, in the name of the issuer for programs', () => new UnsecuredJWT(ofPrograms()).encode(), 401],
    ['unsigned, in the name of the partners', () => new UnsecuredJWT(ofPartners()).encode(), 401],
    [
      'without a required claim',
      () => programs.sign({ ...ofPrograms(), repository_owner: undefined }),
      401,
      /claim repository_owner/,
    ],
    [
      'with another value of it',
      () => programs.sign({ ...ofPrograms(), repository_owner: 'evil' }),
      401,
      /claim repository_owner/,
    ],
    [
      'with a required truth value as another',
      () => programs.sign({ ...ofPrograms(), email_verified: false }),
      401,
      /claim email_verified/,
    ],
    [
      'for programs, for another audience',
      () => programs.sign({ ...ofPrograms(), aud: 'other' }),
      401,
      /another audience/,
    ],
    ['for programs, without audience', () => programs.sign({ ...ofPrograms(), aud: undefined }), 401],
    ['for programs, without end', () => programs.sign({ ...ofPrograms(), exp: undefined }), 401],
    ['for programs, run out', () => programs.sign({ ...ofPrograms(), exp: now() - 60 }), 401, /has run out/],
    ['for programs, with an algorithm that is not theirs', () => programs.sign(ofPrograms(), { alg: 'PS256' }), 401],
    ['for programs, with an unknown key', () => programs.sign(ofPrograms(), { kid: 'unknown' }), 401],
    [
      'of an issuer that nobody knows',
      () => own.sign({ ...ofOwn(), iss: 'https://evil.example' }),
      401,
      /"https:\/\/evil\.example", which is not one of authentication\.tokenIssuers/,
    ],
    [
      'of an issuer that only looks like one',
      () => programs.sign({ ...ofPrograms(), iss: `${programs.issuer}/` }),
      401,
      /authentication\.tokenIssuers/,
    ],
    ['of an issuer that is a list', () => programs.sign({ ...ofPrograms(), iss: [programs.issuer] as never }), 401],
  ])('%s', async (_, make, status, message = /./) => {
    const token = await make();
    const response = await registry(token);
    expect(response.text).not.toContain(token);
    expect([response.status, response.json().error?.message ?? 'ok']).toEqual([status, expect.stringMatching(message)]);
  });

  test('are counted by issuer, and nothing secret was logged', async () => {
    const lines = (await api.metrics.metrics())
      .split('\n')
      .filter((line) => line.startsWith('engine_gateway_api_tokens'));
    for (const issuer of ['oauth', 'partners', 'ci']) {
      expect(lines).toContainEqual(expect.stringMatching(`issuer="${issuer}",result="accepted"`));
      expect(lines).toContainEqual(expect.stringMatching(`issuer="${issuer}",result="refused"`));
    }
    const log = api.logged.join('\n');
    for (const secret of [own.clientSecret, 'ada-secret', 'lise-secret', 'reader-secret'])
      expect(log).not.toContain(secret);
  });
});
