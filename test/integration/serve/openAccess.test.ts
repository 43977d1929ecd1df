import { writeFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { afterEach, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { certificateFolder, hasOpenssl } from '../../support/certificates.ts';
import { GatewayExit, type GatewayProcess, startGatewayWithFile } from '../../support/gatewayProcess.ts';
import { http2Client } from '../../support/http2Client.ts';
import { send } from '../../support/rawHttp.ts';
import { sessionKeyPaths } from '../../support/sessionKeyPair.ts';
import { worldOf } from '../../support/world.ts';

const addresses = Object.values(networkInterfaces()).flat();
/** An address of this machine that others reach; undefined where there is no network. */
const outer = addresses.find((each) => each !== undefined && !each.internal && each.family === 'IPv4')?.address;
const hasIpv6 = addresses.some((each) => each?.address === '::1');

describe('a gateway without authentication', () => {
  const world = worldOf('suite');
  afterEach(() => world.kill());

  /** Starts it with no more than these keys: no address unless it is given. */
  const start = async (config: Readonly<Record<string, unknown>>): Promise<GatewayProcess> => {
    const { dataStore, queryHistory } = world.config();
    const file = world.path('gateway.yaml');
    await writeFile(
      file,
      stringify({ dataStore, queryHistory, serverConfig: { 'http-server.http.port': 0 }, ...config }),
    );
    const gateway = await startGatewayWithFile(file);
    world.gateways.push(gateway);
    return gateway;
  };
  const portOf = (started: GatewayProcess) => new URL(started.url).port;
  const statusAt = (host: string, started: GatewayProcess): Promise<number | string> =>
    fetch(`http://${host}:${portOf(started)}/livez`).then(
      (response) => response.status,
      () => 'refused',
    );

  test('listens on this machine alone where nothing is configured, and says which line opens it', async () => {
    const started = await start({});
    await expectOwnHosts(started, false);
    expect(await statusAt('127.0.0.1', started)).toBe(200);
    if (hasIpv6) expect(await statusAt('[::1]', started)).toBe(200);
    if (outer !== undefined) expect(await statusAt(outer, started)).toBe('refused');
    const note = started.log.find(({ key }) => key === 'authentication');
    expect(note?.msg).toContain('listens on this machine alone');
    expect(note?.msg).toContain('add the line "authentication: none"');
  });

  test('listens on all addresses with authentication: none', async () => {
    const started = await start({ authentication: 'none' });
    expect(await statusAt('127.0.0.1', started)).toBe(200);
    if (outer !== undefined) expect(await statusAt(outer, started)).toBe(200);
    expect(started.log.some(({ msg }) => String(msg).startsWith('authentication is none: every call'))).toBe(true);
  });

  test('does not start on an address that others reach unless authentication: none says so', async () => {
    const refused = start({ server: { address: '0.0.0.0' } });
    await expect(refused).rejects.toThrow(GatewayExit);
    await expect(refused).rejects.toThrow(/server\.address.*add the line "authentication: none"/);
  });

  const paths = [
    ['GET', '/gateway/backend/all'],
    ['GET', '/engine-gateway'],
    ['GET', '/livez'],
    ['POST', '/v1/statement'],
    ['GET', '/v1/query/20260101_000000_00001_abcde'],
  ] as const;

  /** Expects responses under its own hosts alone, also for paths that are proxied. */
  async function expectOwnHosts(started: GatewayProcess, areNamed: boolean): Promise<void> {
    const port = portOf(started);
    const statusFor = async (host: string, [method, path]: readonly [string, string] = paths[0]) =>
      (await send(`http://127.0.0.1:${port}`, path, { method, headers: ['Host', host] })).status;
    for (const host of [`localhost:${port}`, 'LOCALHOST.', 'a.localhost', '127.0.0.1', '10.1.2.3:80', `[::1]:${port}`])
      expect([host, await statusFor(host)]).toEqual([host, 200]);
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      'x',
    ])
      expect([host, await statusFor(host)]).toEqual([host, 421]);
    for (const path of paths) expect([path, await statusFor('evil.example', path)]).toEqual([path, 421]);
    for (const host of ['gateway.example', 'Gateway.Example:1', 'a.b.corp.example'])
      expect([host, await statusFor(host)]).toEqual([host, areNamed ? 200 : 421]);
    expect(await statusFor('corp.example')).toBe(421);
    // The refusal names host and key, and nothing that follows on the connection is run.
    const response = await send(started.url, '/gateway/backend/modify/delete', {
      method: 'POST',
      headers: ['Host', 'evil.example'],
      body: 'c1',
    });
    expect([response.status, response.headers.connection]).toEqual([421, 'close']);
    const { error } = JSON.parse(response.text);
    expect(error.code).toBe('EG_UNKNOWN_HOST');
    expect(error.message).toContain('"evil.example" is not known as a name of this gateway');
    expect(error.message).toContain('server.allowedHosts');
  }

  describe('answers under its own hosts alone', () => {
    test('also with authentication: none, and those that are named', async () => {
      const server = { address: '0.0.0.0', allowedHosts: ['gateway.example', '*.corp.example'] };
      await expectOwnHosts(await start({ authentication: 'none', server }), true);
    });

    test('any host where allowedHosts says so', async () => {
      const started = await start({ server: { allowedHosts: ['*'] } });
      expect((await send(started.url, '/livez', { headers: ['Host', 'any.example'] })).status).toBe(200);
    });

    test.skipIf(!hasOpenssl)('over HTTP/2 as well', async () => {
      const certificates = certificateFolder();
      const authority = certificates.authority('authority');
      const { file } = authority.issue(['DNS:localhost']);
      const started = await world.start({
        serverConfig: {
          'http-server.https.enabled': true,
          'http-server.https.port': 0,
          'http-server.https.keystore.path': file,
        },
      });
      const { port } = new URL(started.listening.httpsUrl as string);
      const client = await http2Client(`https://localhost:${port}`, { ca: authority.cert });
      const call = (host: string) => client.send({ ':path': '/gateway/backend/all', ':authority': host });
      expect((await call('evil.example')).status).toBe(421);
      expect((await call(`localhost:${port}`)).status).toBe(200);
      await client.close();
      certificates.dispose();
    });
  });

  test('with authentication, any host is answered: a page of another site has no credentials', async () => {
    const authentication = { form: { selfSignKeyPair: sessionKeyPaths() } };
    const started = await start({ authentication, server: { address: '127.0.0.1' } });
    expect((await send(started.url, '/livez', { headers: ['Host', 'any.example'] })).status).toBe(200);
  });
});
