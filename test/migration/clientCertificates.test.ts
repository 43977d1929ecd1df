/**
 * Client certificates at the released Trino Gateway and at this one with the same configuration: which user a certificate
 * is, what tokens the clusters get, and who is refused.
 */
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from 'jose';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { type SimulatedEngine, startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { overHttp1 } from '../support/certificateClient.ts';
import { certificateFolder, hasOpenssl, type TestAuthority, type TestCertificate } from '../support/certificates.ts';
import { requireComponent } from '../support/components.ts';
import type { ServerDatabase } from '../support/databases.ts';
import { freePort } from '../support/freePort.ts';
import { type GatewayProcess, startGatewayWithFile } from '../support/gatewayProcess.ts';
import { families } from '../support/referenceDatabases.ts';
import { missingReferenceTools, RELEASE, type ReferenceGateway, startReference } from './referenceGateway.ts';

const missing = await missingReferenceTools();
const canRun = requireComponent(missing.join(', '), missing.length === 0, 'the suite runs the released Trino Gateway');
const [family] = families.filter(({ name, available }) => name === 'postgresql' && available());

/** Rules as both read them. */
const mapping = {
  rules: [
    { pattern: 'CN=admin,.*', allow: false },
    { pattern: 'CN="([^,]*), ([^"]*)", O=Example', user: '$2.$1', case: 'lower' },
    { pattern: 'CN=(?<name>[a-z]+), OU=([^,]*), O=Example', user: '$2-$1', case: 'UPPER' },
    { pattern: 'EMAILADDRESS=([^@]*)@b\\.example, .*' },
    { pattern: '.*UID=(\\w+), O=Example', user: ' $1 ' },
    { pattern: '(.*) CN=nothing, O=Example', user: '$1' },
    { pattern: 'CN=(.*), O=Example' },
  ],
};

/** Subjects in the order of openssl, root first. */
const subjects = [
  '/O=Example/CN=ann',
  '/O=Example/CN=ann.b-c_d',
  '/O=Example/CN=Doe\\, John',
  '/O=Example/OU=data/CN=ann',
  '/O=Example/OU=data/CN=admin',
  '/O=Example/CN=x/emailAddress=ann@b.example',
  '/O=Example/UID=u1',
  '/O=Example/UID=u1/CN=ann',
  '/O=Example/CN=äöü',
  '/O=Example/CN= two  spaces ',
  '/O=Example/CN=a+b=c',
  '/O=Other/CN=ann',
  '/CN=ann',
];

describe.skipIf(!canRun || family === undefined || !hasOpenssl)(
  `client certificates of release ${RELEASE} and of this gateway`,
  () => {
    let folder: string;
    let certificates: ReturnType<typeof certificateFolder>;
    let authority: TestAuthority;
    let database: ServerDatabase;
    let engine: SimulatedEngine;
    let reference: ReferenceGateway;
    let gateway: GatewayProcess;
    let keys: ReturnType<typeof createLocalJWKSet>;
    /** Addresses over TLS. */
    let there: string;
    let here: string;

    beforeAll(async () => {
      if (family === undefined) return;
      folder = mkdtempSync(join(tmpdir(), 'certificates-side-by-side-'));
      certificates = certificateFolder();
      authority = certificates.authority('authority');
      const server = authority.issue(['DNS:localhost', 'IP:127.0.0.1']);
      const file = (name: string, text: string | Buffer) => {
        writeFileSync(join(folder, name), text);
        return join(folder, name);
      };
      const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const jwk = { ...pair.publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'ES256' };
      keys = createLocalJWKSet({ keys: [jwk] } as JSONWebKeySet);
      database = await family.start();
      const { jdbcUrl, user, password } = await database.create();
      const tokens = {
        jwtPrincipalClaim: 'preferred_username',
        jwtAudiences: ['trino', 'backend'],
        jwtIssuer: 'gateway',
        jwtKeyId: 'one',
        jwtSigningKeyPair: {
          privateKey: file('private.pem', pair.privateKey.export({ type: 'pkcs8', format: 'pem' })),
          publicKey: file('public.pem', pair.publicKey.export({ type: 'spki', format: 'pem' })),
        },
        clientCertificateRequired: true,
        overrideTrinoUser: true,
      };
      const configuration = (http: number, https: number) => ({
        serverConfig: {
          'node.environment': 'test',
          'http-server.http.port': http,
          'http-server.https.enabled': true,
          'http-server.https.port': https,
          'http-server.https.keystore.path': server.file,
          'http-server.https.truststore.path': authority.file,
        },
        dataStore: { jdbcUrl, user, password, driver: 'org.postgresql.Driver', runMigrationsEnabled: true },
        clusterStatsConfiguration: { monitorType: 'INFO_API' },
        monitor: { taskDelay: '1s' },
        requestAnalyzerConfig: {
          clientCertificateIdentityField: 'SUBJECT_DN',
          clientCertificateUserMappingFile: file('mapping.json', JSON.stringify(mapping)),
        },
        clientCertificateJwtAuthentication: tokens,
      });
      const ports = [await freePort(), await freePort(), await freePort(), await freePort()] as const;
      there = `https://localhost:${ports[1]}`;
      here = `https://localhost:${ports[3]}`;
      engine = await startSimulatedEngine({ name: 'a', productName: 'Trino', record: true });
      const old = file('old.yaml', stringify(configuration(ports[0], ports[1])));
      reference = await startReference(RELEASE, old, ports[0]);
      const added = await fetch(`${reference.url}/gateway/backend/modify/add`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ name: 'a', proxyTo: engine.url, active: true, routingGroup: 'adhoc' }),
      });
      expect(added.status).toBe(200);
      // The one key that clusters in clear text need.
      const own = configuration(ports[2], ports[3]);
      const beside = { queryHistory: { spillDirectory: join(folder, 'spill') } };
      const more = { ...own.clientCertificateJwtAuthentication, tokenHosts: ['127.0.0.1', 'localhost'] };
      const now = file('new.yaml', stringify({ ...own, ...beside, clientCertificateJwtAuthentication: more }));
      gateway = await startGatewayWithFile(now);
      for (const url of [reference.url, gateway.url]) {
        await vi.waitFor(
          async () => expect(await (await fetch(`${url}/api/public/backends/a/state`)).text()).toContain('"HEALTHY"'),
          { timeout: 90_000, interval: 200 },
        );
      }
    }, 400_000);
    afterAll(async () => {
      await gateway?.stop();
      await reference?.stop();
      await engine?.close();
      await database?.dispose();
      certificates?.dispose();
      if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
    }, 120_000);

    /** What becomes of a submission: the status, and what the cluster receives of its user. */
    async function outcome(url: string, own: TestCertificate | undefined): Promise<unknown> {
      const before = engine.requests.length;
      const headers = { 'x-trino-user': 'bob', 'x-trino-original-user': 'root', authorization: 'Bearer client' };
      const client = { ca: authority.cert, ...(own === undefined ? {} : { own }) };
      const { status } = await overHttp1(client, url, '/v1/statement', headers, 'SELECT 1');
      const sent = engine.requests.slice(before).find(({ method }) => method === 'POST')?.headers;
      if (sent === undefined) return { status };
      const token = String(sent.authorization).replace(/^Bearer /, '');
      const { payload, protectedHeader } = await jwtVerify(token, keys, { audience: ['trino'], issuer: 'gateway' });
      const { iat = 0, nbf = 0, exp = 0, ...claims } = payload;
      return {
        status,
        head: protectedHeader,
        claims,
        times: [nbf - iat, exp - iat],
        users: [sent['x-trino-user'], sent['x-trino-original-user']],
      };
    }

    test.each(subjects)('the subject %s is the same user, with the same token', async (subject) => {
      const own = authority.issueTo(subject);
      expect(await outcome(here, own)).toEqual(await outcome(there, own));
    });

    test('without a certificate queries are refused, and probes are not', async () => {
      expect([await outcome(there, undefined), await outcome(here, undefined)]).toEqual([
        { status: 401 },
        { status: 401 },
      ]);
      for (const url of [there, here]) {
        expect((await overHttp1({ ca: authority.cert }, url, '/v1/info')).status).toBe(200);
      }
    });

    test('one of another authority: there the handshake fails, here the answer says why', async () => {
      const own = certificates.authority('other').issueTo('/O=Example/CN=ann');
      await expect(outcome(there, own)).rejects.toThrow();
      expect(await outcome(here, own)).toEqual({ status: 401 });
    });
  },
);
