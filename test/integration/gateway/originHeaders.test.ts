/** What clusters' answers may not do at the gateway's address, on every way that an answer takes to the client. */
import { afterEach, describe, expect, test } from 'vitest';
import { cookieNames, ownCookies } from '../../../src/api/auth/cookies.ts';
import { productNames } from '../../../src/model/names.ts';
import { closeAll, clusterAt, startGateway, startServer, type TestGatewayOptions } from '../../support/gateway.ts';
import { send, sendBytes, valuesOf } from '../../support/rawHttp.ts';

afterEach(closeAll);

const names = productNames('Engine');
const { session, csrf, oidc } = cookieNames(names, true);

/** Lines that speak for the whole address, or set a cookie of the gateway. */
const hostile = [
  ...['Service-Worker-Allowed', '/', 'Clear-Site-Data', '"*"', 'Alt-Svc', 'h3=":1"', 'NEL', '{"report_to":"x"}'],
  ...['Strict-Transport-Security', 'max-age=9; includeSubDomains', 'Report-To', '{"group":"x"}'],
  ...['Set-Cookie', `${session}=evil; Secure; Path=/`, 'Set-Cookie', 'kept=1; Path=/'],
];
const withoutThem = (rawHeaders: readonly string[]) => {
  const found = rawHeaders.filter((line, index) => index % 2 === 0 && hostile.includes(line)).map((line) => line);
  expect(found.filter((line) => line.toLowerCase() !== 'set-cookie')).toEqual([]);
  expect(rawHeaders.join('\n').toLowerCase()).not.toMatch(
    /service-worker|clear-site|transport-security|alt-svc|^nel$|report-to|evil/m,
  );
  return valuesOf(rawHeaders, 'set-cookie');
};
const ID = '20261121_015745_00000_abcde';
/** An answer of any path: that of `/v1/info` names the coordinator. */
const queued = JSON.stringify({
  coordinatorId: 'abcde',
  id: ID,
  nextUri: `http://x/v1/statement/queued/${ID}/y/1`,
  stats: { state: 'QUEUED' },
});

/** A gateway before one cluster that answers everything with hostile lines. */
async function gatewayBefore(lines: readonly string[], more: Partial<TestGatewayOptions> = {}) {
  const engine = await startServer((request, response) => {
    request.resume();
    response.writeHead(200, ['Content-Type', 'application/json', ...lines]).end(queued);
  });
  const { dataPlane, ...rest } = more;
  return await startGateway({
    clusters: [clusterAt('a', engine.url)],
    ...rest,
    dataPlane: { ownCookies: ownCookies(names), ...dataPlane },
  });
}

describe('lines of an answer that hold for more than the answer', () => {
  test.each([
    ['a submission', 'POST', '/v1/statement'],
    ['a follow-up whose cluster is asked for', 'GET', `/v1/statement/queued/${ID}/y/1`],
    ['a page', 'GET', '/ui/'],
    ['a page of a query', 'GET', `/ui/query.html?${ID}`],
    ['a login', 'GET', '/oauth2/callback'],
    ['another proxied path', 'GET', '/v1/info'],
  ])('are dropped from the answer to %s', async (_, method, path) => {
    const gateway = await gatewayBefore(hostile);
    for (let time = 0; time < 2; time++) {
      const answer = await send(gateway.url, path, { method, ...(method === 'POST' ? { body: 'SELECT 1' } : {}) });
      expect([answer.status, withoutThem(answer.rawHeaders)]).toEqual([200, ['kept=1; Path=/']]);
    }
  });

  test('are dropped from the answer of an owner that is known', async () => {
    const gateway = await gatewayBefore(hostile);
    await send(gateway.url, '/v1/statement', { method: 'POST', body: 'SELECT 1' });
    const answer = await send(gateway.url, `/v1/statement/executing/${ID}/y/2`, { method: 'DELETE' });
    expect(withoutThem(answer.rawHeaders)).toEqual(['kept=1; Path=/']);
  });

  test('are dropped from trailers and early hints', async () => {
    const engine = await startServer((request, response) => {
      request.resume();
      response.writeEarlyHints({ link: '</x>; rel=preload', 'set-cookie': `${session}=evil` });
      response.writeHead(200, { 'Content-Type': 'text/plain', Trailer: 'X-Sum' });
      response.write('x');
      response.addTrailers([
        ['X-Sum', '42'],
        ['Set-Cookie', `${session}=evil`],
        ['Clear-Site-Data', '"*"'],
        ['Strict-Transport-Security', 'max-age=9'],
      ]);
      response.end();
    });
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    const bytes = await sendBytes(gateway.port, 'GET /v1/info HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    expect(bytes).toMatch(/^HTTP\/1\.1 200 .*X-Sum: 42/is);
    expect(bytes).not.toMatch(/set-cookie|clear-site-data|strict-transport|HTTP\/1\.1 103/i);
  });
});

describe("cookies of the gateway's own", () => {
  const csrfPlain = cookieNames(names, false).csrf;
  test.each([
    ['the session over TLS', `${session}=evil; Path=/; Secure`],
    ['the session over clear text', `${cookieNames(names, false).session}=evil`],
    ['the token of writes', `${csrf}=evil; Domain=gateway.test`],
    ['the state of a login', `${oidc}=evil; Path=/oidc/callback`],
    ['under the other prefix', `__Secure-${csrfPlain}=evil`],
    ['in other letters', `ENGINE-gateway-SESSION=evil`],
    ['a prefix in other letters', `__hOsT-${csrfPlain}=evil; Secure; Path=/`],
    ['with white space around it', ` \t${csrfPlain} \t = evil`],
    ['in quotes', `"${csrfPlain}"=evil`],
    ['as the value of a cookie without a name', `=${csrfPlain}=evil`],
    ['as the value of a cookie with an empty name and white space', ` = ${csrfPlain}=evil`],
    ['removed', `${csrfPlain}=; Max-Age=0`],
    ['without a value', `${csrfPlain}; Path=/`],
    ['below another path', `${csrfPlain}=evil; Path=/webapp`],
    ['the cookie of OAuth2 logins', 'EG.OAUTH2=evil'],
    ['that of one renewal', 'eg.oauth2.0a=evil'],
    ["the cluster's host", 'engineClusterHost=evil'],
  ])('are not set by a cluster: %s', async (_, line) => {
    const gateway = await gatewayBefore(['Set-Cookie', line, 'Set-Cookie', 'mine=evil-free']);
    expect(valuesOf((await send(gateway.url, '/v1/info')).rawHeaders, 'set-cookie')).toEqual(['mine=evil-free']);
  });

  test.each([
    ['a name that only ends alike', `X${csrfPlain}=1`],
    ['a name within the value', `a=b, ${csrfPlain}=1`],
    ["an engine's own cookies", '__Secure-Engine-OAuth2-Nonce=n; Secure; HttpOnly'],
    ["an engine's token", 'Engine-UI-Token=t; Path=/ui; HttpOnly'],
  ])('are distinguished from others: %s', async (_, line) => {
    const gateway = await gatewayBefore(['Set-Cookie', line]);
    expect(valuesOf((await send(gateway.url, '/v1/info')).rawHeaders, 'set-cookie')).toEqual([line]);
  });

  test('a line of 60,000 characters costs no more than its length', async () => {
    // Dropped, as Node's client takes no such line.
    const gateway = await gatewayBefore(['Set-Cookie', `"${`' `.repeat(29_000)}" ${csrfPlain}=evil`]);
    const before = process.cpuUsage();
    const answer = await send(gateway.url, '/v1/info');
    const { user } = process.cpuUsage(before);
    expect([answer.status, answer.headers['set-cookie']]).toEqual([200, undefined]);
    // Steps in proportion to the square would take seconds.
    expect(user / 1000).toBeLessThan(500);
  });
});

test.each(['/ui/worker.js', '/v1/info', '/oauth2/worker.js', `/v1/statement/queued/${ID}/y/1`])(
  'the script of a service worker is not proxied: %s',
  async (path) => {
    const gateway = await gatewayBefore(['Set-Cookie', 'asked=1']);
    const asWorker = ['Service-Worker', 'script', 'Sec-Fetch-Dest', 'serviceworker'];
    const refused = await send(gateway.url, path, { headers: asWorker });
    expect([refused.status, refused.text]).toEqual([404, 'Scripts of service workers are not proxied.\n']);
    expect((await send(gateway.url, path, { headers: asWorker.slice(2) })).headers['set-cookie']).toEqual(['asked=1']);
  },
);

describe("answers where engines' pages are not proxied", () => {
  const policies = async (path: string, type: string | null, mode: 'proxy' | 'redirect' | 'off') => {
    const engine = await startServer((request, response) => {
      request.resume();
      response.writeHead(200, type === null ? [] : ['Content-Type', type]).end('<script>1</script>');
    });
    const gateway = await startGateway({
      clusters: [clusterAt('a', engine.url)],
      dataPlane: { enginePages: mode },
    });
    const { rawHeaders } = await send(gateway.url, path);
    return [valuesOf(rawHeaders, 'content-security-policy'), valuesOf(rawHeaders, 'x-content-type-options')].flat();
  };

  test.each([
    ['HTML', '/v1/info', 'text/html'],
    ['HTML of a login', '/oauth2/callback', 'text/html; charset=utf-8'],
    ['an image with scripts', '/v1/node', 'image/svg+xml'],
    ['no type', '/v1/info', null],
    ['two types', '/v1/info', 'application/json, text/html'],
  ])('cannot run scripts as a page of the gateway: %s', async (_, path, type) => {
    expect(await policies(path, type, 'redirect')).toEqual(['sandbox', 'nosniff']);
    expect(await policies(path, type, 'off')).toEqual(['sandbox', 'nosniff']);
    expect(await policies(path, type, 'proxy')).toEqual([]);
  });

  test('JSON needs nothing of it', async () => {
    expect(await policies('/v1/info', 'application/json', 'redirect')).toEqual([]);
  });
});

describe('pages of engines', () => {
  const modes = async (mode: 'redirect' | 'off', clusters: Parameters<typeof clusterAt>[2][] = [{}]) => {
    let asked = 0;
    const engines = await Promise.all(
      clusters.map((more, index) =>
        startServer((request, response) => {
          asked++;
          request.resume();
          const id = `20261121_015745_00000_abcd${index}`;
          response.writeHead(200, ['Content-Type', 'application/json']).end(JSON.stringify({ id, stats: {} }));
        }).then(({ url }) => clusterAt(`c${index}`, url, { routingGroup: `g${index}`, ...more })),
      ),
    );
    const gateway = await startGateway({ clusters: engines, dataPlane: { enginePages: mode } });
    const page = async (path: string, method = 'GET', headers: string[] = []) => {
      const before = asked;
      const answer = await send(gateway.url, path, { method, headers });
      expect(asked).toBe(before);
      return [answer.status, answer.headers.location ?? answer.text];
    };
    return { gateway, page };
  };
  const group = (name: string) => ['X-Engine-Routing-Group', name];
  const away = { externalUrl: 'https://a.example/b' };

  test('redirect leads to the address of the cluster that would be asked', async () => {
    const { page } = await modes('redirect', [away, { externalUrl: 'https://c.example:8443' }]);
    expect(await page('/ui/', 'GET', group('g0'))).toEqual([307, 'https://a.example/b/ui/']);
    expect(await page('/ui/x?y=%20&z', 'HEAD', group('g1'))).toEqual([307, 'https://c.example:8443/ui/x?y=%20&z']);
  });

  test('redirect leads the page of a query to the cluster that runs it', async () => {
    const { gateway, page } = await modes('redirect', [away, { externalUrl: 'https://c.example' }]);
    await send(gateway.url, '/v1/statement', { method: 'POST', body: 'SELECT 1', headers: group('g1') });
    const id = '20261121_015745_00000_abcd1';
    expect(await page(`/ui/query.html?${id}`)).toEqual([307, `https://c.example/ui/query.html?${id}`]);
    expect(await page(`/ui/api/query/${id}`)).toEqual([307, `https://c.example/ui/api/query/${id}`]);
    // Nobody is asked for a query that is not known, as nobody's page would be shown.
    gateway.table.setInputs({ clusters: [], rules: null });
    expect(await page(`/ui/query.html?${id}`)).toEqual([404, expect.stringContaining('externalUrl')]);
  });

  test.each([
    ['no externalUrl', {}, 'has no address for browsers. Set its externalUrl.'],
    ['an externalUrl that is not a URL', { externalUrl: 'trino.example' }, 'Set its externalUrl.'],
    ['an externalUrl of another scheme', { externalUrl: 'javascript:alert(1)//' }, 'Set its externalUrl.'],
    ['an externalUrl that leads back', { externalUrl: 'http://gw.example:81' }, 'is the address of this gateway'],
  ])('redirect says why it does not lead to a cluster with %s', async (_, more, why) => {
    const { page } = await modes('redirect', [more]);
    const answer = await page('/ui/', 'GET', [...group('g0'), 'Host', 'gw.example:81']);
    expect(answer).toEqual([404, expect.stringContaining(why)]);
  });

  test('redirect takes the address of a resource that states it, be it that of the gateway to the cluster', async () => {
    const { gateway, page } = await modes('redirect');
    const [cluster] = gateway.table.current.clusters.values();
    gateway.table.setInputs({ clusters: [{ ...cluster!, hasExternalUrl: true }], rules: null });
    expect(await page('/ui/', 'GET', group('g0'))).toEqual([307, `${cluster!.proxyTo}/ui/`]);
  });

  test.each([
    ['redirect', 'POST', 'only GET and HEAD'],
    ['redirect', 'PUT', 'only GET and HEAD'],
    ['off', 'GET', 'server.enginePages: off'],
    ['off', 'POST', 'server.enginePages: off'],
  ] as const)('%s refuses %s, and says so', async (mode, method, why) => {
    const { gateway, page } = await modes(mode, [away]);
    expect(await page('/ui/login', method)).toEqual([404, expect.stringContaining(why)]);
    expect(await gateway.registry.metrics()).toContain('engine_gateway_refusals_total{reason="engine_pages"} 1');
  });

  test.each(['redirect', 'off'] as const)('%s leaves logins of clients as they are', async (mode) => {
    const { gateway } = await modes(mode, [away]);
    for (const path of ['/oauth2/token/initiate/x', '/oauth2/callback?code=1', '/oauth2/token/y', '/v1/info']) {
      expect((await send(gateway.url, path, { headers: group('g0') })).status).toBe(200);
    }
  });
});
