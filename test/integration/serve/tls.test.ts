import { execFile, spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { certificateFolder, hasOpenssl, type TestAuthority } from '../../support/certificates.ts';
import { requireComponent } from '../../support/components.ts';
import { GatewayExit } from '../../support/gatewayProcess.ts';
import { http2Client } from '../../support/http2Client.ts';
import { sessionKeyPaths } from '../../support/sessionKeyPair.ts';
import { worldOf } from '../../support/world.ts';

const run = promisify(execFile);
const hasCurl = requireComponent(
  'curl with HTTP/2',
  (spawnSync('curl', ['--version']).stdout?.toString() ?? '').includes('HTTP2'),
  'install the package curl',
);

describe.skipIf(!hasOpenssl)('the gateway over TLS', () => {
  const world = worldOf('suite');
  let folder: ReturnType<typeof certificateFolder>;
  let authority: TestAuthority;
  let file: string;

  beforeAll(() => {
    folder = certificateFolder();
    authority = folder.authority('authority');
    file = join(folder.path, 'gateway.pem');
  });
  afterAll(() => folder.dispose());

  const config = (serverConfig: Readonly<Record<string, unknown>>, server: Readonly<Record<string, unknown>> = {}) => ({
    resources: { source: 'database' },
    server,
    serverConfig: {
      'http-server.https.enabled': true,
      'http-server.https.port': 0,
      'http-server.https.keystore.path': file,
      'http-server.https.ssl-context.refresh-time': '200ms',
      ...serverConfig,
    },
  });

  async function start(settings: Readonly<Record<string, unknown>>) {
    copyFileSync(authority.issue(['DNS:localhost', 'IP:127.0.0.1']).file, file);
    const gateway = await world.start(settings);
    const listening = gateway.listening as { httpsUrl: string; adminUrl: string };
    return { ...gateway, ...listening };
  }

  /** Serial number of the certificate that a new connection is shown. */
  async function shown(url: string): Promise<string> {
    const socket: TLSSocket = connect({ port: Number(new URL(url).port), host: 'localhost', ca: authority.cert });
    await new Promise((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject));
    const { serialNumber } = socket.getPeerCertificate();
    socket.destroy();
    return serialNumber;
  }

  describe('from a PEM file, beside clear text', () => {
    let plain: Awaited<ReturnType<typeof start>>;
    beforeAll(async () => {
      plain = await start(config({}));
    });
    afterAll(() => world.kill());

    test('the API answers over HTTP/2 as over HTTP/1.1', async () => {
      const { url, httpsUrl, adminUrl } = plain;
      expect([url.slice(0, 7), httpsUrl.slice(0, 8), adminUrl]).toEqual(['http://', 'https://', null]);
      const client = await http2Client(httpsUrl, { ca: authority.cert });
      const cluster = { name: 'c1', proxyTo: 'http://127.0.0.1:1', active: true, routingGroup: 'adhoc' };
      const body = JSON.stringify(cluster);
      const add = { ':method': 'POST', ':path': '/gateway/backend/modify/add', 'content-type': 'application/json' };
      const added = await client.send({ ...add, 'content-length': body.length }, body);
      expect([added.status, JSON.parse(added.text)]).toMatchObject([200, cluster]);
      expect((await client.send(add, body)).status).toBe(409);
      expect((await client.send({ ...add, ':method': 'DELETE' })).status).toBe(405);
      expect((await client.send({ ':path': '/nowhere' })).status).toBe(404);
      expect((await client.send({ ':path': '/livez', ':method': 'HEAD' })).status).toBe(200);
      const listed = await client.send({ ':path': '/gateway/backend/all' });
      expect(listed.text).toBe(await (await fetch(`${url}/gateway/backend/all`)).text());
      const large = { ...add, ':method': 'POST' };
      expect((await client.send(large, Buffer.alloc(1_100_000, 32))).status).toBe(413);
      await client.close();
    });

    test.skipIf(!hasCurl)('curl speaks both', async () => {
      const { httpsUrl } = plain;
      for (const [version, protocol] of [
        ['--http1.1', '1.1'],
        ['--http2', '2'],
      ] as const) {
        const format = '%{http_version} %{http_code} %{ssl_verify_result}';
        const { stdout } = await run('curl', [
          ...['-s', '-o', '/dev/null', '-w', format, version],
          ...['--cacert', authority.file, `${httpsUrl}/livez`],
        ]);
        expect(stdout).toBe(`${protocol} 200 0`);
      }
    });

    test('a changed certificate is shown to new connections, a broken one is not', async () => {
      const { url, httpsUrl, logged } = plain;
      const first = await shown(httpsUrl);
      const kept = await http2Client(httpsUrl, { ca: authority.cert });
      // Renamed: a file that is being written could be read in between.
      writeFileSync(`${file}.next`, authority.issue(['DNS:localhost']).cert);
      renameSync(`${file}.next`, file);
      const refused = await logged((line) => String(line.msg).startsWith('changed certificate files rejected'));
      expect(refused).toMatchObject({
        level: 'error',
        use: 'clients',
        reason: expect.stringContaining('no private key'),
      });
      expect(await shown(httpsUrl)).toBe(first);
      const next = authority.issue(['DNS:localhost', 'IP:127.0.0.1']);
      copyFileSync(next.file, `${file}.next`);
      renameSync(`${file}.next`, file);
      await logged((line) => line.msg === 'certificate files reloaded');
      expect(await shown(httpsUrl)).not.toBe(first);
      expect((await kept.send({ ':path': '/livez' })).status).toBe(200);
      await kept.close();
      const metrics = await (await fetch(`${url}/metrics`)).text();
      expect(metrics).toMatch(/engine_gateway_tls_certificate_expiry_timestamp_seconds\{use="clients"\} \d{10}/);
      expect(metrics).toContain('engine_gateway_tls_reloads_total{use="clients",result="taken"} 1');
      expect(metrics).toContain('engine_gateway_tls_reloads_total{use="clients",result="refused"} 1');
      expect(readFileSync(file, 'utf8')).toContain('PRIVATE KEY');
    });

    test('a stop asks clients over HTTP/2 to go, and waits for their answers', async () => {
      const { httpsUrl, stop } = plain;
      const client = await http2Client(httpsUrl, { ca: authority.cert });
      expect((await client.send({ ':path': '/livez' })).status).toBe(200);
      const goaway = new Promise((resolve) => client.session.once('goaway', resolve));
      expect(await stop()).toBe(0);
      expect(await goaway).toBe(0);
    });
  });

  describe('as configured', () => {
    afterEach(() => world.kill());

    test('a key store in PKCS#12', async () => {
      const java = (name: string): string => fileURLToPath(new URL(`../../fixtures/tls/${name}`, import.meta.url));
      const { httpsUrl } = await start(
        config({
          'http-server.https.keystore.path': java('gateway.p12'),
          'http-server.https.keystore.type': 'PKCS12',
          'http-server.https.keystore.key': 'changeit',
        }),
      );
      const client = await http2Client(httpsUrl, { ca: readFileSync(java('gateway.crt')) });
      expect((await client.send({ ':path': '/livez' })).status).toBe(200);
      await client.close();
    });

    test('HTTPS alone, and on the port of the API', async () => {
      const { url, adminUrl } = await start(config({ 'http-server.http.enabled': false }, { adminPort: 0 }));
      expect([url.slice(0, 8), adminUrl.slice(0, 8)]).toEqual(['https://', 'https://']);
      const client = await http2Client(adminUrl, { ca: authority.cert });
      expect((await client.send({ ':path': '/livez' })).status).toBe(200);
      await client.close();
      const proxy = await http2Client(url, { ca: authority.cert });
      expect((await proxy.send({ ':path': '/livez' })).status).toBe(200);
      await proxy.close();
    });

    test('a certificate that cannot be used ends the start with its key and file', async () => {
      const failed = await world
        .start(config({ 'http-server.https.keystore.path': authority.file }))
        .catch((error: unknown) => error);
      expect(failed).toBeInstanceOf(GatewayExit);
      expect(failed).toMatchObject({
        exitCode: 1,
        stderr: expect.stringMatching(/http-server\.https\.keystore\.path: .*authority\.crt: holds no private key/),
      });
    });

    test('sessions live in Secure cookies, which no cluster sees', async () => {
      const engine = await world.engine({ name: 'a', record: true });
      const { httpsUrl } = await start({
        ...config({}),
        authentication: { defaultType: 'form', form: { selfSignKeyPair: sessionKeyPaths() } },
        authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*' },
        presetUsers: { root: { password: 'pass', privileges: 'ADMIN_USER_API' } },
      });
      const client = await http2Client(httpsUrl, { ca: authority.cert });
      const json = { 'content-type': 'application/json' };
      const login = await client.send(
        { ':method': 'POST', ':path': '/login', ...json },
        JSON.stringify({ username: 'root', password: 'pass' }),
      );
      const lines = login.headers['set-cookie'] ?? [];
      expect(lines.map((line) => [line.split('=')[0], line.includes('; Secure')])).toEqual([
        ['__Host-Engine-Gateway-Session', true],
        ['__Host-Engine-Gateway-CSRF', true],
      ]);
      const cookie = lines.map((line) => line.split(';')[0]).join('; ');
      const token = /CSRF=([^;]+)/.exec(cookie)?.[1] ?? '';
      const add = { ':method': 'POST', ':path': '/gateway/backend/modify/add', ...json, cookie, origin: httpsUrl };
      const body = JSON.stringify({ name: 'tls', proxyTo: engine.url, active: true, routingGroup: 'adhoc' });
      const forged = await client.send(add, body);
      expect([forged.status, forged.text]).toEqual([403, expect.stringContaining('X-Engine-Gateway-CSRF')]);
      const added = await client.send({ ...add, 'x-engine-gateway-csrf': token }, body);
      expect(added.status).toBe(200);
      await expect.poll(async () => (await client.send({ ':path': '/readyz' })).status).toBe(200);
      await client.send({ ':method': 'POST', ':path': '/v1/statement', cookie: `${cookie}; mine=1` }, 'SELECT 1');
      const [submitted] = engine.requests.filter(({ method }) => method === 'POST');
      expect(submitted?.headers.cookie).toBe('mine=1');
      await client.close();
    });
  });
});
