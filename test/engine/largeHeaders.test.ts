/** Large and many headers of real clients: what a real Trino takes directly, it takes through the gateway. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { certificateFolder, hasOpenssl } from '../support/certificates.ts';
import { requireComponent } from '../support/components.ts';
import { type SecureGatewayProcess, startSecureGatewayProcess } from '../support/secureGatewayProcess.ts';
import { shareOf } from '../support/sharedServer.ts';
import { type EngineClient, engineClients } from './clients.ts';
import { installDistribution, missingTools } from './distribution.ts';
import type { SharedTrino, TrinoPair } from './sharedTrinos.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);

/** A text that the engine cannot compress to much less. */
const noise = (bytes: number) =>
  randomBytes(Math.ceil((bytes * 3) / 4))
    .toString('base64url')
    .slice(0, bytes);

describe.skipIf(!available || !hasOpenssl)('large headers', () => {
  const certificates = certificateFolder();
  const authority = certificates.authority('clients');
  let trino: SharedTrino;
  let gateway: SecureGatewayProcess;
  let clients: readonly EngineClient[];

  beforeAll(async () => {
    clients = engineClients(await installDistribution());
    [trino] = (await shareOf<TrinoPair>('trinoPair')).trinos;
    const config = {
      protocol: { productName: 'Trino' },
      monitor: { taskDelay: '1s', timeout: '10s' },
      // The default takes one PREPARE of 100 kB.
      serverConfig: { 'http-server.max-request-header-size': '2MB' },
    };
    gateway = await startSecureGatewayProcess(authority.issue(['DNS:localhost']), { a: trino.url }, config);
  }, 540_000);
  afterAll(async () => {
    await gateway?.stop();
    certificates.dispose();
  });

  /** Results of queries that one JDBC driver runs at the server, through the gateway, and over HTTPS. */
  async function runAtEach(queries: readonly string[], more = 'clientTags=large') {
    const urls = {
      directly: `${trino.url}?${more}`,
      'through the gateway': `${gateway.listening.url}?${more}`,
      'through the gateway over HTTPS': `${new URL(gateway.url).host}?SSL=true&SSLTrustStorePath=${authority.file}&${more}`,
    };
    const outcomes = await (clients[1] as EngineClient).run(
      Object.values(urls).join(' '),
      queries.map((sql) => ({ sql })),
    );
    const results = outcomes.map(({ rows, digest, error }) => ({ rows, digest, error }));
    return Object.fromEntries(
      Object.keys(urls).map((way, at) => [way, results.slice(at * queries.length, (at + 1) * queries.length)]),
    );
  }

  test('4,000 header lines of the JDBC driver, over HTTP/2 too', async () => {
    // The driver sends a line for each.
    const credentials = Array.from({ length: 4_000 }, (_, index) => `c${index}:1`).join(';');
    const outcomes = await runAtEach(['SELECT 1'], `extraCredentials=${credentials}`);
    for (const found of Object.values(outcomes)) expect(found).toMatchObject([{ rows: 1, error: null }]);
  });

  // One line over HTTP/2 has at most 64 kB: the driver is given HTTP/1.1 in time (docs/clients.md#large-headers).
  test('PREPARE and EXECUTE of up to 160 kB by the JDBC driver, over HTTPS too', async () => {
    const each = [[100_000], [60_000], [20_000, 20_000, 20_000, 100_000]].map((lengths) => [
      ...lengths.flatMap((length, index) => [
        `PREPARE a${index} FROM SELECT length('${noise(length)}')`,
        `EXECUTE a${index}`,
        `SELECT ${index}`,
      ]),
      ...lengths.map((_, index) => `DEALLOCATE PREPARE a${index}`),
    ]);
    const outcomes = await runAtEach(['SELECT 1', ...each.flat()]);
    for (const [way, found] of Object.entries(outcomes)) {
      expect(found.filter(({ error }) => error !== null)).toEqual([]);
      expect(found, way).toEqual(outcomes.directly);
    }
    // The driver asked for HTTP/2, and was given HTTP/1.1.
    const metrics = await (await fetch(`${gateway.listening.url}/metrics`)).text();
    expect(metrics).toMatch(/^engine_gateway_http2_declined_total\{reason="client"\} [1-9]/m);
  });

  test('PREPARE and EXECUTE of 100 kB by the command line', async () => {
    const cli = clients[0] as EngineClient;
    const sql = `PREPARE a FROM SELECT length('${noise(100_000)}'); EXECUTE a`;
    const [direct, through] = await Promise.all(
      [trino.url, String(gateway.listening.url)].map(async (url) => (await cli.run(url, [{ sql }]))[0]),
    );
    expect(direct?.error).toBeNull();
    expect(through).toEqual(direct);
  });

  test.each([
    ['4,000 lines', Object.fromEntries(Array.from({ length: 4_000 }, (_, index) => [`x-line-${index}`, `${index}`]))],
    ['a prepared statement of 1.5 MB', { 'X-Trino-Prepared-Statement': `a=SELECT+'${noise(1_500_000)}'` }],
  ])('%s, over HTTPS too', async (_name, headers) => {
    const send = async (url: string) => {
      const call = (url.startsWith('https:') ? httpsRequest : request)(`${url}/v1/statement`, {
        method: 'POST',
        headers: { 'X-Trino-User': 'u', ...headers },
        ca: authority.cert,
      });
      call.end('SELECT 1');
      const [response] = (await once(call, 'response')) as [IncomingMessage];
      const { error } = JSON.parse(await text(response)) as { error?: unknown };
      return { status: response.statusCode, error };
    };
    const direct = await send(trino.url);
    expect(direct).toEqual({ status: 200, error: undefined });
    expect(await send(String(gateway.listening.url))).toEqual(direct);
    expect(await send(gateway.url)).toEqual(direct);
  });
});
