import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accessSettings, TestClock } from '../../../support/access.ts';
import { type Answer, type ApiServer, startApi } from '../../../support/apiServer.ts';
import { type OidcServer, startOidcProvider } from '../../../support/oidcProvider.ts';

const callback = 'http://gateway.example/oidc/callback';

const clock = new TestClock();
let provider: OidcServer;
let api: ApiServer;

const settings = (more = '', issuer = provider.issuer) =>
  accessSettings(`
authentication:
  defaultType: oauth
  oauth:
    issuer: ${issuer}
    clientId: ${provider.clientId}
    clientSecret: ${provider.clientSecret}
    redirectUrl: ${callback}
    redirectWebUrl: /engine-gateway
    scopes: [openid]
    privilegesField: groups
    ${more}
authorization:
  admin: .*ADMIN.*
  user: .*USER.*
  api: .*API.*
`);

beforeAll(async () => {
  provider = await startOidcProvider(callback);
  api = await startApi({ access: settings(), accessDependencies: { clock } });
});
afterAll(async () => {
  await api.close();
  await provider.close();
});

/** Value of a cookie that an answer sets. */
function cookie(answer: Answer, name: string): string | undefined {
  return (answer.headers['set-cookie'] ?? [])
    .map((line) => line.split(';')[0] ?? '')
    .find((pair) => pair.startsWith(`${name}=`));
}

async function begin(at = api) {
  const answer = await at.call('POST', '/sso');
  expect([answer.status, answer.json().msg]).toEqual([200, 'Ok']);
  return { url: answer.json().data as string, state: cookie(answer, 'Engine-Gateway-OIDC') ?? '', answer };
}

const finish = (answered: URL, state: string, at = api) =>
  at.call('GET', `/oidc/callback${answered.search}`, { headers: state === '' ? {} : { Cookie: state } });

describe('logging in', () => {
  test('leads over the provider and back, with PKCE, state and nonce', async () => {
    expect((await api.call('POST', '/loginType')).json().data).toBe('oauth');
    const begun = await begin();
    const authorizationUrl = new URL(begun.url);
    expect(Object.fromEntries(authorizationUrl.searchParams)).toMatchObject({
      response_type: 'code',
      redirect_uri: callback,
      scope: 'openid',
      code_challenge_method: 'S256',
      state: expect.stringMatching(/^.{40,}$/),
      nonce: expect.stringMatching(/^.{40,}$/),
    });
    expect(begun.answer.headers['set-cookie']?.[0]).toMatch(
      /; Max-Age=900; Path=\/oidc\/callback; SameSite=Lax; HttpOnly$/,
    );
    const answered = await provider.login(begun.url, 'grace');
    const done = await finish(answered, begun.state);
    expect([done.status, done.headers.location]).toEqual([302, '/engine-gateway']);
    expect(done.headers['set-cookie']?.[0]).toMatch(/^Engine-Gateway-OIDC=; Max-Age=0; Path=\/oidc\/callback/);
    const session = cookie(done, 'Engine-Gateway-Session') ?? '';
    expect((await api.call('GET', '/gateway/backend/all', { headers: { Cookie: session } })).status).toBe(200);
    const csrf = cookie(done, 'Engine-Gateway-CSRF')?.split('=')[1] ?? '';
    const headers = { Cookie: session, 'X-Engine-Gateway-CSRF': csrf };
    expect((await api.call('POST', '/userinfo', { headers })).json().data).toEqual({
      roles: ['ADMIN', 'USER', 'API'],
      permissions: [],
      userId: 'grace',
      userName: 'grace',
    });
    await api.call('POST', '/logout', { headers });
    expect((await api.call('GET', '/gateway/backend/all', { headers: { Cookie: session } })).status).toBe(401);
  });

  test('gives only the roles that the provider reports', async () => {
    const begun = await begin();
    const done = await finish(await provider.login(begun.url, 'linus'), begun.state);
    const headers = { Cookie: cookie(done, 'Engine-Gateway-Session') ?? '' };
    expect((await api.call('GET', '/gateway/backend/all', { headers })).status).toBe(403);
  });

  test('fails without the claim of privileges', async () => {
    const begun = await begin();
    const done = await finish(await provider.login(begun.url, 'stranger'), begun.state);
    expect([done.status, done.json().msg]).toEqual([401, 'The token has no claim groups with privileges.']);
    expect(cookie(done, 'Engine-Gateway-Session')).toBeUndefined();
  });

  test('works over another replica, which knows the same client secret', async () => {
    const replica = await startApi({ access: settings() });
    const begun = await begin();
    const done = await finish(await provider.login(begun.url, 'grace'), begun.state, replica);
    expect(done.status).toBe(302);
    const headers = { Cookie: cookie(done, 'Engine-Gateway-Session') ?? '' };
    expect((await api.call('GET', '/gateway/backend/all', { headers })).status).toBe(200);
    await replica.close();
  });

  test('works with endpoints that are configured, without discovery', async () => {
    const found = (await (await fetch(`${provider.issuer}/.well-known/openid-configuration`)).json()) as Record<
      string,
      string
    >;
    const before = provider.calls.get('/.well-known/openid-configuration');
    const explicit = await startApi({
      access: settings(
        `{tokenEndpoint: ${found.token_endpoint}, authorizationEndpoint: ${found.authorization_endpoint}, jwkEndpoint: ${found.jwks_uri}}`
          .slice(1, -1)
          .split(', ')
          .join('\n    '),
      ),
    });
    const begun = await begin(explicit);
    expect((await finish(await provider.login(begun.url, 'grace'), begun.state, explicit)).status).toBe(302);
    expect(provider.calls.get('/.well-known/openid-configuration')).toBe(before);
    await explicit.close();
  });

  test('names and passwords have no place', async () => {
    const answer = await api.call('POST', '/login', { body: '{"username":"grace","password":"any"}' });
    expect([answer.status, answer.json().error.code]).toEqual([422, 'EG_IMPOSSIBLE']);
    const basic = { Authorization: `Basic ${Buffer.from('grace:any').toString('base64')}` };
    expect((await api.call('GET', '/gateway/backend/all', { headers: basic })).status).toBe(401);
  });
});

describe('an answer of the provider is refused', () => {
  test.each<[string, (answered: URL, state: string) => Promise<Answer>]>([
    ['without the cookie of its state', (answered) => finish(answered, '')],
    [
      'with the state of another login',
      async (answered) => {
        const other = await begin();
        return finish(answered, other.state);
      },
    ],
    [
      'with a state that was changed',
      (answered, state) => {
        answered.searchParams.set('state', 'forged');
        return finish(answered, state);
      },
    ],
    ['with a cookie that was changed', (answered, state) => finish(answered, `${state.slice(0, -4)}AAAA`)],
    [
      'without a code',
      (answered, state) => {
        answered.searchParams.delete('code');
        return finish(answered, state);
      },
    ],
    [
      'with a code of somebody else',
      (answered, state) => {
        answered.searchParams.set('code', 'x'.repeat(43));
        return finish(answered, state);
      },
    ],
    [
      'of another issuer',
      (answered, state) => {
        answered.searchParams.set('iss', 'https://evil.example');
        return finish(answered, state);
      },
    ],
    [
      'that is an error',
      (answered, state) => {
        const query = new URL(answered);
        query.search = `?error=access_denied&state=${answered.searchParams.get('state')}&iss=${provider.issuer}`;
        return finish(query, state);
      },
    ],
    [
      'a second time',
      async (answered, state) => {
        expect((await finish(answered, state)).status).toBe(302);
        return finish(answered, state);
      },
    ],
  ])('%s', async (_, tamper) => {
    const begun = await begin();
    const answered = await provider.login(begun.url, 'grace');
    const refused = await tamper(new URL(answered), begun.state);
    expect([refused.status, refused.json().error.code]).toEqual([401, 'EG_UNAUTHENTICATED']);
    expect(cookie(refused, 'Engine-Gateway-Session')).toBeUndefined();
    expect(cookie(refused, 'Engine-Gateway-OIDC')).toBe('Engine-Gateway-OIDC=');
  });

  test('too late', async () => {
    const begun = await begin();
    const answered = await provider.login(begun.url, 'grace');
    clock.ahead += 901_000;
    expect((await finish(answered, begun.state)).status).toBe(401);
    clock.ahead = 0;
  });
});

describe('bearer tokens of the provider', () => {
  const now = () => Math.floor(Date.now() / 1000);
  const good = () => ({
    iss: provider.issuer,
    aud: provider.clientId,
    sub: 'grace',
    groups: ['ADMIN', 'API'],
    exp: now() + 60,
    iat: now(),
  });
  const status = async (token: string, at = api) => {
    const answer = await at.call('GET', '/gateway/backend/all', { headers: { Authorization: `Bearer ${token}` } });
    expect(answer.text).not.toContain(token);
    return answer.status;
  };

  test('are taken, and their keys fetched once', async () => {
    for (let call = 0; call < 5; call++) expect(await status(await provider.sign(good()))).toBe(200);
    expect(provider.calls.get('/jwks')).toBeLessThan(12);
    const before = provider.calls.get('/jwks');
    for (let call = 0; call < 5; call++) expect(await status(await provider.sign(good()))).toBe(200);
    expect(provider.calls.get('/jwks')).toBe(before);
  });

  test.each<[string, () => Promise<string> | string, number]>([
    ['not yet valid', () => provider.sign({ ...good(), nbf: now() + 600 }), 401],
    ['without user', () => provider.sign({ ...good(), sub: '' }), 401],
    ['with a user that is no text', () => provider.sign({ ...good(), sub: 7 }), 401],
    ['without privileges', () => provider.sign({ ...good(), groups: undefined }), 401],
    [
      'signed with the client secret',
      () =>
        new SignJWT(good())
          .setProtectedHeader({ alg: 'HS256', kid: 'provider-key' })
          .sign(new TextEncoder().encode(provider.clientSecret)),
      401,
    ],
    ['cut', async () => (await provider.sign(good())).slice(0, -2), 401],
  ])('%s', async (_, make, expected) => {
    expect(await status(await make())).toBe(expected);
  });

  test('may be for one of several audiences', async () => {
    const several = await startApi({ access: settings('audiences: [one, two]') });
    expect(await status(await provider.sign({ ...good(), aud: ['x', 'two'] }), several)).toBe(200);
    expect(await status(await provider.sign(good()), several)).toBe(401);
    await several.close();
  });
});

test('a provider that is unavailable is answered as 503, and asked again later', async () => {
  const away = createServer((_request, response) => response.writeHead(503).end());
  await new Promise<void>((resolve) => away.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(away.address() as AddressInfo).port}`;
  const lost = await startApi({ access: settings('', issuer) });
  const answer = await lost.call('POST', '/sso');
  expect([answer.status, answer.json().error.code]).toEqual([503, 'EG_IDENTITY_UNAVAILABLE']);
  expect(answer.headers['retry-after']).toBeDefined();
  const token = await provider.sign({ iss: issuer, aud: 'gateway', sub: 'x', exp: Math.floor(Date.now() / 1000) + 60 });
  const call = await lost.call('GET', '/gateway/backend/all', { headers: { Authorization: `Bearer ${token}` } });
  expect(call.status).toBe(503);
  expect(lost.logged.join('\n')).not.toContain(provider.clientSecret);
  await lost.close();
  await new Promise((resolve) => away.close(resolve));
});
