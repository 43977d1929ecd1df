/** Large and many headers of real clients: what a real Trino takes directly, it takes through the gateway. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { certificateFolder, hasOpenssl } from '../support/certificates.ts';
import { requireComponent } from '../support/components.ts';
import { type SecureGatewayProcess, startSecureGatewayProcess } from '../support/secureGatewayProcess.ts';
import { type EngineClient, engineClients } from './clients.ts';
import { installDistribution, missingTools } from './distribution.ts';
import { startTrino, type TrinoServer } from './trinoServer.ts';

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
  let trino: TrinoServer;
  let gateway: SecureGatewayProcess;
  let clients: readonly EngineClient[];

  beforeAll(async () => {
    const distribution = await installDistribution();
    clients = engineClients(distribution);
    trino = await startTrino('trino-a', distribution);
    const config = { protocol: { productName: 'Trino' }, monitor: { taskDelay: '1s', timeout: '10s' } };
    gateway = await startSecureGatewayProcess(authority.issue(['DNS:localhost']), { a: trino.url }, config);
  }, 540_000);
  afterAll(async () => {
    await gateway?.stop();
    await trino?.kill();
    certificates.dispose();
  });
  const addresses = () => ({
    directly: trino.url,
    'through the gateway': String(gateway.listening.url),
    'through the gateway over HTTPS': `${new URL(gateway.url).host}?SSL=true&SSLTrustStorePath=${authority.file}`,
  });

  test.each([
    ['100 kB', 100_000, ['directly', 'through the gateway']],
    // One line over HTTP/2 has at most 64 kB (docs/clients.md#large-headers).
    ['60 kB', 60_000, ['directly', 'through the gateway', 'through the gateway over HTTPS']],
  ] as const)('PREPARE and EXECUTE of %s by the JDBC driver', async (_name, length, ways) => {
    const jdbc = clients[1] as EngineClient;
    const queries = [`PREPARE a FROM SELECT length('${noise(length)}')`, 'EXECUTE a', 'DEALLOCATE PREPARE a'];
    const outcomes: Record<string, unknown> = {};
    for (const way of ways) {
      const found = await jdbc.run(
        addresses()[way],
        queries.map((sql) => ({ sql })),
      );
      outcomes[way] = found.map(({ rows, digest, error }) => ({ rows, digest, error }));
    }
    console.log(`PREPARE of ${length} bytes: ${JSON.stringify(outcomes).slice(0, 1_500)}`);
    for (const way of ways) expect(outcomes[way], way).toEqual(outcomes.directly);
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
  ])('%s', async (_name, headers) => {
    const send = async (url: string) => {
      const call = request(`${url}/v1/statement`, { method: 'POST', headers: { 'X-Trino-User': 'u', ...headers } });
      call.end('SELECT 1');
      const [response] = (await once(call, 'response')) as [IncomingMessage];
      const { error } = JSON.parse(await text(response)) as { error?: unknown };
      return { status: response.statusCode, error };
    };
    const direct = await send(trino.url);
    expect(direct).toEqual({ status: 200, error: undefined });
    expect(await send(String(gateway.listening.url))).toEqual(direct);
  });
});
