/**
 * Users of client certificates at a real Trino that takes tokens of the gateway alone: it reads the published keys, and
 * queries run as the user whom the certificate is mapped to.
 */
import { execFile } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { overHttp1 } from '../support/certificateClient.ts';
import { certificateFolder, hasOpenssl, type TestAuthority, type TestCertificate } from '../support/certificates.ts';
import { requireComponent } from '../support/components.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { addClusters } from './addClusters.ts';
import { type Distribution, installDistribution, missingTools } from './distribution.ts';
import { commandLine } from './javaOptions.ts';
import { startTrino, type TrinoServer } from './trinoServer.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);
const run = promisify(execFile);

/** Of no catalog: a server that has just started may not know yet that it serves them itself. */
const sql = 'SELECT current_user, 6 * 7';

describe.skipIf(!available || !hasOpenssl)('client certificates at a real engine', () => {
  let distribution: Distribution;
  let certificates: ReturnType<typeof certificateFolder>;
  let authority: TestAuthority;
  let folder: string;
  let gateway: GatewayProcess;
  let trino: TrinoServer;
  let url: string;

  beforeAll(async () => {
    distribution = await installDistribution();
    certificates = certificateFolder();
    authority = certificates.authority('authority');
    folder = await mkdtemp(join(tmpdir(), 'engine-certificates-'));
    const privateKey = join(folder, 'private.pem');
    const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    await writeFile(privateKey, pair.privateKey.export({ type: 'pkcs8', format: 'pem' }));
    gateway = await startGateway({
      protocol: { productName: 'Trino' },
      dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
      resources: { source: 'database' },
      monitor: { taskDelay: '1s', timeout: '10s' },
      requestAnalyzerConfig: {
        clientCertificateIdentityField: 'SUBJECT_DN',
        clientCertificateUserMappingPattern: 'CN=([a-z]+), O=Example',
      },
      clientCertificateJwtAuthentication: {
        jwtSigningKeyPair: { privateKey },
        jwtIssuer: 'https://gateway.example',
        jwtAudiences: ['{cluster}'],
        tokenHosts: ['127.0.0.1'],
      },
      serverConfig: {
        'http-server.https.enabled': true,
        'http-server.https.port': 0,
        'http-server.https.keystore.path': authority.issue(['DNS:localhost', 'IP:127.0.0.1']).file,
        'http-server.https.truststore.path': authority.file,
      },
    });
    url = String(gateway.listening.httpsUrl).replace('127.0.0.1', 'localhost');
    // After the gateway: it reads the keys when it starts.
    const jwt = 'http-server.authentication.jwt';
    trino = await startTrino(
      'certificates',
      distribution,
      {},
      {
        'http-server.authentication.type': 'JWT',
        'internal-communication.shared-secret': 'shared by the nodes of a cluster',
        [`${jwt}.key-file`]: `${gateway.url}/.well-known/jwks.json`,
        [`${jwt}.required-issuer`]: 'https://gateway.example',
        [`${jwt}.required-audience`]: 'trino-a',
      },
    );
    // The one server stands for two clusters, by different names; it takes tokens for the first.
    await addClusters(
      [gateway],
      [
        { name: 'trino-a', url: trino.url },
        { name: 'trino-b', url: trino.url, routingGroup: 'other' },
      ],
    );
  }, 540_000);

  afterAll(async () => {
    await trino?.kill();
    await gateway?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
    certificates?.dispose();
  });

  const client = (own?: TestCertificate) => ({ ca: authority.cert, ...(own === undefined ? {} : { own }) });

  /** Runs a query to its end; answers its rows, or the status that it is refused with. */
  async function query(
    own: TestCertificate | undefined,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<unknown> {
    let response = await overHttp1(client(own), url, '/v1/statement', headers, sql);
    const rows: unknown[] = [];
    for (;;) {
      if (response.status !== 200) return response.status;
      const page = JSON.parse(response.text) as { nextUri?: string; data?: unknown[]; error?: { message: string } };
      if (page.error !== undefined) return page.error.message;
      rows.push(...(page.data ?? []));
      if (page.nextUri === undefined) return rows;
      const { pathname, search } = new URL(page.nextUri);
      response = await overHttp1(client(own), url, `${pathname}${search}`, headers);
    }
  }

  test('a query runs as the user whom the certificate is mapped to', async () => {
    const ann = authority.issueTo('/O=Example/CN=ann');
    expect(await query(ann)).toEqual([['ann', 42]]);
    // What the client sends for itself is replaced; whom it asks to be is the engine's decision.
    expect(await query(ann, { authorization: 'Bearer x.y.z' })).toEqual([['ann', 42]]);
    expect(await query(ann, { 'x-trino-user': 'bob' })).toBe('Access Denied: User ann cannot impersonate user bob');
  });

  test('without a certificate the engine takes nobody', async () => {
    expect(await query(undefined, { 'x-trino-user': 'ann' })).toBe(401);
  });

  test('a token of one cluster is worth nothing at another', async () => {
    const ann = authority.issueTo('/O=Example/CN=ann');
    expect(await query(ann, { 'x-trino-routing-group': 'other' })).toBe(401);
  });

  test("Trino's command line runs a query with its certificate", async () => {
    const ann = authority.issueTo('/O=Example/CN=ann');
    const store = ['--keystore-path', ann.pkcs12(), '--keystore-password', 'changeit', '--keystore-type', 'PKCS12'];
    const { stdout } = await run(distribution.java, [
      ...commandLine(distribution),
      ...['--server', url, '--truststore-path', authority.file, ...store, '--user', 'ann', '--execute', sql],
    ]);
    expect(stdout.trim()).toBe('"ann","42"');
  });
});
