/** API and pages at one address, what is proxied at another: by host name and by port. */
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { SimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { certificateFolder, hasOpenssl } from '../../support/certificates.ts';
import { freePort } from '../../support/freePort.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { http2Client } from '../../support/http2Client.ts';
import { declare, manifest } from '../../support/queueing.ts';
import { send, sendBytes } from '../../support/rawHttp.ts';
import { worldOf } from '../../support/world.ts';

type Keys = Readonly<Record<string, unknown>>;

const world = worldOf('suite');
let engine: SimulatedEngine;
let gateway: GatewayProcess;

beforeAll(async () => {
  engine = await world.engine({ name: 'a' });
  await world.declare(manifest('EngineCluster', 'a', { proxyTo: engine.url, routingGroup: 'adhoc' }));
});

const config = (server: Keys, more: Keys = {}): Keys => ({
  // Without authentication only known hosts are answered; these tests ask under many.
  server: { allowedHosts: ['*'], ...server },
  ...more,
});
/** Paths of each side with what answers them there; `/ui/` has no page at the simulated engine. */
const adminPaths = ['/', '/gateway/backend/all', '/engine-gateway/', '/openapi.json', '/webapp/getUIConfiguration'];
const queryPaths = ['/v1/info', '/v1/statement/x', '/ui/', '/oauth2/token/x', '/v1/query'];
const sharedPaths = [
  '/livez',
  '/readyz',
  '/metrics',
  '/engine-gateway/livez',
  '/engine-gateway/readyz',
  '/readyz?verbose',
];

/** Whether an address serves queries, or the API, and says where the other is. */
async function sideOf(url: string, headers: readonly string[] = []): Promise<'admin' | 'queries' | 'both'> {
  const ask = async (path: string) => {
    const response = await send(url, path, { headers });
    const elsewhere = /^This address serves/.test(response.text);
    if (elsewhere)
      expect([response.status, response.headers['content-type']]).toEqual([404, 'text/plain; charset=utf-8']);
    return { elsewhere, text: response.text, status: response.status };
  };
  const [api, queries, shared] = await Promise.all(
    [adminPaths, queryPaths, sharedPaths].map((paths) => Promise.all(paths.map(ask))),
  );
  expect(shared!.map(({ status }) => status)).toEqual(sharedPaths.map(() => 200));
  const servesApi = new Set(api!.map(({ elsewhere }) => !elsewhere));
  const servesQueries = new Set(queries!.map(({ elsewhere }) => !elsewhere));
  expect([servesApi.size, servesQueries.size]).toEqual([1, 1]);
  if (servesApi.has(true) && servesQueries.has(true)) return 'both';
  expect(servesApi).not.toEqual(servesQueries);
  return servesApi.has(true) ? 'admin' : 'queries';
}

describe('server.adminHosts', () => {
  beforeAll(async () => {
    const adminHosts = ['admin.example', '[::1]:8081', 'narrow.example:8443'];
    gateway = await world.start(config({ adminHosts, trustedProxies: ['127.0.0.1'] }));
  });

  test.each([
    ['the admin host', ['Host', 'admin.example'], 'admin'],
    ['with a port', ['Host', 'admin.example:1234'], 'admin'],
    ['in capitals, with a trailing dot', ['Host', 'ADMIN.Example.:80'], 'admin'],
    ['an IPv6 address in another form', ['Host', '[0:0:0:0:0:0:0:1]:8081'], 'admin'],
    ['the address with another port', ['Host', '[::1]:8082'], 'queries'],
    ['a host with another port than it is listed with', ['Host', 'narrow.example'], 'queries'],
    ['a host with its port', ['Host', 'narrow.example:8443'], 'admin'],
    ['another host', ['Host', 'queries.example'], 'queries'],
    ['a host that begins alike', ['Host', 'admin.example.evil'], 'queries'],
    ['a host below it', ['Host', 'x.admin.example'], 'queries'],
    ["a pod's address", ['Host', '10.1.2.3:8080'], 'queries'],
    ['nothing that is a host', ['Host', 'user@admin.example'], 'queries'],
    ['a trusted proxy that says so', ['Host', 'pod:8080', 'X-Forwarded-Host', 'admin.example'], 'admin'],
    [
      'in the standard header',
      ['Host', 'pod:8080', 'Forwarded', 'for=1.1.1.1;host=admin.example;proto=https'],
      'admin',
    ],
    ['a trusted proxy that says another', ['Host', 'pod:8080', 'X-Forwarded-Host', 'queries.example'], 'queries'],
    ['an admin host, whatever is said', ['Host', 'admin.example', 'X-Forwarded-Host', 'queries.example'], 'admin'],
  ] as const)('%s', async (_, headers, side) => {
    expect(await sideOf(gateway.url, headers)).toBe(side);
  });

  test('each address says where the other is', async () => {
    const wrong = await send(gateway.url, '/gateway/backend/all', { headers: ['Host', 'queries.example'] });
    expect(wrong.text).toBe(
      'This address serves queries only. The REST API and the pages of the gateway are at admin.example, [::1]:8081, narrow.example:8443 (server.adminHosts).\n',
    );
    const statement = await send(gateway.url, '/v1/statement', {
      method: 'POST',
      body: 'SELECT 1',
      headers: ['Host', 'admin.example', 'X-Engine-User', 'u'],
    });
    expect([statement.status, statement.text]).toEqual([404, expect.stringContaining('Send queries to another host')]);
  });

  test.each([
    ['POST', '/livez'],
    ['GET', '/livez/'],
    ['GET', '/%6civez'],
    ['GET', '//livez'],
    ['GET', '/livez/../gateway/backend/all'],
    ['GET', '/metrics/../gateway'],
    ['POST', '/gateway/backend/modify/add'],
    ['POST', '/login'],
    ['POST', '/loginType'],
    ['GET', '/oidc/callback'],
    ['GET', '/api/public/backends'],
    ['GET', '*'],
  ])('%s %s is not answered beside queries', async (method, path) => {
    const response = await send(gateway.url, path, { method, headers: ['Host', 'queries.example'] });
    expect([response.status, response.text]).toEqual([404, expect.stringMatching(/^This address serves queries only/)]);
  });

  test('a target that names another host than Host is not answered', async () => {
    const { port } = new URL(gateway.url);
    const ask = (target: string, host: string) =>
      sendBytes(Number(port), `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    const api = '/gateway/backend/all';
    expect(await ask(`http://admin.example${api}`, 'queries.example')).toMatch(/^HTTP\/1\.1 400 /);
    expect(await ask(`http://queries.example${api}`, 'admin.example')).toMatch(/^HTTP\/1\.1 400 /);
    expect(await ask(`http://admin.example${api}`, 'admin.example')).toMatch(/^HTTP\/1\.1 200 /);
    expect(await sendBytes(Number(port), `GET ${api} HTTP/1.0\r\n\r\n`)).toMatch(/^HTTP\/1\.1 404 /);
  });

  test.each([
    ['of queries', 'https://queries.example', 400],
    ['that is opaque', 'null', 400],
    ['of the API', 'https://admin.example', 200],
  ])('a page at the host %s that says it asked for the API through a proxy: %s', async (_, origin, status) => {
    const forwarded = ['X-Forwarded-Host', 'admin.example', 'X-Forwarded-Proto', 'https'];
    const headers = ['Host', 'queries.example', 'Origin', origin, 'Sec-Fetch-Site', 'same-origin', ...forwarded];
    const response = await send(gateway.url, '/loginType', { method: 'POST', headers });
    expect([response.status, response.text]).toEqual([
      status,
      expect.stringContaining(status === 200 ? 'Ok' : 'names different hosts'),
    ]);
  });

  test('nothing is said of a shared origin', () => {
    expect(gateway.log.filter(({ key }) => key === 'server.enginePages')).toEqual([]);
  });
});

describe('other ways', () => {
  afterEach(() => world.kill());
  const start = (keys: Keys) => world.start(keys);
  const expectNoWarning = async ({ log, stop }: GatewayProcess): Promise<void> => {
    // All of the log is there once the process has ended.
    await stop();
    expect(log.map(({ msg }) => msg)).toContain('stopped');
    expect(log.filter(({ key }) => key === 'server.enginePages')).toEqual([]);
  };

  test('an untrusted peer does not say which host it asked for', async () => {
    const { url } = await start(config({ adminHosts: ['admin.example'] }));
    expect(await sideOf(url, ['Host', 'queries.example', 'X-Forwarded-Host', 'admin.example'])).toBe('queries');
  });

  test('server.adminPort: each port answers only its own, probes on both', async () => {
    const started = await start(config({ adminPort: 0 }));
    expect(await sideOf(started.url)).toBe('queries');
    expect(await sideOf(started.listening.adminUrl as string)).toBe('admin');
    await expectNoWarning(started);
  });

  test('server.adminPort beside server.adminHosts: either leads to the API', async () => {
    const { url, listening } = await start(config({ adminPort: 0, adminHosts: ['admin.example'] }));
    expect(await sideOf(url, ['Host', 'queries.example'])).toBe('queries');
    expect(await sideOf(url, ['Host', 'admin.example'])).toBe('admin');
    expect(await sideOf(listening.adminUrl as string)).toBe('admin');
  });

  test.skipIf(!hasOpenssl)('over HTTP/2 the authority decides, whatever Host says', async () => {
    const certificates = certificateFolder();
    try {
      const authority = certificates.authority('authority');
      const { listening } = await start(
        config(
          { adminHosts: ['admin.example'] },
          {
            serverConfig: {
              'http-server.https.enabled': true,
              'http-server.https.port': await freePort(),
              'http-server.https.keystore.path': authority.issue(['DNS:localhost', 'IP:127.0.0.1']).file,
            },
          },
        ),
      );
      const client = await http2Client(listening.httpsUrl as string, { ca: authority.cert });
      const ask = async (headers: Readonly<Record<string, string>>) =>
        (await client.send({ ':path': '/gateway/backend/all', ...headers })).status;
      expect(await ask({ ':authority': 'admin.example' })).toBe(200);
      expect(await ask({ ':authority': 'queries.example' })).toBe(404);
      expect(await ask({ ':authority': 'queries.example', host: 'admin.example' })).toBe(404);
      await client.close();
    } finally {
      certificates.dispose();
    }
  });

  test.each([
    ['an address of its own', 'https://a.example/x'],
    ['the address that the gateway uses, as it is stated', null],
  ])('redirect takes the externalUrl of a resource: %s', async (_, stated) => {
    const externalUrl = stated ?? engine.url;
    const directory = await mkdtemp(world.path('stated-'));
    await declare(
      directory,
      manifest('EngineCluster', 'b', { proxyTo: engine.url, routingGroup: 'adhoc', externalUrl }),
    );
    const jdbcUrl = `jdbc:sqlite:${join(directory, 'gateway.db')}`;
    const resources = { source: 'directory', directory };
    const started = await world.startReady(config({ enginePages: 'redirect' }, { resources, dataStore: { jdbcUrl } }));
    const { status, headers } = await send(started.url, '/ui/');
    expect([status, headers.location]).toEqual([307, `${externalUrl}/ui/`]);
    await expectNoWarning(started);
  });

  test('a configuration of the reference serves all at one address, and the start warns of it', async () => {
    const { url, logged, listening } = await start({});
    expect(listening.adminUrl).toBeNull();
    expect(await sideOf(url)).toBe('both');
    const warning = await logged(({ key }) => key === 'server.enginePages');
    expect(warning).toMatchObject({ level: 'warn', msg: expect.stringContaining('Set server.adminHosts') });
  });

  test('no warning with engine pages off', async () => {
    await expectNoWarning(await start(config({ enginePages: 'off' })));
  });
});
