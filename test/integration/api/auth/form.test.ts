import { scryptSync } from 'node:crypto';
import bcrypt from 'bcrypt';
import { SignJWT, UnsecuredJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accessSettings, TestClock } from '../../../support/access.ts';
import { type ApiServer, type Call, startApi } from '../../../support/apiServer.ts';
import { sessionKeyPair } from '../../../support/sessionKeyPair.ts';

const keys = sessionKeyPair();
const salt = Buffer.from('0123456789abcdef');
const scryptHash = scryptSync('scrypt pass', salt, 32, { N: 1024, r: 8, p: 1 }).toString('base64');

const clock = new TestClock();
const cluster = { name: 'c1', proxyTo: 'http://c1:8080', active: true, routingGroup: 'adhoc' };
let api: ApiServer;

const settings = (more = '') =>
  accessSettings(`
authentication:
  defaultType: form
  loginLimit: {maxAttempts: 3, window: 1m}
  form:
    selfSignKeyPair: {privateKeyRsa: ${keys.privateKeyRsa}, publicKeyRsa: ${keys.publicKeyRsa}}
authorization:
  admin: .*ADMIN.*
  user: .*USER.*
  api: .*API.*
presetUsers:
  root: {password: plain pass, privileges: ADMIN_USER_API}
  ada: {password: ${bcrypt.hashSync('bcrypt pass', 4)}, privileges: ADMIN}
  uli: {password: "$scrypt$ln=10,r=8,p=1$${salt.toString('base64')}$${scryptHash}", privileges: USER}
  abe: {password: pässword:with colon, privileges: API}
  nil: {password: nothing}
  guess: {password: secret, privileges: USER}
  guess2: {password: secret, privileges: USER}
${more}`);

beforeAll(async () => {
  api = await startApi({ access: settings(), accessDependencies: { clock } });
});
afterAll(() => api.close());

const basic = (name: string, password: string, encoding: BufferEncoding = 'utf8') => ({
  Authorization: `Basic ${Buffer.from(`${name}:${password}`, encoding).toString('base64')}`,
});
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
const login = (username: unknown, password: unknown, call: Call = {}) =>
  api.call('POST', '/login', { ...call, body: JSON.stringify({ username, password }) });
const tokenOf = async (username: string, password: string): Promise<string> =>
  (await login(username, password)).json().data.token;

/** Cookies of an answer by name, with their attributes. */
function cookiesOf(headers: {
  readonly 'set-cookie'?: string[] | undefined;
}): Map<string, { value: string; attributes: string }> {
  return new Map(
    (headers['set-cookie'] ?? []).map((line) => {
      const [, name = '', value = '', attributes = ''] = /^([^=]+)=([^;]*); (.*)$/.exec(line) ?? [];
      return [name, { value, attributes }];
    }),
  );
}

test('says how to log in', async () => {
  expect((await api.call('POST', '/loginType')).json()).toEqual({ code: 200, msg: 'Ok', data: 'form' });
});

test.each([
  ['root', 'plain pass', ['ADMIN', 'USER', 'API']],
  ['ada', 'bcrypt pass', ['ADMIN']],
  ['uli', 'scrypt pass', ['USER']],
])('%s logs in, gets the user, and logs out', async (name, password, roles) => {
  const token = await tokenOf(name, password);
  const info = await api.call('POST', '/userinfo', { headers: bearer(token) });
  expect(info.json().data).toEqual({ roles, permissions: [], userId: name, userName: name });
  expect((await api.call('POST', '/logout', { headers: bearer(token) })).json()).toEqual({
    code: 200,
    msg: 'Successful.',
  });
  const after = await api.call('POST', '/userinfo', { headers: bearer(token) });
  expect(after.status).toBe(401);
  expect(after.headers['www-authenticate']).toBe(
    'Bearer realm="Engine Gateway", error="invalid_token", Basic realm="Engine Gateway", charset="UTF-8"',
  );
  expect(after.json()).toEqual({
    code: 401,
    msg: 'The session was ended by logging out.',
    error: { code: 'EG_UNAUTHENTICATED', message: 'The session was ended by logging out.' },
  });
});

test.each([
  ['root', 'wrong'],
  ['root', ''],
  ['', 'plain pass'],
  ['nobody', 'plain pass'],
  ['constructor', 'x'],
  ['uli', `$scrypt$ln=10,r=8,p=1$${salt.toString('base64')}$${scryptHash}`],
])('%j with %j does not log in', async (name, password) => {
  const response = await login(name, password);
  expect([response.status, response.json().code, response.json().msg]).toEqual([401, 401, 'Authentication failed.']);
  expect(response.headers['set-cookie']).toBeUndefined();
});

test.each([['{"username":"root"}'], ['{"username":null,"password":"x"}'], ['[]'], ['nonsense'], ['']])(
  'the login %s is malformed',
  async (body) => {
    const response = await api.call('POST', '/login', { body });
    expect([response.status, response.json().error.code]).toEqual([400, 'EG_MALFORMED']);
  },
);

describe('roles', () => {
  test('a refusal says what is missing', async () => {
    const response = await api.call('GET', '/gateway/backend/all', { headers: basic('ada', 'bcrypt pass') });
    expect(response.json()).toEqual({
      error: { code: 'EG_FORBIDDEN', message: '"ada" lacks the role API, which this call needs.' },
    });
  });

  test('taking fields over needs ADMIN as well', async () => {
    const call = { headers: basic('abe', 'pässword:with colon'), body: JSON.stringify(cluster) };
    expect((await api.call('POST', '/gateway/backend/modify/update?force=true', call)).status).toBe(403);
    expect((await api.call('POST', '/gateway/backend/modify/update?force=false', call)).status).toBe(200);
    const root = { ...call, headers: basic('root', 'plain pass') };
    expect((await api.call('POST', '/gateway/backend/modify/update?force=true', root)).status).toBe(200);
  });
});

describe('Authorization', () => {
  test.each([
    ['Basic in ISO-8859-1', basic('abe', 'pässword:with colon', 'latin1'), 200],
    [
      'Basic in lower case',
      { Authorization: basic('root', 'plain pass').Authorization.replace('Basic', 'basic') },
      200,
    ],
    ['Basic, wrong password', basic('abe', 'wrong'), 401],
    ['Basic without colon', { Authorization: `Basic ${Buffer.from('root').toString('base64')}` }, 401],
    ['Basic without anything', { Authorization: 'Basic' }, 401],
    ['another scheme', { Authorization: 'Negotiate abc' }, 401],
    ['Bearer without token', { Authorization: 'Bearer ' }, 401],
    ['nothing', {}, 401],
  ])('%s', async (_, headers, status) => {
    const response = await api.call('GET', '/gateway/backend/all', { headers });
    expect([response.status, response.headers['www-authenticate'] !== undefined]).toEqual([status, status === 401]);
  });

  test('the message names the credentials that are accepted', async () => {
    const response = await api.call('GET', '/gateway/backend/all');
    expect(response.json().error).toEqual({
      code: 'EG_UNAUTHENTICATED',
      message:
        'The request has no credentials. Send the header Authorization: Basic with name and password; or log in at /engine-gateway.',
    });
  });

  test('browsers are not made to ask for a password by themselves', async () => {
    const response = await api.call('GET', '/gateway/backend/all', { headers: { 'Sec-Fetch-Mode': 'cors' } });
    expect(response.headers['www-authenticate']).toBe('Bearer realm="Engine Gateway"');
  });
});

describe('tokens that are not accepted', () => {
  const now = () => Math.floor(Date.now() / 1000);
  const claims = { org: { kind: 'oauth', privileges: 'ADMIN_USER_API' }, csrf: 'x' };
  const jwt = (more: object = {}, typ = 'session+jwt') =>
    new SignJWT({
      ...claims,
      jti: 'a',
      iss: 'EngineGateway',
      aud: 'EngineGateway',
      sub: 'root',
      exp: now() + 60,
      ...more,
    }).setProtectedHeader({ alg: 'RS256', typ });
  const other = sessionKeyPair();
  const publicPem = new TextEncoder().encode(keys.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
  test.each<[string, () => Promise<string> | string]>([
    ['signed by another key', () => jwt().sign(other.privateKey)],
    ['of another type', () => jwt({}, 'JWT').sign(keys.privateKey)],
    ['of another issuer', () => jwt({ iss: 'self' }).sign(keys.privateKey)],
    ['of another audience', () => jwt({ aud: 'x' }).sign(keys.privateKey)],
    ['run out', () => jwt({ exp: now() - 1 }).sign(keys.privateKey)],
    ['without end', () => jwt({ exp: undefined }).sign(keys.privateKey)],
    ['of a way of logging in that is not configured', () => jwt().sign(keys.privateKey)],
    ['of a user whose password has changed', () => jwt({ org: { kind: 'preset', mark: 'old' } }).sign(keys.privateKey)],
    ['of a user who is gone', () => jwt({ sub: 'gone', org: { kind: 'preset', mark: '' } }).sign(keys.privateKey)],
    ['unsigned', () => new UnsecuredJWT({ ...claims, iss: 'EngineGateway', sub: 'root' }).encode()],
    [
      'signed with the public key as a shared secret',
      () =>
        new SignJWT({ ...claims, jti: 'a', iss: 'EngineGateway', aud: 'EngineGateway', sub: 'root', exp: now() + 60 })
          .setProtectedHeader({ alg: 'HS256', typ: 'session+jwt' })
          .sign(publicPem),
    ],
    ['no JWT', () => 'nonsense'],
    ['endless', () => 'a'.repeat(12_000)],
  ])('%s', async (_, make) => {
    const token = await make();
    const response = await api.call('GET', '/gateway/backend/all', { headers: bearer(token) });
    expect(response.status).toBe(401);
    expect(response.text).not.toContain(token);
  });

  test('changed after it was signed', async () => {
    const [head, , signature] = (await tokenOf('uli', 'scrypt pass')).split('.');
    const payload = Buffer.from(JSON.stringify({ sub: 'root' })).toString('base64url');
    const forged = bearer(`${head}.${payload}.${signature}`);
    expect((await api.call('POST', '/userinfo', { headers: forged })).status).toBe(401);
  });

  test('after its lifetime', async () => {
    const token = await tokenOf('root', 'plain pass');
    clock.ahead += 12 * 3_600_000 - 60_000;
    expect((await api.call('POST', '/userinfo', { headers: bearer(token) })).status).toBe(200);
    clock.ahead += 61_000;
    const response = await api.call('POST', '/userinfo', { headers: bearer(token) });
    expect([response.status, response.json().msg]).toEqual([401, 'The session has run out.']);
  });
});

describe('cookies', () => {
  test('hold the session, out of reach of scripts', async () => {
    const cookies = cookiesOf((await login('root', 'plain pass')).headers);
    expect(cookies.get('Engine-Gateway-Session')?.attributes).toBe('Max-Age=43200; Path=/; SameSite=Strict; HttpOnly');
    expect(cookies.get('Engine-Gateway-CSRF')?.attributes).toBe('Max-Age=43200; Path=/; SameSite=Strict');
  });

  test('are Secure behind TLS, with names that browsers guard', async () => {
    const behind = await startApi({ access: settings(), accessDependencies: { trustPeer: () => true } });
    const headers = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'gateway.example' };
    const response = await behind.call('POST', '/login', {
      headers,
      body: '{"username":"root","password":"plain pass"}',
    });
    const cookies = cookiesOf(response.headers);
    expect(cookies.get('__Host-Engine-Gateway-Session')?.attributes).toContain('; HttpOnly; Secure');
    expect(cookies.get('__Host-Engine-Gateway-CSRF')?.attributes).toContain('; Secure');
    const cookie = `__Host-Engine-Gateway-Session=${cookies.get('__Host-Engine-Gateway-Session')?.value}`;
    const read = { ...headers, Cookie: cookie };
    expect((await behind.call('GET', '/gateway/backend/all', { headers: read })).status).toBe(200);
    await behind.close();
  });

  test('writes need the token header, and an origin of our own', async () => {
    const cookies = cookiesOf((await login('root', 'plain pass')).headers);
    const Cookie = `x=1; Engine-Gateway-Session=${cookies.get('Engine-Gateway-Session')?.value}`;
    const csrf = cookies.get('Engine-Gateway-CSRF')?.value ?? '';
    const body = JSON.stringify(cluster);
    const write = async (headers: Record<string, string>) =>
      (await api.call('POST', '/gateway/backend/modify/update', { headers: { Cookie, ...headers }, body })).status;
    const token = { 'X-Engine-Gateway-CSRF': csrf };
    expect((await api.call('GET', '/gateway/backend/all', { headers: { Cookie } })).status).toBe(200);
    expect(await write({})).toBe(403);
    expect(await write({ 'X-Engine-Gateway-CSRF': `${csrf}x` })).toBe(403);
    expect(await write(token)).toBe(200);
    expect(await write({ ...token, Origin: 'https://evil.example' })).toBe(403);
    expect(await write({ ...token, Origin: 'null' })).toBe(403);
    expect(await write({ ...token, Origin: api.url })).toBe(200);
    expect(await write({ ...token, Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' })).toBe(403);
    expect(await write({ ...token, Origin: api.url, 'Sec-Fetch-Site': 'same-site' })).toBe(403);
    expect(await write({ ...token, 'Sec-Fetch-Site': 'same-origin' })).toBe(200);
  });

  test('go at logout, and the session with them', async () => {
    const before = cookiesOf((await login('root', 'plain pass')).headers);
    const Cookie = `Engine-Gateway-Session=${before.get('Engine-Gateway-Session')?.value}; Engine-Gateway-CSRF=a`;
    const response = await api.call('POST', '/logout', { headers: { Cookie } });
    expect(
      [...cookiesOf(response.headers)].map(([name, { value, attributes }]) => [name, value, attributes.slice(0, 9)]),
    ).toEqual([
      ['Engine-Gateway-Session', '', 'Max-Age=0'],
      ['Engine-Gateway-CSRF', '', 'Max-Age=0'],
    ]);
    expect((await api.call('GET', '/gateway/backend/all', { headers: { Cookie } })).status).toBe(401);
  });
});

test('the log has every change with user, before and after, and no secret', async () => {
  const start = api.logged.length;
  const token = await tokenOf('root', 'plain pass');
  const body = JSON.stringify({ ...cluster, name: 'audited' });
  await api.call('POST', '/gateway/backend/modify/add', { headers: bearer(token), body });
  await api.call('POST', '/gateway/backend/deactivate/audited', { headers: bearer(token) });
  await api.call('POST', '/gateway/backend/modify/delete', { headers: bearer(token), body: 'audited' });
  await api.call('POST', '/gateway/backend/modify/delete', { headers: basic('uli', 'scrypt pass'), body: 'audited' });
  const lines = api.logged.slice(start).map((line) => JSON.parse(line));
  const stored = { ...cluster, name: 'audited', externalUrl: 'http://c1:8080' };
  const who = { user: 'root', recognisedBy: 'session', roles: ['ADMIN', 'USER', 'API'] };
  const at = { ...who, address: '127.0.0.1', status: 200, object: 'cluster audited' };
  expect(lines.filter(({ audit }) => audit?.object === 'cluster audited').map(({ audit }) => audit)).toMatchObject([
    { ...at, path: '/gateway/backend/modify/add', before: null, after: stored },
    { ...at, path: '/gateway/backend/deactivate/audited', before: stored, after: { ...stored, active: false } },
    { ...at, path: '/gateway/backend/modify/delete', before: { ...stored, active: false }, after: null },
  ]);
  expect(api.changes.filter(({ object }) => object === 'cluster audited')).toMatchObject([
    { ...who, before: null, after: stored, regarding: { name: 'audited' } },
    { ...who, before: stored, after: { active: false } },
    { ...who, before: { active: false }, after: null },
  ]);
  // A session that begins or ends is in the log alone.
  expect(api.changes.filter(({ object }) => object.startsWith('session'))).toEqual([]);
  expect(lines.find(({ msg }) => msg === 'call rejected').audit).toMatchObject({ user: 'uli', status: 403 });
  const all = api.logged.join('\n');
  for (const secret of ['plain pass', 'scrypt pass', 'bcrypt pass', token]) expect(all).not.toContain(secret);
});

test('the open API lets every call pass, says so, and knows its own pages from others', async () => {
  const open = await startApi();
  expect((await open.call('POST', '/loginType')).json().data).toBe('none');
  expect((await open.call('POST', '/login', { body: '{"username":"me","password":"x"}' })).json().data).toEqual({
    token: 'me',
  });
  const info = await open.call('POST', '/userinfo');
  expect(info.json().data).toEqual({
    roles: ['ADMIN', 'USER', 'API'],
    permissions: [],
    userId: 'user',
    userName: 'user',
  });
  expect(open.logged.join('\n')).toContain('authentication is not configured');
  const foreign = { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' };
  expect((await open.call('POST', '/gateway/backend/modify/delete', { headers: foreign, body: 'c1' })).status).toBe(
    403,
  );
  await open.close();
});

test('pages follow the roles held', async () => {
  const limited = await startApi({
    access: settings('pagePermissions: {user: dashboard_history, admin: }'),
  });
  const pages = async (name: string, password: string) =>
    (await limited.call('POST', '/userinfo', { headers: basic(name, password) })).json().data.permissions;
  expect(await pages('uli', 'scrypt pass')).toEqual(['dashboard', 'history']);
  expect(await pages('ada', 'bcrypt pass')).toEqual([]);
  await limited.close();
});
