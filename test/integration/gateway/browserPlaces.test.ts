/** Browsers on the web pages of several clusters, each of which knows only its own logins. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { clusterKey } from '../../../src/routing/clusterKey.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import { CookieBrowser } from '../../support/cookieBrowser.ts';
import { type FormLoginEngine, startFormLoginEngine } from '../../support/formLoginEngine.ts';
import {
  closeAll,
  closing,
  clusterAt,
  freePort,
  startGateway,
  startServer,
  type TestGateway,
  type TestGatewayOptions,
} from '../../support/gateway.ts';
import { send } from '../../support/rawHttp.ts';

const pageCookies = { secret: 'of all replicas', lifetime: 3_600_000 };
const COOKIE = 'EG.UI';
const page = ['Sec-Fetch-Dest', 'document'];
const data = ['Sec-Fetch-Dest', 'empty'];

let directory: string;
const open = async (): Promise<KnexStore> => {
  const jdbcUrl = `jdbc:sqlite:${join(directory, 'gateway.db')}`;
  return closing(await openStore({ jdbcUrl, runMigrations: true, logger: pino({ level: 'silent' }) }));
};
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'eg-places-'));
});
afterEach(async () => {
  await closeAll();
  await rm(directory, { recursive: true });
});

/** Each request at random at another cluster, unless something leads it to one. */
const replica = (engines: readonly FormLoginEngine[], more: Partial<TestGatewayOptions> = {}) =>
  startGateway({
    clusters: engines.map(({ name, url }) => clusterAt(name, url)),
    ...more,
    dataPlane: { pageCookies, ...more.dataPlane },
  });
const engines = (...names: string[]) => Promise.all(names.map((name) => startFormLoginEngine(name)));
/** Always chooses the cluster at the place in the list, where nothing leads to another one. */
const always = (place: number, of: number) => () => (place + 0.5) / of;
const login = (browser: CookieBrowser, { url }: { readonly url: string }) =>
  browser.ask(url, '/ui/login', { method: 'POST', headers: page });
const submit = async ({ url }: TestGateway, group = 'adhoc') => {
  const headers = ['X-Engine-User', 'ann', 'X-Engine-Routing-Group', group];
  expect((await send(url, '/v1/statement', { method: 'POST', headers, body: 'SELECT 1' })).status).toBe(200);
};
const ours = ({ headers }: { readonly headers: NodeJS.Dict<string | string[]> }) =>
  [headers['set-cookie'] ?? []].flat().filter((line) => line.startsWith(`${COOKIE}=`));

test('without the feature a login at one cluster is refused by the others', async () => {
  const clusters = (await engines('a', 'b')).map(({ name, url }) => clusterAt(name, url));
  let turn = 0;
  const one = await startGateway({ clusters, random: () => ((turn++ % 2) + 0.5) / 2 });
  const browser = new CookieBrowser();
  await login(browser, one);
  const statuses = new Set<number>();
  for (let count = 0; count < 6; count++) statuses.add((await browser.ask(one.url, '/ui/api/stats')).status);
  expect([...statuses].sort()).toEqual([200, 401]);
});

describe('a browser', () => {
  test('stays on the cluster where it logged in, on every replica, and others are on others', async () => {
    const three = await engines('a', 'b', 'c');
    const [one, other] = [await replica(three), await replica(three)];
    const seen = new Set<unknown>();
    for (let count = 0; count < 24; count++) {
      const browser = new CookieBrowser();
      const first = await browser.ask(one.url, '/ui/', { headers: page });
      const name = first.headers['x-name'];
      seen.add(name);
      expect([first.status, ours(first)]).toEqual([
        303,
        [expect.stringMatching(/^EG\.UI=[\w.-]+; Max-Age=3600; Path=\/ui; HttpOnly; SameSite=Lax$/)],
      ]);
      expect((await browser.ask(other.url, '/ui/login.html', { headers: page })).headers['x-name']).toBe(name);
      expect((await login(browser, other)).headers['x-name']).toBe(name);
      for (const path of ['/ui/', '/ui/api/stats', '/ui/dist/index.js', '/ui/api/query', '/ui/workers.html']) {
        for (const { url } of [one, other]) {
          const answer = await browser.ask(url, path);
          expect([path, answer.status, answer.headers['x-name'], ours(answer)]).toEqual([path, 200, name, []]);
        }
      }
    }
    expect([...seen].sort()).toEqual(['a', 'b', 'c']);
  });

  test('is not kept by other paths, and the cookie says neither name nor address of the cluster', async () => {
    const two = await engines('a', 'b');
    const one = await replica(two, { random: always(1, 2) });
    const browser = new CookieBrowser();
    for (const path of ['/v1/info', '/oauth2/x']) expect(ours(await browser.ask(one.url, path))).toEqual([]);
    await browser.ask(one.url, '/ui/');
    const value = browser.value(COOKIE) ?? '';
    for (const part of value.split('.')) {
      expect(Buffer.from(part, 'base64url').toString()).not.toContain('127.0.0.1');
    }
    const other = await replica(two, { random: always(0, 2) });
    const answer = await send(other.url, '/v1/info', { headers: ['Cookie', `${COOKIE}=${value}`] });
    expect(answer.headers['x-name']).toBe('a');
  });

  test('keeps its cookie for as long as it is used, and no longer than its lifetime without', async () => {
    const two = await engines('a', 'b');
    let now = 1_800_000_000_000;
    const clock = { now: () => now, monotonic: () => performance.now() };
    const one = await replica(two, { clock, random: always(1, 2) });
    const other = await replica(two, { clock, random: always(0, 2) });
    const browser = new CookieBrowser();
    await browser.ask(one.url, '/ui/');
    const asked: unknown[] = [];
    for (const minutes of [29, 2, 45, 59]) {
      now += minutes * 60_000;
      const answer = await browser.ask(other.url, '/ui/');
      asked.push([answer.headers['x-name'], ours(answer).length]);
    }
    expect(asked).toEqual([
      ['b', 0],
      ['b', 1],
      ['b', 1],
      ['b', 1],
    ]);
    now += 3_600_000;
    expect((await browser.ask(other.url, '/ui/')).headers['x-name']).toBe('a');
  });

  test.each([
    ['clear text', [], 'Path=/ui; HttpOnly'],
    ['TLS that a trusted proxy ends', ['X-Forwarded-Proto', 'https'], 'Path=/ui; Secure; HttpOnly'],
    ['a proxy that takes a path off', ['X-Forwarded-Prefix', '/sql/'], 'Path=/sql/ui; HttpOnly'],
    ['a path that is no path', ['X-Forwarded-Prefix', '/; Domain=com'], 'Path=/ui; HttpOnly'],
  ])('behind %s', async (_, headers, attributes) => {
    const one = await replica(await engines('a'), { dataPlane: { pageCookies, trustPeer: () => true } });
    expect(ours(await new CookieBrowser().ask(one.url, '/ui/', { headers }))[0]).toContain(`; ${attributes};`);
  });

  test('a proxy that nobody trusts changes neither path nor Secure', async () => {
    const one = await replica(await engines('a'));
    const headers = ['X-Forwarded-Prefix', '/sql', 'X-Forwarded-Proto', 'https'];
    const [line] = ours(await new CookieBrowser().ask(one.url, '/ui/', { headers }));
    expect(line).toContain('; Path=/ui; HttpOnly;');
  });
});

describe('a cookie that does not count is no error: a cluster is chosen, and a new cookie set', () => {
  const made = async (cluster: FormLoginEngine, secret = pageCookies.secret): Promise<string> => {
    const one = await replica([cluster], { dataPlane: { pageCookies: { ...pageCookies, secret } } });
    const browser = new CookieBrowser();
    await browser.ask(one.url, '/ui/');
    return browser.value(COOKIE) ?? '';
  };
  /** Changes one character, to another one of the same kind. */
  const changed = (value: string, at: number) => {
    const index = at < 0 ? value.length + at : at;
    return value.slice(0, index) + (value[index] === '1' ? '2' : '1') + value.slice(index + 1);
  };

  test.each<[string, (b: FormLoginEngine, x: FormLoginEngine) => Promise<string>]>([
    ['forged with another secret', (b) => made(b, 'guessed')],
    ['with a changed signature', async (b) => changed(await made(b), -2)],
    ['with a changed time', async (b) => changed(await made(b), 20)],
    ['with another state', async (b) => (await made(b)).replace('.a', '.i')],
    ['of a cluster that is not registered', (_, x) => made(x)],
    ['without a signature', async (b) => (await made(b)).replace(/\.[^.]*$/, '')],
    ['empty', async () => ''],
    ['long', async () => 'x'.repeat(8000)],
    ['of another kind', async () => 'delete'],
  ])('%s', async (_, value) => {
    const [a, b, x] = (await engines('a', 'b', 'x')) as [FormLoginEngine, FormLoginEngine, FormLoginEngine];
    const one = await replica([a, b], { random: always(0, 2) });
    const genuine = await send(one.url, '/ui/', { headers: ['Cookie', `${COOKIE}=${await made(b)}`] });
    expect(genuine.headers['x-name']).toBe('b');
    const answer = await send(one.url, '/ui/', { headers: ['Cookie', `${COOKIE}=${await value(b, x)}`] });
    expect([answer.status, answer.headers['x-name'], ours(answer).length]).toEqual([303, 'a', 1]);
  });
});

describe('when the cluster', () => {
  /** A browser that is logged in at b. */
  async function atB(more: Partial<TestGatewayOptions> = {}) {
    const [a, b] = (await engines('a', 'b')) as [FormLoginEngine, FormLoginEngine];
    const gateway = await replica([a, b], { random: always(1, 2), ...more });
    const browser = new CookieBrowser();
    await login(browser, gateway);
    expect((await browser.ask(gateway.url, '/ui/')).text).toBe('page of b');
    return { a, b, gateway, browser };
  }
  const entries = (gateway: TestGateway) => [...gateway.table.current.clusters.values()];
  const a = (gateway: TestGateway) => entries(gateway).find(({ name }) => name === 'a')!;
  const b = (gateway: TestGateway) => entries(gateway).find(({ name }) => name === 'b')!;

  test.each<[string, (gateway: TestGateway) => unknown]>([
    [
      'is deactivated',
      (gateway) => gateway.table.setInputs({ clusters: [a(gateway), { ...b(gateway), active: false }], rules: null }),
    ],
    ['is removed', (gateway) => gateway.table.setInputs({ clusters: [a(gateway)], rules: null })],
    [
      'is unhealthy',
      (gateway) => {
        const { health, proxyTo } = b(gateway);
        gateway.table.setHealth('b', proxyTo, { ...health, status: 'UNHEALTHY' });
      },
    ],
    [
      'refuses connections',
      async (gateway) => {
        const gone = { ...b(gateway), proxyTo: `http://127.0.0.1:${await freePort()}` };
        gateway.table.setInputs({ clusters: [a(gateway), gone], rules: null });
        gateway.setHealthy('b');
      },
    ],
  ])('%s, the browser gets another one with a new cookie, and the user logs in there', async (_, happen) => {
    const { gateway, browser, ...rest } = await atB();
    const before = browser.value(COOKIE);
    await happen(gateway);
    rest.a.requests.length = 0;
    const answer = await browser.ask(gateway.url, '/ui/', { headers: page });
    expect([answer.status, answer.headers['x-name']]).toEqual([303, 'a']);
    expect(browser.value(COOKIE)).not.toBe(before);
    await login(browser, gateway);
    expect((await browser.ask(gateway.url, '/ui/')).text).toBe('page of a');
    // Nothing of the login at the cluster before.
    for (const { cookie } of rest.a.requests) expect(cookie.split('Engine-UI-Token').length).toBeLessThanOrEqual(2);
    expect(rest.a.requests[0]?.cookie).toBe('');
  });

  test('is another one of the same name, it gets nothing of what the browser had from the one before', async () => {
    const { gateway, browser, ...rest } = await atB();
    const another = await startFormLoginEngine('b');
    gateway.table.setInputs({
      clusters: [a(gateway), clusterAt('b', another.url, { uid: 'of another resource' })],
      rules: null,
    });
    gateway.setHealthy('b');
    const before = browser.value(COOKIE);
    const answer = await browser.ask(gateway.url, '/ui/', { headers: page });
    expect([answer.status, answer.headers['x-name'], ours(answer).length]).toEqual([303, 'b', 1]);
    expect(browser.value(COOKIE)).not.toBe(before);
    expect(another.requests.map(({ cookie }) => cookie)).toEqual(['']);
    expect(rest.b.requests.at(-1)?.url).toBe('/ui/');
  });

  test('is PENDING, as on a replica that has just started, the browser stays there', async () => {
    const { a: one, b: two, browser } = await atB();
    const starting = await replica([one, two], { healthy: false });
    expect((await browser.ask(starting.url, '/ui/')).text).toBe('page of b');
  });

  test('comes back after it was deactivated, the login there still counts', async () => {
    const { gateway, browser } = await atB();
    const both = entries(gateway);
    gateway.table.setInputs({ clusters: [a(gateway), { ...b(gateway), active: false }], rules: null });
    await browser.ask(gateway.url, '/ui/');
    gateway.table.setInputs({ clusters: both.filter(({ name }) => name === 'b'), rules: null });
    expect((await browser.ask(gateway.url, '/ui/')).headers['x-name']).toBe('b');
    expect((await browser.ask(gateway.url, '/ui/api/stats')).status).toBe(200);
  });
});

describe('a link with a query id', () => {
  /** Two replicas before the clusters; the queries of all clusters are known. */
  async function queries() {
    const [a, b] = (await engines('a', 'b')) as [FormLoginEngine, FormLoginEngine];
    const clusters = [a, b].map(({ name, url }) => clusterAt(name, url, { routingGroup: name }));
    const settings = { defaultRoutingGroup: 'a' };
    const one = await startGateway({ clusters, settings, store: await open(), dataPlane: { pageCookies } });
    const other = await startGateway({ clusters, settings, store: await open(), dataPlane: { pageCookies } });
    await submit(one, 'a');
    await submit(one, 'b');
    return { a, b, one, other };
  }

  test.each([
    ['query.html?', ''],
    ['plan.html?', ''],
    ['stage.html?', '.0'],
    ['timeline.html?', ''],
    ['references.html?', ''],
    ['query.html?queryId=', ''],
    ['preview/queries/', ''],
    ['api/query/', '?pretty'],
  ])('/ui/%s leads the browser to its cluster, where it then is, on every replica', async (before, after) => {
    const { b, one, other } = await queries();
    const browser = new CookieBrowser();
    await login(browser, one);
    expect((await browser.ask(one.url, '/ui/')).text).toBe('page of a');
    const link = `/ui/${before}${b.queryId}${after}`;
    const followed = await browser.ask(other.url, link, { headers: page });
    expect(followed.headers['x-name']).toBe('b');
    const next = await browser.ask(one.url, '/ui/login.html', { headers: page });
    expect(next.headers['x-name']).toBe('b');
    await login(browser, other);
    expect((await browser.ask(other.url, link, { headers: page })).text).toBe('page of b');
    expect((await browser.ask(one.url, '/ui/')).text).toBe('page of b');
  });

  test('brings the user back without a login to a cluster where he is logged in', async () => {
    const { a, b, one } = await queries();
    const browser = new CookieBrowser();
    await login(browser, one);
    await browser.ask(one.url, `/ui/query.html?${b.queryId}`, { headers: page });
    await login(browser, one);
    for (const { name, queryId } of [a, b, a]) {
      const pages = [`/ui/query.html?${queryId}`, '/ui/', '/ui/api/stats'];
      for (const path of pages) expect((await browser.ask(one.url, path)).text).toBe(`page of ${name}`);
    }
  });

  test.each([
    ['with the metadata of browsers', page, data],
    ['over clear text, by the path', [], []],
  ])('open pages of one cluster do not take the browser back from another: %s', async (_, opened, polled) => {
    const { a, b, one } = await queries();
    const browser = new CookieBrowser();
    await login(browser, one);
    await browser.ask(one.url, `/ui/query.html?${b.queryId}`, { headers: opened });
    await login(browser, one);
    const polling = await browser.ask(one.url, `/ui/api/query/${a.queryId}`, { headers: polled });
    expect([polling.text, ours(polling)]).toEqual(['page of a', []]);
    expect((await browser.ask(one.url, '/ui/', { headers: opened })).text).toBe('page of b');
  });

  test('data that the cluster wants a login for takes the browser there, to log in', async () => {
    const { b, one } = await queries();
    const browser = new CookieBrowser();
    await login(browser, one);
    const refused = await browser.ask(one.url, `/ui/api/query/${b.queryId}`, { headers: data });
    expect(refused.status).toBe(401);
    expect((await login(browser, one)).headers['x-name']).toBe('b');
    expect((await browser.ask(one.url, `/ui/api/query/${b.queryId}`, { headers: data })).text).toBe('page of b');
  });

  test('of a cluster that takes no new queries leads there as well, where the user can log in', async () => {
    const { a, b, one } = await queries();
    const browser = new CookieBrowser();
    await login(browser, one);
    const clusters = [a, b].map(({ name, url }) => clusterAt(name, url, { active: name === 'a', routingGroup: name }));
    one.table.setInputs({ clusters, rules: null });
    const link = `/ui/query.html?${b.queryId}`;
    await browser.ask(one.url, link, { headers: page });
    expect((await login(browser, one)).headers['x-name']).toBe('b');
    expect((await browser.ask(one.url, link, { headers: page })).text).toBe('page of b');
  });

  test('of a cluster that was deleted leads there, and the browser stays where it is', async () => {
    const { a, b, one } = await queries();
    const browser = new CookieBrowser();
    await login(browser, one);
    one.table.setInputs({ clusters: [clusterAt('a', a.url, { routingGroup: 'a' })], rules: null });
    const answer = await browser.ask(one.url, `/ui/query.html?${b.queryId}`, { headers: page });
    expect([answer.headers['x-name'], ours(answer)]).toEqual(['b', []]);
    expect((await browser.ask(one.url, '/ui/')).text).toBe('page of a');
  });

  test('with the key of a cluster in front is redirected to the same without, where the browser has its cookies', async () => {
    const [a, b] = (await engines('a', 'b')) as [FormLoginEngine, FormLoginEngine];
    const clusters = [a, b].map(({ name, url }) => clusterAt(name, url, { routingGroup: name }));
    const dataPlane = { pageCookies, prefixSticky: true };
    const settings = { defaultRoutingGroup: 'a' };
    const one = await startGateway({ clusters, settings, store: await open(), dataPlane });
    const other = await startGateway({ clusters, settings, store: await open(), dataPlane });
    await submit(one, 'b');
    const link = `/${clusterKey('b')}/ui/query.html?${b.queryId}`;
    for (const { url } of [one, other]) {
      const answer = await new CookieBrowser().ask(url, link, { headers: page });
      expect(answer.status).toBe(307);
      const { pathname, search } = new URL(answer.headers.location as string, new URL(link, url));
      expect(pathname + search).toBe(`/ui/query.html?${b.queryId}`);
    }
    const unknown = `/${clusterKey('b')}/ui/query.html?20261121_015745_00042_zzzzz`;
    expect((await send(one.url, unknown)).headers['x-name']).toBe('b');
  });
});

describe('cookies of clusters', () => {
  const more = [
    'theme=dark; Path=/',
    '__Secure-Engine-OAuth2-Token=x=y; Path=/ui; Secure; HttpOnly',
    '__Host-session=1; Path=/; Secure',
    '=EG-aaaaaaaaaaaaaaaa~Engine-UI-Token=forged; Path=/ui',
    'nameless; Path=/ui',
    'EG.UI=forged; Path=/ui',
  ];
  async function two() {
    const [a, b] = (await Promise.all(['a', 'b'].map((name) => startFormLoginEngine(name, more)))) as [
      FormLoginEngine,
      FormLoginEngine,
    ];
    const clusters = [a, b].map(({ name, url }) => clusterAt(name, url, { routingGroup: name }));
    const options = { clusters, settings: { defaultRoutingGroup: 'a' }, dataPlane: { pageCookies } };
    return { a, b, one: await startGateway({ ...options, store: await open() }) };
  }

  test('reach the cluster that set them, under their own names, and no other one', async () => {
    const { a, b, one } = await two();
    await submit(one, 'a');
    await submit(one, 'b');
    const browser = new CookieBrowser();
    await login(browser, one);
    await browser.ask(one.url, `/ui/query.html?${b.queryId}`, { headers: page });
    expect(b.requests.at(-1)?.cookie).toBe('');
    await login(browser, one);
    const form = (name: string) => new RegExp(`^${name.replace('KEY', 'EG-[\\w-]{16}~')}$`);
    expect(browser.names).toHaveLength(9);
    for (const name of ['KEYEngine-UI-Token', 'KEYtheme', '__Secure-KEYEngine-OAuth2-Token', '__Host-KEYsession']) {
      expect(browser.names.filter((kept) => form(name).test(kept))).toHaveLength(2);
    }
    browser.keep('own=1; Path=/');
    for (const engine of [a, b]) {
      for (const path of [`/ui/api/query/${engine.queryId}`, `/v1/query/${engine.queryId}`]) {
        await browser.ask(one.url, path, { headers: data });
        const { cookie, url } = engine.requests.at(-1)!;
        expect(url).toBe(path);
        const names = cookie.split('; ').map((pair) => pair.slice(0, pair.indexOf('=')));
        const below = path.startsWith('/ui') ? ['Engine-UI-Token', '__Secure-Engine-OAuth2-Token'] : [];
        expect(names.sort()).toEqual([...below, '__Host-session', 'own', 'theme'].sort());
        expect(cookie).toContain('theme=dark');
      }
    }
    const tokens = ({ requests: asked }: FormLoginEngine) =>
      new Set(asked.flatMap(({ cookie }) => /Engine-UI-Token=([^;]+)/.exec(cookie)?.[1] ?? []));
    expect([tokens(a).size, tokens(b).size]).toEqual([1, 1]);
    expect([...tokens(a)]).not.toEqual([...tokens(b)]);
    for (const { cookie } of [...a.requests, ...b.requests]) expect(cookie).not.toMatch(/EG[.-]/);
  });

  test('are ended by the cluster that set them', async () => {
    const { one } = await two();
    const browser = new CookieBrowser();
    await login(browser, one);
    expect((await browser.ask(one.url, '/ui/')).text).toBe('page of a');
    await browser.ask(one.url, '/ui/logout', { headers: page });
    expect((await browser.ask(one.url, '/ui/')).status).toBe(303);
  });

  test('of an engine that name no cluster reach none of its pages, and pass elsewhere', async () => {
    const { a, one } = await two();
    const cookie = 'Engine-UI-Token=of-before; __Secure-Engine-Nonce=2; other=1';
    for (const [path, expected] of [
      ['/ui/', 'other=1'],
      ['/oauth2/callback', 'other=1'],
      ['/v1/info', `Engine-UI-Token=of-before; Trino-UI-Token=of-before; __Secure-Engine-Nonce=2; other=1`],
    ] as const) {
      await send(one.url, path, { headers: ['Cookie', cookie] });
      expect(a.requests.at(-1)).toEqual({ method: 'GET', url: path, cookie: expected });
    }
    await send(one.url, '/v1/statement', { method: 'POST', headers: ['Cookie', cookie], body: 'SELECT 1' });
    expect(a.requests.at(-1)?.cookie).toContain(
      cookie.replace('Engine-UI-Token=of-before', 'Trino-UI-Token=of-before'),
    );
  });

  test.each([3900, 4060, 4092, 6000])('of %i characters come back whole, also after a shorter one', async (length) => {
    let value = 'v'.repeat(length - 100) + 'w'.repeat(100);
    let seen = '';
    const cluster = await startServer((request, response) => {
      seen = request.headers.cookie ?? '';
      const headers = request.url === '/ui/login' ? { 'set-cookie': `T=${value}; Path=/ui; HttpOnly` } : {};
      response.writeHead(200, headers).end();
    });
    const one = await startGateway({ clusters: [clusterAt('a', cluster.url)], dataPlane: { pageCookies } });
    const browser = new CookieBrowser();
    for (const next of [value, 'short', value.replace('v', 'x')]) {
      value = next;
      const lines = [(await browser.ask(one.url, '/ui/login')).headers['set-cookie'] ?? []].flat();
      // What browsers keep of one (RFC 6265bis §5.7).
      for (const line of lines) expect(line.indexOf(';')).toBeLessThanOrEqual(4097);
      await browser.ask(one.url, '/ui/');
      expect(seen).toBe(`T=${next}`);
    }
  });
});

describe('server.enginePages', () => {
  test('redirect: a browser is always redirected to the same cluster, and to the one of a query', async () => {
    const [a, b] = (await engines('a', 'b')) as [FormLoginEngine, FormLoginEngine];
    const at = ({ name, url }: FormLoginEngine) =>
      clusterAt(name, url, { externalUrl: `https://${name}.example.com`, routingGroup: name });
    const dataPlane = { pageCookies, enginePages: 'redirect' as const };
    const settings = { defaultRoutingGroup: 'a' };
    const one = await startGateway({ clusters: [at(a), at(b)], settings, dataPlane, store: await open() });
    const other = await startGateway({
      clusters: [at(a), at(b)],
      settings: { defaultRoutingGroup: 'b' },
      dataPlane,
      store: await open(),
    });
    await submit(one, 'b');
    const browser = new CookieBrowser();
    const to = async ({ url }: TestGateway, path: string) => {
      const { status, headers } = await browser.ask(url, path, { headers: page });
      return [status, headers.location];
    };
    expect(await to(one, '/ui/')).toEqual([307, 'https://a.example.com/ui/']);
    expect(await to(other, '/ui/')).toEqual([307, 'https://a.example.com/ui/']);
    const link = `/ui/query.html?${b.queryId}`;
    expect(await to(one, link)).toEqual([307, `https://b.example.com${link}`]);
    expect(await to(one, '/ui/')).toEqual([307, 'https://b.example.com/ui/']);
    expect([...a.requests, ...b.requests].filter(({ url }) => url.startsWith('/ui'))).toEqual([]);
  });

  test('off: no page, no cookie', async () => {
    const one = await replica(await engines('a'), { dataPlane: { pageCookies, enginePages: 'off' } });
    const answer = await new CookieBrowser().ask(one.url, '/ui/', { headers: page });
    expect([answer.status, ours(answer)]).toEqual([404, []]);
  });
});
