import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { UserExtractor, type UserSettings } from '../../../../src/gateway/user/userExtractor.ts';
import { productNames } from '../../../../src/model/names.ts';
import { noUser, type RequestUser } from '../../../../src/model/requestUser.ts';
import { closeAll, startServer } from '../../../support/gateway.ts';

const names = productNames('Engine');
const defaults: UserSettings = {
  tokenUserField: 'email',
  oauthTokenInfoUrl: null,
  jwksUrl: null,
  issuer: null,
  audience: null,
  trustedUserSources: ['header', 'basic', 'bearer', 'cookie'],
};

let clock: { time: number; now(): number; monotonic(): number };
let logged: string;
const open: UserExtractor[] = [];

beforeEach(() => {
  const time = Date.parse('2026-01-01T00:00:00Z');
  clock = { time, now: () => clock.time, monotonic: () => clock.time };
  logged = '';
});
afterEach(async () => {
  for (const extractor of open.splice(0)) await extractor.close();
  await closeAll();
});

function extractor(settings: Partial<UserSettings> = {}, exchangeTimeoutMs = 10_000): UserExtractor {
  const logger = pino(
    { level: 'trace' },
    {
      write: (line: string) => {
        logged += line;
      },
    },
  );
  const made = new UserExtractor(
    { ...defaults, ...settings },
    { names, clock, logger, registry: new Registry(), exchangeTimeoutMs },
  );
  open.push(made);
  return made;
}

const base64 = (text: string | Uint8Array): string => Buffer.from(text as string).toString('base64');
const base64url = (text: string): string => Buffer.from(text).toString('base64url');
const jwt = (claims: unknown, header: unknown = { alg: 'none' }): string =>
  `${base64url(JSON.stringify(header))}.${base64url(JSON.stringify(claims))}.sig`;
const named = (user: string): RequestUser => ({ user, userInfo: null });

describe('sources in their order', () => {
  const token = jwt({ email: 'from-bearer' });
  const lines = {
    header: ['X-Engine-User', 'from-header'],
    basic: ['Authorization', `Basic ${base64('from-basic:secret')}`],
    bearer: ['Authorization', `Bearer ${token}`],
    uiToken: ['Cookie', `a=b; Engine-UI-Token=${jwt({ email: 'from-ui' })}; c=d`],
    idToken: ['Cookie', `__Secure-Engine-ID-Token=${jwt({ email: 'from-id' })}`],
  };

  test.each([
    [['idToken', 'basic', 'header'], 'from-header'],
    [['idToken', 'basic'], 'from-basic'],
    [['uiToken', 'bearer'], 'from-bearer'],
    [['idToken', 'uiToken'], 'from-ui'],
    [['idToken'], 'from-id'],
  ] as const)('%s: %s', (sources, user) => {
    expect(extractor().user(sources.flatMap((source) => lines[source]))).toEqual(named(user));
  });

  test('nothing sent: nobody', () => {
    expect(extractor().user(['Accept', '*/*'])).toBe(noUser);
  });

  test('sources that are not trusted are not asked', () => {
    const all = ['header', 'bearer', 'idToken'] as const;
    const headers = all.flatMap((source) => lines[source]);
    expect(extractor({ trustedUserSources: ['bearer'] }).user(headers)).toEqual(named('from-bearer'));
    expect(extractor({ trustedUserSources: ['cookie'] }).user(headers)).toEqual(named('from-id'));
    expect(extractor({ trustedUserSources: [] }).user(headers)).toBe(noUser);
  });

  test('another claim, another product', () => {
    expect(
      extractor({ tokenUserField: 'sub' }).user(['authorization', `bearer ${jwt({ sub: 'u', email: 'e' })}`]),
    ).toEqual(named('u'));
    const trino = new UserExtractor(defaults, {
      names: productNames('Trino'),
      clock,
      logger: pino({ level: 'silent' }),
      registry: new Registry(),
      exchangeTimeoutMs: 10_000,
    });
    expect(trino.user(['X-Trino-User', 'alice'])).toEqual(named('alice'));
    expect(trino.user(['X-Engine-User', 'alice'])).toBe(noUser);
  });
});

describe('well-formed in unusual ways', () => {
  test.each([
    ['scheme in lower case', ['Authorization', `basic ${base64('alice:x')}`], 'alice'],
    ['several spaces', ['Authorization', `Basic   ${base64('alice:x')} `], 'alice'],
    ['colons in the password', ['Authorization', `Basic ${base64('alice:a:b:c')}`], 'alice'],
    ['empty password', ['Authorization', `Basic ${base64('alice:')}`], 'alice'],
    ['Basic without a colon', ['Authorization', `Basic ${base64('alice')}`], 'alice'],
    ['only an original user', ['X-Engine-Original-User', 'alice'], 'alice'],
    ['an original user beside a user', ['X-Engine-Original-User', 'bob', 'X-Engine-User', 'alice'], 'alice'],
    [
      'an original user beside Basic',
      ['X-Engine-Original-User', 'bob', 'Authorization', `Basic ${base64('alice')}`],
      'alice',
    ],
    [
      'an original user beside a token of nobody',
      ['X-Engine-Original-User', 'alice', 'Authorization', 'Bearer x'],
      'alice',
    ],
    ['UTF-8 name', ['Authorization', `Basic ${base64('ädele:x')}`], 'ädele'],
    ['base64 without padding', ['Authorization', `Basic ${base64('alice1:x').replace(/=+$/, '')}`], 'alice1'],
    ['header name in capitals', ['X-ENGINE-USER', 'alice'], 'alice'],
    ['two header lines', ['X-Engine-User', 'alice', 'X-Engine-User', 'bob'], 'alice'],
    ['cookie of Trino', ['Cookie', `Trino-UI-Token=${jwt({ email: 'alice' })}`], 'alice'],
    ['identity cookie of Trino', ['Cookie', `__Secure-Trino-ID-Token=${jwt({ email: 'alice' })}`], 'alice'],
    ['quoted cookie', ['Cookie', `Engine-UI-Token="${jwt({ email: 'alice' })}"`], 'alice'],
    ['two cookie lines', ['Cookie', 'a=b', 'Cookie', `Engine-UI-Token=${jwt({ email: 'alice' })}`], 'alice'],
    ['expired JWT, unverified', ['Authorization', `Bearer ${jwt({ email: 'alice', exp: 1 })}`], 'alice'],
    ['JWT without a signature', ['Authorization', `Bearer ${jwt({ email: 'alice' }).replace(/\.sig$/, '.')}`], 'alice'],
  ] as const)('%s', (_name, headers, user) => {
    expect(extractor().user([...headers])).toEqual(named(user));
  });
});

describe('malformed headers and tokens name no user, and the cookie is asked next', () => {
  const part = (value: unknown): string => base64url(JSON.stringify(value));
  const bearer = (token: string): readonly string[] => ['Authorization', `Bearer ${token}`];
  const cookie = (token: string): readonly string[] => ['Cookie', `Engine-UI-Token=${token}`];
  const cases: readonly (readonly [name: string, headers: readonly string[]])[] = [
    ['empty user header', ['X-Engine-User', '']],
    ['blank user header', ['X-Engine-User', '  \t ']],
    ['user header with a control character', ['X-Engine-User', 'ali\u0001ce']],
    ['user header with a line feed', ['X-Engine-User', 'alice\nroot']],
    ['overlong user header', ['X-Engine-User', 'a'.repeat(2_000)]],
    ['empty Authorization', ['Authorization', '']],
    ['blank Authorization', ['Authorization', '   ']],
    ['Basic alone', ['Authorization', 'Basic']],
    ['Basic and a space', ['Authorization', 'Basic ']],
    ['Basic without a space', ['Authorization', `Basic${base64('alice:x')}`]],
    ['Basic, no base64', ['Authorization', 'Basic !!!!']],
    ['Basic, base64 of a wrong length', ['Authorization', 'Basic YWxpY']],
    ['Basic, two words', ['Authorization', `Basic ${base64('alice:x')} ${base64('bob:x')}`]],
    ['Basic, nothing before the colon', ['Authorization', `Basic ${base64(':x')}`]],
    ['Basic, empty user', ['Authorization', `Basic ${base64(':secret')}`]],
    ['Basic, wrong UTF-8', ['Authorization', `Basic ${base64(new Uint8Array([0xff, 0xfe, 0x3a, 0x78]))}`]],
    ['Basic, NUL in the user', ['Authorization', `Basic ${base64('a\0b:x')}`]],
    ['Basic, only padding', ['Authorization', 'Basic ====']],
    ['another scheme', ['Authorization', 'Negotiate YWxpY2U6eA==']],
    ['a scheme that starts like one', ['Authorization', `Basics ${base64('alice:x')}`]],
    ['Bearer alone', ['Authorization', 'Bearer']],
    ['Bearer and spaces', ['Authorization', 'Bearer    ']],
    ['opaque token without an exchange', bearer('opaque-token')],
    ['one dot', bearer('a.b')],
    ['three dots', bearer(`${part({})}.${part({ email: 'a' })}.s.x`)],
    ['only dots', bearer('..')],
    ['empty header part', bearer(`.${part({ email: 'a' })}.s`)],
    ['empty payload', bearer(`${part({})}..s`)],
    ['header that is no base64url', bearer(`%%%.${part({ email: 'a' })}.s`)],
    ['header that is not JSON', bearer(`${base64url('{')}.${part({ email: 'a' })}.s`)],
    ['header that is a list', bearer(`${part([])}.${part({ email: 'a' })}.s`)],
    ['payload that is no base64url', bearer(`${part({})}.a+b/c.s`)],
    ['payload that is not JSON', bearer(`${part({})}.${base64url('not json')}.s`)],
    ['payload cut short', bearer(`${part({})}.${part({ email: 'alice' }).slice(0, 7)}.s`)],
    ['payload null', bearer(`${part({})}.${part(null)}.s`)],
    ['payload a list', bearer(`${part({})}.${part(['alice'])}.s`)],
    ['payload a number', bearer(`${part({})}.${part(42)}.s`)],
    ['payload a text', bearer(`${part({})}.${part('alice')}.s`)],
    ['payload of wrong UTF-8', bearer(`${part({})}.${Buffer.from([0x7b, 0xff, 0x7d]).toString('base64url')}.s`)],
    ['claim missing', bearer(jwt({ sub: 'alice' }))],
    ['claim null', bearer(jwt({ email: null }))],
    ['claim a number', bearer(jwt({ email: 7 }))],
    ['claim a list', bearer(jwt({ email: ['alice'] }))],
    ['claim an object', bearer(jwt({ email: { name: 'alice' } }))],
    ['claim empty', bearer(jwt({ email: '' }))],
    ['claim with a control character', bearer(jwt({ email: 'a\u0000b' }))],
    ['claim of the prototype', bearer(jwt({ __proto__: { email: 'alice' } }))],
    ['two tokens', ['Authorization', `Bearer ${jwt({ email: 'a' })} ${jwt({ email: 'b' })}`]],
    ['tokens with a comma', bearer(`${jwt({ email: 'a' })},${jwt({ email: 'b' })}`)],
    ['a token of 100 kB', bearer(jwt({ email: 'alice', padding: 'x'.repeat(100_000) }))],
    ['deeply nested claims', bearer(`${part({})}.${base64url(`${'['.repeat(20_000)}${']'.repeat(20_000)}`)}.s`)],
    ['cookie without a value', cookie('')],
    ['cookie without a name', ['Cookie', '=x; ;;; =']],
    ['cookie that is not a JWT', cookie('opaque')],
    ['cookie whose claim is missing', cookie(jwt({ sub: 'alice' }))],
    ['cookie of another name', ['Cookie', `engine-ui-token=${jwt({ email: 'alice' })}`]],
    ['quoted cookie cut short', cookie(`"${jwt({ email: 'alice' })}`)],
    [
      'first cookie malformed: the second is not asked',
      ['Cookie', `Engine-UI-Token=x; __Secure-Engine-ID-Token=${jwt({ email: 'alice' })}`],
    ],
  ];

  test.each(cases)('%s', (_name, headers) => {
    expect(extractor().user(headers)).toEqual(noUser);
    if (headers[0] === 'Cookie') return;
    const withCookie = [...headers, 'Cookie', `Engine-UI-Token=${jwt({ email: 'from-ui' })}`];
    expect(extractor().user(withCookie)).toEqual(named('from-ui'));
  });
});

/** Starts an HTTP server that responds as the test states, and counts. */
async function serve(answer: (authorization: string, path: string) => { status: number; body: string } | 'hang') {
  const seen: string[] = [];
  const { url } = await startServer(({ headers: { authorization = '' }, url: path = '' }, response) => {
    seen.push(authorization);
    const made = answer(authorization, path);
    if (made !== 'hang') response.writeHead(made.status, { 'content-type': 'application/json' }).end(made.body);
  });
  return { url: `${url}/userinfo`, seen };
}

describe('exchange of tokens', () => {
  const headers = ['Authorization', 'Bearer opaque-secret-token'];

  test('the subject is the user, the answer is the user info', async () => {
    const info = { sub: 'alice', groups: ['etl'], email: 'alice@example.com' };
    const { url, seen } = await serve(() => ({ status: 200, body: JSON.stringify(info) }));
    const users = extractor({ oauthTokenInfoUrl: url });
    expect(await users.user(headers)).toEqual({ user: 'alice', userInfo: info });
    expect(seen).toEqual(['Bearer opaque-secret-token']);
  });

  test('a JWT without the claim is exchanged too', async () => {
    const { url } = await serve(() => ({ status: 200, body: '{"sub":"bob"}' }));
    expect(await extractor({ oauthTokenInfoUrl: url }).user(['Authorization', `Bearer ${jwt({ sub: 'x' })}`])).toEqual({
      user: 'bob',
      userInfo: { sub: 'bob' },
    });
  });

  test('an answer is remembered ten minutes and then given at once', async () => {
    const { url, seen } = await serve(() => ({ status: 200, body: '{"sub":"alice"}' }));
    const users = extractor({ oauthTokenInfoUrl: url });
    await users.user(headers);
    clock.time += 10 * 60_000 - 1;
    expect(users.user(headers)).not.toBeInstanceOf(Promise);
    expect(seen.length).toBe(1);
    clock.time += 1;
    await users.user(headers);
    expect(seen.length).toBe(2);
  });

  test('one call in flight a token', async () => {
    const { url, seen } = await serve(() => ({ status: 200, body: '{"sub":"alice"}' }));
    const users = extractor({ oauthTokenInfoUrl: url });
    const all = await Promise.all(Array.from({ length: 50 }, () => users.user(headers)));
    expect(all.map(({ user }) => user)).toEqual(Array.from({ length: 50 }, () => 'alice'));
    expect(seen.length).toBe(1);
  });

  test('many tokens at a time: no more than a bounded number of calls', async () => {
    const { url, seen } = await serve(() => ({ status: 200, body: '{"sub":"alice"}' }));
    const users = extractor({ oauthTokenInfoUrl: url });
    const all = await Promise.all(Array.from({ length: 200 }, (_, i) => users.user(['Authorization', `Bearer t${i}`])));
    expect(seen.length).toBe(64);
    expect(all.filter(({ user }) => user === null).length).toBe(136);
  });

  test.each([
    ['401', () => ({ status: 401, body: '' })],
    ['500', () => ({ status: 500, body: 'secret-detail' })],
    ['302', () => ({ status: 302, body: '' })],
    ['no JSON', () => ({ status: 200, body: '<html>' })],
    ['a list', () => ({ status: 200, body: '[]' })],
    ['no subject', () => ({ status: 200, body: '{"email":"a"}' })],
    ['subject a number', () => ({ status: 200, body: '{"sub":1}' })],
    ['endless answer', () => ({ status: 200, body: `{"sub":"${'x'.repeat(1_000_000)}"}` })],
  ] as const)('answer %s: the cookie is asked, the failure is remembered half a minute', async (_name, answer) => {
    const { url, seen } = await serve(answer);
    const users = extractor({ oauthTokenInfoUrl: url });
    const withCookie = [...headers, 'Cookie', `Engine-UI-Token=${jwt({ email: 'from-ui' })}`];
    expect(await users.user(withCookie)).toEqual(named('from-ui'));
    expect(await users.user(headers)).toEqual(noUser);
    expect(seen.length).toBe(1);
    clock.time += 30_000;
    await users.user(headers);
    expect(seen.length).toBe(2);
  });

  test('nobody listens: nobody, and no token in the log', async () => {
    const users = extractor({ oauthTokenInfoUrl: 'http://127.0.0.1:1/userinfo' });
    expect(await users.user(headers)).toEqual(noUser);
    expect(logged).toContain('token exchange failed');
    expect(logged).not.toContain('opaque-secret-token');
  });

  test('an answer that does not come: nobody after the time limit', async () => {
    const { url } = await serve(() => 'hang');
    const start = performance.now();
    expect(await extractor({ oauthTokenInfoUrl: url }, 500).user(headers)).toEqual(noUser);
    expect(performance.now() - start).toBeLessThan(8_000);
  });
});

describe('verification of JWTs', () => {
  test('only genuine tokens name a user', async () => {
    clock.time = Date.now();
    const keys = await generateKeyPair('RS256');
    const others = await generateKeyPair('RS256');
    const jwk = { ...(await exportJWK(keys.publicKey)), kid: 'k1', alg: 'RS256' };
    const jwks = await serve(() => ({ status: 200, body: JSON.stringify({ keys: [jwk] }) }));
    const info = await serve(() => ({ status: 200, body: '{"sub":"exchanged"}' }));
    const users = extractor({
      jwksUrl: jwks.url,
      issuer: 'https://issuer.example',
      audience: 'engine',
      oauthTokenInfoUrl: info.url,
    });
    const sign = (claims: Record<string, unknown>, key = keys.privateKey): Promise<string> =>
      new SignJWT({ iss: 'https://issuer.example', aud: 'engine', exp: Date.now() / 1000 + 600, ...claims })
        .setProtectedHeader({ alg: 'RS256', kid: 'k1' })
        .sign(key);
    const ask = async (token: string): Promise<string | null> =>
      (await users.user(['Authorization', `Bearer ${token}`])).user;

    const good = await sign({ email: 'alice' });
    expect(await ask(good)).toBe('alice');
    expect(users.user(['Authorization', `Bearer ${good}`])).toEqual(named('alice'));
    expect(await users.user(['Cookie', `Engine-UI-Token=${good}`])).toEqual(named('alice'));
    expect(await ask(await sign({ email: 'alice' }, others.privateKey))).toBeNull();
    expect(await ask(jwt({ email: 'alice' }))).toBeNull();
    expect(await ask(await sign({ email: 'alice', iss: 'https://else.example' }))).toBeNull();
    expect(await ask(await sign({ email: 'alice', aud: 'other' }))).toBeNull();
    expect(await ask(await sign({ email: 'alice', exp: Date.now() / 1000 - 3600 }))).toBeNull();
    expect(await ask(`${good.slice(0, -4)}AAAA`)).toBeNull();
    expect(info.seen).toEqual([]);
    expect(await ask('opaque')).toBe('exchanged');
  });

  test('keys that cannot be had: nobody, and the log says so', async () => {
    const users = extractor({ jwksUrl: 'http://127.0.0.1:1/keys' });
    expect(await users.user(['Authorization', `Bearer ${jwt({ email: 'alice' }, { alg: 'RS256' })}`])).toEqual(noUser);
    expect(logged).toContain('failed to fetch JWKS');
  });
});

describe('tokens of several issuers', () => {
  const host = 'https://issuer.example';
  const keyPairs = Promise.all([generateKeyPair('RS256'), generateKeyPair('RS256'), generateKeyPair('ES256')]);

  /** Three issuers whose keys have one id; `first` is that of the keys for a single issuer. */
  const issuers = async (more: Partial<UserSettings> = {}) => {
    clock.time = Date.now();
    const pairs = await keyPairs;
    const published = await Promise.all(
      pairs.map(async ({ publicKey }) => JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'k1' }] })),
    );
    const keys = await Promise.all(published.map((body) => serve(() => ({ status: 200, body }))));
    const [first, second, third] = keys.map(({ url }) => url) as [string, string, string];
    const common = {
      audiences: ['engine', 'also'],
      requiredClaims: {},
      algorithms: ['RS256' as const, 'ES256' as const],
      tokenUserField: null,
      userPrefix: null,
      groupPrefix: null,
    };
    const users = extractor({
      jwksUrl: first,
      issuer: `${host}/first`,
      audience: 'engine',
      tokenIssuers: {
        second: { ...common, issuer: `${host}/second`, jwksUrl: second, algorithms: ['RS256'] },
        fourth: { ...common, issuer: `${host}/fourth`, jwksUrl: third, algorithms: ['RS256'] },
        third: {
          ...common,
          issuer: `${host}/third`,
          jwksUrl: third,
          tokenUserField: 'sub',
          userPrefix: '',
          requiredClaims: { 'org.name': 'example', roles: 'query' },
        },
      },
      ...more,
    });
    const sign = (by: number, claims: Record<string, unknown>, header = {}): Promise<string> =>
      new SignJWT({ aud: 'engine', email: 'alice', exp: Date.now() / 1000 + 600, ...claims })
        .setProtectedHeader({ alg: by === 2 ? 'ES256' : 'RS256', kid: 'k1', ...header })
        .sign((pairs[by] as { privateKey: CryptoKey }).privateKey);
    const ask = async (token: string) => (await users.user(['Authorization', `Bearer ${token}`])).user;
    return { users, keys, sign, ask };
  };
  const first = { iss: `${host}/first` };
  const second = { iss: `${host}/second` };
  const third = { iss: `${host}/third`, sub: 'carol', org: { name: 'example' }, roles: ['read', 'query'] };
  const never = { exp: undefined };

  test.each<[string, number, Record<string, unknown>, string | null, object?]>([
    ['of the single issuer', 0, first, 'alice'],
    ['of a further one: its users have its prefix', 1, second, 'second/alice'],
    ['of a further one for another of its audiences', 1, { ...second, aud: ['x', 'also'] }, 'second/alice'],
    ['of one without a prefix, by another claim', 2, third, 'carol'],
    ['signed by the second in the name of the first', 1, first, null],
    ['signed by the first in the name of the second', 0, second, null],
    ['signed by the third in the name of the second', 2, second, null],
    ['of the first with a name of the second', 0, { ...first, email: 'second/alice' }, null],
    ['of the third with a name of the second', 2, { ...third, sub: 'second/alice' }, null],
    ['of an unknown issuer', 0, { iss: `${host}/fifth` }, null],
    ['with an algorithm that the issuer does not use', 2, { iss: `${host}/fourth` }, null],
    ['of an issuer that only looks like one', 1, { iss: `${host}/second/` }, null],
    ['of no issuer', 0, {}, null],
    ['of an issuer that is a list', 0, { iss: [`${host}/first`] }, null],
    ['of an issuer that is the name of a method', 0, { iss: 'constructor' }, null],
    ['for another audience', 1, { ...second, aud: 'other' }, null],
    ['without an audience', 1, { ...second, aud: undefined }, null],
    ['without an end, where issuers are listed', 1, { ...second, ...never }, null],
    ['run out', 1, { ...second, exp: Date.now() / 1000 - 3600 }, null],
    ['with a key id that is nobody’s', 1, second, null, { kid: 'k2' }],
    ['without a required claim', 2, { ...third, org: {} }, null],
    ['with another value of a required claim', 2, { ...third, roles: ['read'] }, null],
  ])('%s', async (_, by, claims, user, header) => {
    const { sign, ask } = await issuers();
    expect(await ask(await sign(by, claims, header))).toBe(user);
  });

  test('unsigned tokens name nobody, whichever issuer they name', async () => {
    const { ask } = await issuers();
    for (const claims of [first, second, third]) {
      expect(await ask(jwt({ aud: 'engine', exp: Date.now() / 1000 + 600, email: 'a', ...claims }))).toBeNull();
    }
  });

  test('only the issuer that a token names is asked for its keys; of an unknown one the log says the key', async () => {
    const { sign, ask, keys } = await issuers();
    await ask(await sign(0, second));
    expect(keys.map(({ seen }) => seen.length)).toEqual([0, 1, 0]);
    for (let token = 0; token < 5; token++) await ask(await sign(0, { iss: `${host}/${token}` }));
    expect(keys.map(({ seen }) => seen.length)).toEqual([0, 1, 0]);
    expect(logged.split('requestAnalyzerConfig.tokenIssuers').length - 1).toBe(1);
    clock.time += 60_000;
    await ask(await sign(0, { iss: `${host}/again` }));
    expect(logged.split('requestAnalyzerConfig.tokenIssuers').length - 1).toBe(2);
  });

  test('keys of one issuer that cannot be had do not touch the others', async () => {
    const { sign, ask } = await issuers({ jwksUrl: 'http://127.0.0.1:1/keys' });
    expect(await ask(await sign(0, first))).toBeNull();
    expect(logged).toContain('failed to fetch JWKS');
    expect(await ask(await sign(1, second))).toBe('second/alice');
  });

  test.each<[string, (base: string, keys: string) => object, string | null]>([
    ['keys that the issuer names', (base, keys) => ({ issuer: base, jwks_uri: keys }), 'found/alice'],
    ['a document about another issuer', (_base, keys) => ({ issuer: 'https://else.example', jwks_uri: keys }), null],
    ['a document without keys', (base) => ({ issuer: base }), null],
    ['keys that are no address of the web', (base) => ({ issuer: base, jwks_uri: 'file:///keys' }), null],
    ['an endless document', (base, keys) => ({ issuer: base, jwks_uri: keys, more: 'x'.repeat(400_000) }), null],
  ])('discovery: %s', async (_, document, user) => {
    clock.time = Date.now();
    const [pair] = await keyPairs;
    const body = JSON.stringify({ keys: [{ ...(await exportJWK(pair.publicKey)), kid: 'k1' }] });
    const paths: string[] = [];
    const server = await serve((_authorization, path) => {
      paths.push(path);
      const found = path.endsWith('/.well-known/openid-configuration');
      return { status: 200, body: found ? JSON.stringify(document(base, server.url)) : body };
    });
    const base = server.url.replace('/userinfo', '/realms/data');
    const users = extractor({
      tokenIssuers: {
        found: {
          ...{ issuer: base, jwksUrl: null, audiences: ['engine'], algorithms: ['RS256'], requiredClaims: {} },
          ...{ tokenUserField: null, userPrefix: null, groupPrefix: null },
        },
      },
    });
    const token = await new SignJWT({ iss: base, aud: 'engine', email: 'alice', exp: Date.now() / 1000 + 600 })
      .setProtectedHeader({ alg: 'RS256', kid: 'k1' })
      .sign(pair.privateKey);
    expect((await users.user(['Authorization', `Bearer ${token}`])).user).toBe(user);
    expect(paths[0]).toBe('/realms/data/.well-known/openid-configuration');
    expect(logged.includes('failed to fetch JWKS')).toBe(user === null);
  });
});
