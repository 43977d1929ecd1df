/** Client certificates of real connections, and what rules, clusters and the API make of them. */
import { writeFile } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { SimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { overHttp1, overHttp2 } from '../../support/certificateClient.ts';
import { certificateFolder, hasOpenssl, type TestAuthority, type TestCertificate } from '../../support/certificates.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { http2Client } from '../../support/http2Client.ts';
import { manifest } from '../../support/manifest.ts';
import { sessionKeyPaths } from '../../support/sessionKeyPair.ts';
import { worldOf } from '../../support/world.ts';

type Keys = Readonly<Record<string, unknown>>;

const protocols = { 'HTTP/1.1': overHttp1, 'HTTP/2': overHttp2 } as const;
const both = Object.entries(protocols);

describe.skipIf(!hasOpenssl)('client certificates', () => {
  const world = worldOf('suite');
  let certificates: ReturnType<typeof certificateFolder>;
  let authority: TestAuthority;
  let clients: TestAuthority;
  let server: TestCertificate;
  /** Of the default group, and of the group that rules lead `ann` to. */
  let engines: readonly [SimulatedEngine, SimulatedEngine];
  let gateway: GatewayProcess | null = null;

  beforeAll(async () => {
    certificates = certificateFolder();
    authority = certificates.authority('servers');
    clients = certificates.authority('clients');
    server = authority.issue(['DNS:localhost', 'IP:127.0.0.1']);
    engines = [await world.engine({ name: 'a', record: true }), await world.engine({ name: 'b', record: true })];
    await world.declare(
      ...engines.map(({ name, url }, index) =>
        manifest('EngineCluster', name, { proxyTo: url, routingGroup: ['adhoc', 'etl'][index] }),
      ),
      manifest('RoutingRule', 'ann', {
        priority: 1,
        condition: 'engineRequestUser.userExistsAndEquals("ann")',
        routeTo: { routingGroup: 'etl' },
      }),
    );
  });
  afterEach(() => world.kill());
  afterAll(() => certificates.dispose());

  const byName: Keys = { clientCertificateIdentityField: 'CN' };

  /** Starts a gateway that takes users from certificates; answers its address over TLS. */
  async function start(requestAnalyzerConfig: Keys, more: Keys = {}): Promise<string> {
    gateway = await world.startReady({
      requestAnalyzerConfig: { analyzeRequest: true, ...requestAnalyzerConfig },
      ...more,
      serverConfig: {
        'http-server.https.enabled': true,
        'http-server.https.port': 0,
        'http-server.https.keystore.path': server.file,
        'http-server.https.truststore.path': clients.file,
        ...(more.serverConfig as object | undefined),
      },
    });
    return String(gateway.listening.httpsUrl).replace('127.0.0.1', 'localhost');
  }

  const client = (own?: TestCertificate) => ({ ca: authority.cert, ...(own === undefined ? {} : { own }) });
  const headers = { 'x-engine-user': 'bob' };
  /** Name of the engine that got the last submission, from answers that name it. */
  const submissionsOf = (index: 0 | 1) => engines[index].requests.filter(({ method }) => method === 'POST').length;

  test('the user of rules is that of the certificate', async () => {
    const url = await start(byName);
    const ann = clients.issueTo('/O=Example/OU=data/CN=ann');
    for (const [, send] of both) {
      const [toA, toB] = [submissionsOf(0), submissionsOf(1)];
      expect(await send(client(ann), url, '/v1/statement', headers, 'SELECT 1')).toMatchObject({ status: 200 });
      expect([submissionsOf(0) - toA, submissionsOf(1) - toB]).toEqual([0, 1]);
      // Without one, what the client says counts, as before.
      expect(await send(client(), url, '/v1/statement', headers, 'SELECT 1')).toMatchObject({ status: 200 });
      expect([submissionsOf(0) - toA, submissionsOf(1) - toB]).toEqual([1, 1]);
    }
  });

  test('one that is not accepted is rejected in words', async () => {
    const url = await start({ ...byName, clientCertificateUserMappingPattern: '([a-z]+)' });
    const foreign = authority.issueTo('/CN=ann');
    const expired = clients.issueTo('/CN=ann', [], -1);
    const unmapped = clients.issueTo('/CN=Ann 7');
    const unnamed = clients.issueTo('/O=Example');
    const before = [submissionsOf(0), submissionsOf(1)];
    for (const [, send] of both) {
      const answers: unknown[] = [];
      for (const own of [foreign, expired, unmapped, unnamed]) {
        answers.push(await send(client(own), url, '/v1/statement', headers, 'SELECT 1'));
      }
      expect(answers).toEqual([
        { status: 401, text: 'The client certificate is not accepted: no trusted authority has issued it.\n' },
        { status: 401, text: 'The client certificate is not accepted: it has expired.\n' },
        { status: 401, text: 'The client certificate stands for no user: no rule for users matches it.\n' },
        { status: 401, text: 'The client certificate stands for no user: it has no CN, which users are taken from.\n' },
      ]);
    }
    expect([submissionsOf(0), submissionsOf(1)]).toEqual(before);
  });

  test('programs call the API by their certificate, with the roles of its user', async () => {
    const url = await start(byName, {
      authentication: { form: { selfSignKeyPair: sessionKeyPaths() }, clientCertificates: true },
      authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*' },
      presetUsers: { ann: { privileges: 'API' } },
    });
    const ann = clients.issueTo('/CN=ann');
    for (const [, send] of both) {
      const call = (own: TestCertificate | undefined, path: string, sent: Readonly<Record<string, string>> = {}) =>
        send(client(own), url, path, sent).then(({ status }) => status);
      expect(await call(ann, '/gateway/backend/all')).toBe(200);
      expect(await call(ann, '/api/rules')).toBe(403);
      expect(await call(clients.issueTo('/CN=stranger'), '/gateway/backend/all')).toBe(403);
      expect(await call(undefined, '/gateway/backend/all')).toBe(401);
      // What else a program shows counts first, and people log in: pages could use their certificate without their knowing.
      expect(await call(ann, '/gateway/backend/all', { authorization: 'Bearer x' })).toBe(401);
      expect(await call(ann, '/gateway/backend/all', { 'sec-fetch-mode': 'cors' })).toBe(401);
      const refused = await send(client(authority.issueTo('/CN=ann')), url, '/gateway/backend/all');
      expect([refused.status, refused.text]).toEqual([
        401,
        expect.stringContaining('no trusted authority has issued it'),
      ]);
      expect(await call(undefined, '/.well-known/jwks.json')).toBe(404);
    }
  });

  test('a changed file of user mappings holds for connections that are there, and a broken one changes nothing', async () => {
    const file = world.path('users.json');
    const write = (...rules: readonly object[]) => writeFile(file, JSON.stringify({ rules }));
    await write({ pattern: 'CN=(.*), O=Example' });
    const url = await start(
      { clientCertificateIdentityField: 'SUBJECT_DN', clientCertificateUserMappingFile: file },
      { serverConfig: { 'http-server.https.ssl-context.refresh-time': '100ms' } },
    );
    const { cert, key } = clients.issueTo('/O=Example/CN=ann');
    const connection = await http2Client(url, { ca: authority.cert, cert, key });
    const send = async () => {
      const before = submissionsOf(1);
      const { status } = await connection.send({ ':method': 'POST', ':path': '/v1/statement', ...headers }, 'SELECT 1');
      return { status, isAnn: submissionsOf(1) > before };
    };
    try {
      expect(await send()).toEqual({ status: 200, isAnn: true });
      await write({ pattern: 'CN=ann, O=Example', user: 'cleo' });
      await expect.poll(send).toEqual({ status: 200, isAnn: false });
      const messages = () => gateway?.log.map(({ msg }) => String(msg)) ?? [];
      await writeFile(file, '{"rules": [');
      await expect.poll(messages).toContainEqual(expect.stringContaining('rejected; last valid rules stay active'));
      expect(await send()).toEqual({ status: 200, isAnn: false });
      await write({ pattern: 'CN=ann, O=Example', allow: false });
      await expect.poll(async () => (await send()).status).toBe(401);
    } finally {
      await connection.close();
    }
  });

  test('connections can be made with a certificate alone where that is required', async () => {
    const url = await start(byName, { server: { clientCertificates: 'require' } });
    const ann = clients.issueTo('/CN=ann');
    expect(await overHttp1(client(ann), url, '/v1/info')).toMatchObject({ status: 200 });
    await expect(overHttp1(client(), url, '/v1/info')).rejects.toThrow();
    await expect(overHttp1(client(authority.issueTo('/CN=ann')), url, '/v1/info')).rejects.toThrow();
  });

  test('a header counts from trusted proxies alone, by its name, and ends here', async () => {
    const ann = clients.issueTo('/CN=ann');
    const header = { ...headers, 'x-client-cert': encodeURIComponent(ann.cert) };
    const countedAt = async (url: string, sent: Readonly<Record<string, string>>, own?: TestCertificate) => {
      const before = submissionsOf(1);
      const { status, text } = await overHttp1(client(own), url, '/v1/statement', sent, 'SELECT 1');
      return status === 200 ? submissionsOf(1) - before : text;
    };
    const plain = await start(byName, { serverConfig: { 'http-server.process-forwarded': true } });
    expect(await countedAt(plain, header)).toBe(0);
    await gateway?.stop();
    const named = { clientCertificateHeader: 'X-Client-Cert' };
    const foreign = await start(byName, { server: { ...named, trustedProxies: ['10.0.0.0/8'] } });
    expect(await countedAt(foreign, header)).toBe(0);
    expect(engines[0].requests.at(-1)?.headers['x-client-cert']).toBeUndefined();
    await gateway?.stop();
    const trusting = await start(byName, { server: { ...named, trustedProxies: ['127.0.0.1', '::1'] } });
    expect(await countedAt(trusting, header)).toBe(1);
    expect(engines[1].requests.at(-1)?.headers['x-client-cert']).toBeUndefined();
    // The proxy's own certificate is nobody's.
    expect(await countedAt(trusting, headers, ann)).toBe(0);
    expect(await countedAt(trusting, { ...headers, 'x-client-cert': 'x' })).toBe(
      'The header x-client-cert holds no certificate that can be read.\n',
    );
    const expired = encodeURIComponent(clients.issueTo('/CN=ann', [], -1).cert);
    expect(await countedAt(trusting, { ...headers, 'x-client-cert': expired })).toBe(
      'The client certificate has expired or is not valid yet.\n',
    );
  });
});
