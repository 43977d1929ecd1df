/**
 * The real JDBC driver over HTTPS, which asks for HTTP/2, at the program as it ships. The clusters answer at once: what
 * counts is how many answers end on connections that are shared and closed.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type SimulatedEngine, startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { certificateFolder, hasOpenssl } from '../support/certificates.ts';
import { requireComponent } from '../support/components.ts';
import { type SecureGatewayProcess, startSecureGatewayProcess } from '../support/secureGatewayProcess.ts';
import { type EngineClient, engineClients } from './clients.ts';
import { installDistribution, missingTools } from './distribution.ts';

const CONNECTIONS = 12;
const QUERIES_EACH = 100;

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);

describe.skipIf(!available || !hasOpenssl)('the JDBC driver over HTTPS', () => {
  const certificates = certificateFolder();
  const authority = certificates.authority('clients');
  let engine: SimulatedEngine;
  let gateway: SecureGatewayProcess;
  let jdbc: EngineClient;

  beforeAll(async () => {
    [, jdbc] = engineClients(await installDistribution()) as [EngineClient, EngineClient];
    engine = await startSimulatedEngine({ name: 'a', productName: 'Trino', record: true });
    const config = { protocol: { productName: 'Trino' } };
    gateway = await startSecureGatewayProcess(authority.issue(['DNS:localhost']), { a: engine.url }, config);
  }, 540_000);
  afterAll(async () => {
    await gateway?.stop();
    await engine?.close();
    certificates.dispose();
  });

  test('loses no query of twelve connections', async () => {
    const url = `${new URL(gateway.url).host}?SSL=true&SSLTrustStorePath=${authority.file}`;
    const queries = Array.from({ length: CONNECTIONS * QUERIES_EACH }, (_, index) => ({ sql: `SELECT ${index}` }));
    const outcomes = await jdbc.run(url, queries, CONNECTIONS);
    expect(outcomes.filter(({ error, rows }) => error !== null || rows !== 1)).toEqual([]);
    expect(outcomes.length).toBe(queries.length);
    // The driver spoke HTTP/2: the gateway names the protocol of each request.
    const submissions = engine.requests.filter(({ url: path }) => path.startsWith('/v1/statement'));
    expect(submissions.length).toBeGreaterThan(0);
    expect(submissions.filter(({ headers }) => headers.via?.toString().startsWith('HTTP/2.0 ') !== true)).toEqual([]);
  });
});
