import { createHash, createHmac, randomUUID } from 'node:crypto';
import { afterEach, describe, expect, test } from 'vitest';
import type { HandshakeCookieOptions } from '../../../src/gateway/pages/handshakeCookies.ts';
import { clusterKey } from '../../../src/routing/statementProtocol.ts';
import { freePort } from '../../support/freePort.ts';
import { closeAll, clusterAt, startGateway, startServer, type TestGatewayOptions } from '../../support/gateway.ts';
import { type RawResponse, send } from '../../support/rawHttp.ts';

afterEach(closeAll);

const secret = 'of all replicas';
const options: HandshakeCookieOptions = {
  secret,
  prefix: 'EG.',
  routingPaths: ['/oauth2'],
  deletePaths: ['/logout', '/oauth2/logout'],
  lifetime: 600_000,
};

/** Clusters that answer with their names. */
const clustersOf = (...names: string[]) =>
  Promise.all(
    names.map(async (name) => {
      const { url } = await startServer((request, response) => {
        request.resume();
        response.writeHead(200, { 'x-name': name, 'set-cookie': '__Secure-Engine-OAuth2-Nonce=n' });
        response.end(request.headers.cookie ?? '');
      });
      return clusterAt(name, url);
    }),
  );
const replica = (more: TestGatewayOptions, cookies: Partial<HandshakeCookieOptions> = {}) =>
  startGateway({ ...more, dataPlane: { handshakeCookies: { ...options, ...cookies }, ...more.dataPlane } });
const ours = (answer: RawResponse) =>
  [answer.headers['set-cookie'] ?? []].flat().filter((line) => line.startsWith('EG.OAUTH2='));
const ask = (url: string, path: string, cookie?: string, method = 'GET') =>
  send(url, path, { method, headers: cookie === undefined ? [] : ['Cookie', cookie] });
const pairOf = (line: string) => line.slice(0, line.indexOf(';'));

/** A cookie as the gateway makes it, with parts of its content changed. */
function cookie(change: Record<string, unknown> = {}, key = secret, cookieName = 'EG.OAUTH2'): string {
  const content = {
    backend: clusterKey('b'),
    deletePaths: options.deletePaths,
    name: 'EG.OAUTH2',
    priority: 0,
    routingPaths: options.routingPaths,
    ts: Date.now(),
    ttl: 600_000,
    ...change,
  };
  const signature = createHmac('sha256', key).update(JSON.stringify(content)).digest('hex');
  return `${cookieName}=${Buffer.from(JSON.stringify({ ...content, signature })).toString('base64url')}`;
}

describe('a login', () => {
  test('stays on the cluster it began on, on every replica, with the cookie that is set once', async () => {
    const clusters = await clustersOf('a', 'b', 'c');
    for (let count = 0; count < 6; count++) {
      const [one, other] = [await replica({ clusters }), await replica({ clusters })];
      const begun = await ask(one.url, '/oauth2/token/initiate/x');
      const [line, ...more] = ours(begun);
      expect(more).toEqual([]);
      expect(line).toMatch(/^EG\.OAUTH2=[\w-]+; Max-Age=600; Path=\/; Secure; HttpOnly; SameSite=Lax$/);
      expect(Buffer.from(pairOf(line!), 'base64url').toString()).not.toContain('127.0.0.1');
      for (const path of ['/oauth2/callback?code=1&state=2', '/oauth2/token/x', '/oauth2']) {
        for (const { url } of [other, one]) {
          const answer = await ask(url, path, `theme=dark; ${pairOf(line!)}`);
          expect(answer.headers['x-name']).toBe(begun.headers['x-name']);
          expect(ours(answer)).toEqual([]);
        }
      }
    }
  });

  test('cookies of the engine and of the gateway pass the other way untouched', async () => {
    const one = await replica({ clusters: await clustersOf('b') });
    const sent = `x=1; ${cookie()}`;
    const answer = await ask(one.url, '/oauth2/callback', sent);
    expect(answer.text).toBe(sent);
    expect(answer.headers['set-cookie']).toEqual(['__Secure-Engine-OAuth2-Nonce=n']);
  });

  test('ends at a delete path, steered there', async () => {
    const clusters = await clustersOf('a', 'b');
    const one = await replica({ clusters, random: () => 0 });
    const answer = await ask(one.url, '/oauth2/logout', cookie());
    expect([answer.headers['x-name'], ours(answer)]).toEqual([
      'b',
      ['EG.OAUTH2=delete; Max-Age=0; Path=/; Secure; HttpOnly; SameSite=Lax'],
    ]);
    expect(ours(await ask(one.url, '/oauth2/logout'))).toEqual([]);
    expect(ours(await ask(one.url, '/oauth2/logout/x', cookie()))).toEqual([]);
  });

  test('reaches a cluster that takes no queries at the moment; of one that is gone it starts again', async () => {
    const [a, b] = (await clustersOf('a', 'b')) as [ReturnType<typeof clusterAt>, ReturnType<typeof clusterAt>];
    const inactive = await replica({ clusters: [a, { ...b, active: false }] });
    expect((await ask(inactive.url, '/oauth2/x', cookie())).headers['x-name']).toBe('b');
    const gone = clusterAt('b', `http://127.0.0.1:${await freePort()}`);
    for (const clusters of [[a], [a, gone]]) {
      const one = await replica({ clusters });
      const answer = await ask(one.url, '/oauth2/x', cookie());
      expect(answer.headers['x-name']).toBe('a');
      const [line] = ours(answer);
      expect((await ask(inactive.url, '/oauth2/x', pairOf(line!))).headers['x-name']).toBe('a');
    }
  });

  test('of several cookies the lowest priority wins, then the oldest', async () => {
    const one = await replica({ clusters: await clustersOf('a', 'b', 'c'), random: () => 0.99 });
    const now = Date.now();
    const named = (name: string, cluster: string, priority: number, ts: number) =>
      cookie({ name, backend: clusterKey(cluster), priority, ts }, secret, name);
    const send = async (...cookies: string[]) =>
      (await ask(one.url, '/oauth2/x', cookies.join('; '))).headers['x-name'];
    expect(await send(named('EG.X', 'a', 2, now - 9), named('EG.Y', 'b', 1, now))).toBe('b');
    expect(await send(named('EG.X', 'a', 1, now), named('EG.Y', 'b', 1, now - 9))).toBe('b');
    expect(await send(named('EG.X', 'a', -1, now), named('EG.Y', 'b', 1, now - 9))).toBe('a');
  });
});

describe("a client's login, whose token waits in the memory of one cluster", () => {
  const initiate = (id: string) => `/oauth2/token/initiate/${createHash('sha256').update(id).digest('hex')}`;

  test("reaches it from the browser and from the client, without the other's cookies, on every replica", async () => {
    const clusters = await clustersOf('a', 'b', 'c');
    const one = await replica({ clusters });
    const other = await replica({ clusters: clusters.toReversed() });
    const seen = new Set<unknown>();
    for (let count = 0; count < 40; count++) {
      const id = randomUUID();
      const polled = (await ask(one.url, `/oauth2/token/${id}`)).headers['x-name'];
      // Of a login before, or of another client's.
      const stale = count % 2 === 0 ? cookie() : undefined;
      const begun = await ask(other.url, initiate(id), stale);
      expect(begun.headers['x-name']).toBe(polled);
      const sent = ours(begun)[0] === undefined ? stale : pairOf(ours(begun)[0] ?? '');
      for (const { url } of [one, other]) {
        expect((await ask(url, '/oauth2/callback?state=x', sent)).headers['x-name']).toBe(polled);
        for (const method of ['GET', 'DELETE']) {
          const answer = await ask(url, `/oauth2/token/${id}`, undefined, method);
          expect(answer.headers['x-name']).toBe(polled);
        }
      }
      const key = clusterKey('b');
      const keyed = `/${key}/oauth2/token/${id}`;
      const redirected = await ask(other.url, keyed);
      expect(redirected.status).toBe(307);
      const { pathname } = new URL(redirected.headers.location as string, new URL(keyed, other.url));
      expect(pathname).toBe(`/oauth2/token/${id}`);
      seen.add(polled);
    }
    expect([...seen].toSorted()).toEqual(['a', 'b', 'c']);
  });

  test('stays together where its cluster does not answer; those of the others stay where they are', async () => {
    const clusters = await clustersOf('a', 'b', 'c');
    const all = await replica({ clusters });
    const gone = clusterAt('c', `http://127.0.0.1:${await freePort()}`);
    const fewer = await replica({ clusters: [...clusters.slice(0, 2), gone] });
    let moved = 0;
    for (let count = 0; count < 30; count++) {
      const id = randomUUID();
      const before = (await ask(all.url, `/oauth2/token/${id}`)).headers['x-name'];
      const polled = (await ask(fewer.url, `/oauth2/token/${id}`)).headers['x-name'];
      expect((await ask(fewer.url, initiate(id))).headers['x-name']).toBe(polled);
      if (before === 'c') moved++;
      else expect(polled).toBe(before);
    }
    expect(moved).toBeGreaterThan(0);
  });

  test('is not looked at without the feature, nor where its paths are not steered', async () => {
    const clusters = await clustersOf('a', 'b');
    for (const one of [
      await startGateway({ clusters, random: () => 0 }),
      await replica({ clusters, random: () => 0 }, { routingPaths: ['/ui'] }),
    ]) {
      for (let count = 0; count < 10; count++)
        expect((await ask(one.url, `/oauth2/token/${randomUUID()}`)).headers['x-name']).toBe('a');
    }
  });
});

/** What a cluster says of its coordinator: that of cluster a has the suffix of the query ids below. */
const coordinatorOf = (name: string) => JSON.stringify({ coordinatorId: name === 'a' ? 'abcde' : `only${name}` });

describe('an answer that sends the browser to a provider', () => {
  const provider = 'https://id.example.com/auth?response_type=code&client_id=e&state=s';
  const back = `&redirect_uri=${encodeURIComponent('https://gateway.example.com/oauth2/callback')}`;

  /** Clusters that redirect there from every path but the callback. */
  const redirecting = (location: string) =>
    Promise.all(
      ['a', 'b'].map(async (name) => {
        const { url } = await startServer((request, response) => {
          request.resume();
          if (request.url === '/v1/info') {
            response.end(coordinatorOf(name));
            return;
          }
          const redirects = request.url?.startsWith('/oauth2/callback') !== true;
          response.writeHead(redirects ? 303 : 200, { 'x-name': name, ...(redirects ? { location } : {}) }).end();
        });
        return clusterAt(name, url);
      }),
    );

  test.each(['/ui/', '/ui/query.html?20261121_101112_00001_abcde', '/oauth2/x'])(
    'from %s sets the cookie, in place of one of a login before, so that it comes back to the same cluster',
    async (path) => {
      const clusters = await redirecting(provider + back);
      const [one, other] = [await replica({ clusters }), await replica({ clusters })];
      for (let count = 0; count < 6; count++) {
        const sent = count % 2 === 0 ? undefined : cookie({ ts: Date.now() - 590_000 });
        const begun = await ask(one.url, path, sent);
        const [line, ...more] = ours(begun);
        expect([begun.status, more, begun.headers.location]).toEqual([303, [], provider + back]);
        const answer = await ask(other.url, '/oauth2/callback?code=1&state=2', pairOf(line!));
        expect(answer.headers['x-name']).toBe(begun.headers['x-name']);
        const content = JSON.parse(Buffer.from(pairOf(line!).slice('EG.OAUTH2='.length), 'base64url').toString());
        expect(content.ts).toBeGreaterThan(Date.now() - 60_000);
      }
    },
  );

  test.each(['/ui/login.html', '/ui/?redirect_uri=/', 'https://id.example.com/auth?client_id=e'])(
    'is not what leads to %s',
    async (location) => {
      const one = await replica({ clusters: await redirecting(location) });
      expect(ours(await ask(one.url, '/ui/'))).toEqual([]);
    },
  );

  test('sets none without the feature', async () => {
    const one = await startGateway({ clusters: await redirecting(provider + back) });
    expect(ours(await ask(one.url, '/ui/'))).toEqual([]);
  });
});

describe('an answer that has a client fetch a renewed token, which waits in the memory of its cluster', () => {
  /** Clusters that renew the tokens of all requests but those for tokens. */
  const renewing = (challenge: (id: string) => string, ...names: string[]) =>
    Promise.all(
      names.map(async (name) => {
        const { url } = await startServer((request, response) => {
          request.resume();
          if (request.url === '/v1/info' && request.headers.accept === 'application/json') {
            response.end(coordinatorOf(name));
            return;
          }
          const [, , asked] = /^(\/k[0-9a-f]+)?\/oauth2\/token\/(.*)$/.exec(request.url ?? '') ?? [];
          response.setHeader('x-name', name);
          if (asked !== undefined) response.end(asked);
          else response.writeHead(401, { 'www-authenticate': ['Basic realm="x"', challenge(randomUUID())] }).end();
        });
        return clusterAt(name, url);
      }),
    );
  const cookies = (answer: RawResponse) =>
    [answer.headers['set-cookie'] ?? []].flat().filter((line) => line.startsWith('EG.'));
  const idOf = (answer: RawResponse) => /token\/([0-9a-f-]+)/.exec(String(answer.headers['www-authenticate']))?.[1];

  test.each([
    ['POST', '/v1/statement'],
    ['GET', '/v1/query/20261121_101112_00001_abcde'],
    ['GET', '/v1/info'],
  ])('%s %s: leads it back there, also beside other logins', async (method, path) => {
    const challenge = (id: string) => `Bearer x_token_server="https://g.example.com/oauth2/token/${id}"`;
    const clusters = await renewing(challenge, 'a', 'b', 'c');
    const [one, other] = [await replica({ clusters }), await replica({ clusters })];
    const jar = [cookie({ ts: Date.now() - 9000 })];
    const renewals: RawResponse[] = [];
    for (let count = 0; count < 8; count++) {
      const answer = await ask(one.url, path, undefined, method);
      const [line, ...more] = cookies(answer);
      expect([answer.status, more]).toEqual([401, []]);
      expect(line).toMatch(
        /^EG\.OAUTH2\.[0-9a-f-]{36}=[\w-]+; Max-Age=60; Path=\/oauth2\/token\/[0-9a-f-]{36}; Secure;/,
      );
      jar.push(pairOf(line!));
      renewals.push(answer);
    }
    for (const renewal of renewals) {
      for (const [url, how] of [
        [other.url, 'GET'],
        [one.url, 'GET'],
        [one.url, 'DELETE'],
      ] as const) {
        const answer = await ask(url, `/oauth2/token/${idOf(renewal)}`, jar.join('; '), how);
        expect([answer.text, answer.headers['x-name'], cookies(answer)]).toEqual([
          idOf(renewal),
          renewal.headers['x-name'],
          [],
        ]);
      }
    }
  });

  test.each([
    ['/k0123456789abcdef', ''],
    ['/engine', '/engine'],
    ['/engine/k0123456789abcdef', '/engine'],
  ])('with %s before the path', async (before, kept) => {
    const challenge = (id: string) => `Bearer x_token_server="https://g.example.com${before}/oauth2/token/${id}"`;
    const one = await replica({ clusters: await renewing(challenge, 'a') });
    const answer = await ask(one.url, '/v1/statement', undefined, 'POST');
    expect(cookies(answer)).toEqual([expect.stringContaining(`; Path=${kept}/oauth2/token/${idOf(answer)}; `)]);
  });

  test.each([
    () => `Bearer x_token_server="https://g.example.com/;a=b/oauth2/token/${randomUUID()}"`,
    (id: string) =>
      `Bearer x_redirect_server="https://g/oauth2/token/initiate/1", x_token_server="https://g/oauth2/token/${id}"`,
    () => 'Bearer x_token_server="https://g/oauth2/token/1"; a=b',
    () => 'Bearer x_token_server="',
  ])('is not the one that begins a login, or another (%#)', async (challenge) => {
    const one = await replica({ clusters: await renewing(challenge, 'a') });
    expect(cookies(await ask(one.url, '/v1/statement', undefined, 'POST'))).toEqual([]);
  });
});

describe('a cookie that does not count is no error: the request goes the usual way, a new cookie is set', () => {
  test.each([
    ['forged with another secret', cookie({}, 'guessed')],
    ['expired', cookie({ ts: Date.now() - 600_001 })],
    ['of another name', cookie({}, secret, 'EG.OTHER')],
    ['foreign: not ours at all', 'TG.OAUTH2=eyJ0cyI6MX0'],
    ['for another path', cookie({ routingPaths: ['/oauth2/elsewhere'], deletePaths: [] })],
    ['of a cluster that is not registered', cookie({ backend: clusterKey('x') })],
    ['with an address in place of a key', cookie({ backend: 'http://169.254.169.254' })],
    ['no base64', 'EG.OAUTH2=%%%'],
    ['no JSON', `EG.OAUTH2=${Buffer.from('{').toString('base64url')}`],
    ['JSON that is no object', `EG.OAUTH2=${Buffer.from('null').toString('base64url')}`],
    ['fields of other types', cookie({ ts: 'now' })],
    ['paths that are no list', cookie({ routingPaths: '/oauth2' })],
    ['deleted', 'EG.OAUTH2=delete'],
    ['empty', 'EG.OAUTH2='],
    ['without a value', 'EG.OAUTH2'],
    ['too long', `EG.OAUTH2=${'x'.repeat(5000)}`],
    ['a name of the language', 'EG.__proto__=1; EG.=2'],
  ])('%s', async (_, sent) => {
    const one = await replica({ clusters: await clustersOf('a', 'b'), random: () => 0 });
    const answer = await ask(one.url, '/oauth2/callback', sent);
    expect([answer.status, answer.headers['x-name'], ours(answer).length]).toEqual([200, 'a', 1]);
  });

  test('a changed signature of a real one', async () => {
    const one = await replica({ clusters: await clustersOf('a', 'b'), random: () => 0 });
    const text = Buffer.from(cookie().slice('EG.OAUTH2='.length), 'base64url').toString();
    const change = (from: RegExp | string, to: string) =>
      `EG.OAUTH2=${Buffer.from(text.replace(from, to)).toString('base64url')}`;
    for (const changed of [
      change(/"signature":"..../, '"signature":"0000'),
      change(/,"signature":"\w+"/, ''),
      change(clusterKey('b'), clusterKey('a')),
      change('"priority":0', '"priority":1'),
    ]) {
      expect((await ask(one.url, '/oauth2/x', changed)).headers['x-name']).toBe('a');
    }
  });
});

test.each([
  ['GET', '/ui/api/stats'],
  ['GET', '/oauth2X'],
  ['GET', '/v1/info'],
  ['POST', '/v1/statement'],
])('%s %s is not steered', async (method, path) => {
  const one = await replica({ clusters: await clustersOf('a', 'b'), random: () => 0 });
  const answer = await ask(one.url, path, cookie(), method);
  expect([answer.headers['x-name'], ours(answer)]).toEqual(['a', []]);
});

test('paths and lifetime are those of the configuration', async () => {
  const clusters = await clustersOf('a', 'b');
  const one = await replica({ clusters }, { routingPaths: ['/ui/'], deletePaths: ['/ui/logout'], lifetime: 90_500 });
  const begun = await ask(one.url, '/ui/api/stats');
  expect(ours(begun)[0]).toContain('; Max-Age=90; ');
  const later = await ask(one.url, '/ui/logout', pairOf(ours(begun)[0]!));
  expect([later.headers['x-name'], ours(later).length]).toEqual([begun.headers['x-name'], 1]);
  expect(ours(await ask(one.url, '/oauth2/x'))).toEqual([]);
});

test('without the feature cookies mean nothing', async () => {
  const one = await startGateway({ clusters: await clustersOf('a', 'b'), random: () => 0 });
  const answer = await ask(one.url, '/oauth2/callback', cookie());
  expect([answer.headers['x-name'], ours(answer)]).toEqual(['a', []]);
});
