/** Tokens that clusters get for users of client certificates, verified by the published keys. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';
import { createLocalJWKSet, createRemoteJWKSet, decodeProtectedHeader, type JSONWebKeySet, jwtVerify } from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { SimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { overHttp1, overHttp2 } from '../../support/certificateClient.ts';
import { certificateFolder, hasOpenssl, type TestAuthority, type TestCertificate } from '../../support/certificates.ts';
import { GatewayExit, type GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { worldOf } from '../../support/world.ts';

type Keys = Readonly<Record<string, unknown>>;
type Pair = { readonly privateKey: KeyObject; readonly publicKey: KeyObject };

const newRsa = (): Pair => generateKeyPairSync('rsa', { modulusLength: 2048 });
const newEc = (namedCurve: string): Pair => generateKeyPairSync('ec', { namedCurve });

describe.skipIf(!hasOpenssl)('tokens for clusters', () => {
  const world = worldOf('suite');
  let certificates: ReturnType<typeof certificateFolder>;
  let authority: TestAuthority;
  let server: TestCertificate;
  let ann: TestCertificate;
  let engines: readonly SimulatedEngine[];
  let gateway: GatewayProcess | null = null;

  beforeAll(async () => {
    certificates = certificateFolder();
    authority = certificates.authority('authority');
    server = authority.issue(['DNS:localhost', 'IP:127.0.0.1']);
    ann = authority.issueTo('/O=Example/CN=ann');
    engines = await Promise.all(['a', 'b'].map((name) => world.engine({ name, record: true, productName: 'Trino' })));
    await world.declare(
      ...engines.map(({ name, url }) => manifest('EngineCluster', name, { proxyTo: url, routingGroup: name })),
    );
  });
  afterEach(() => world.kill());
  afterAll(() => certificates.dispose());

  const privateKey = () => world.path('private.pem');

  /** Puts a private key in place as Secrets change: whole, at once. */
  async function putKey(pair: Pair): Promise<void> {
    await writeFile(`${privateKey()}.new`, pair.privateKey.export({ type: 'pkcs8', format: 'pem' }));
    await rename(`${privateKey()}.new`, privateKey());
  }

  /** Starts a gateway whose clusters are sent tokens; answers its address over TLS. */
  async function start(tokens: Keys = {}, more: Keys = {}): Promise<string> {
    gateway = await world.startReady({
      protocol: { productName: 'Trino' },
      requestAnalyzerConfig: { clientCertificateIdentityField: 'CN' },
      clientCertificateJwtAuthentication: {
        jwtSigningKeyPair: { privateKey: privateKey() },
        tokenHosts: ['127.0.0.1', 'localhost'],
        ...tokens,
      },
      ...more,
      serverConfig: {
        'http-server.https.enabled': true,
        'http-server.https.port': 0,
        'http-server.https.keystore.path': server.file,
        'http-server.https.truststore.path': authority.file,
        'http-server.https.ssl-context.refresh-time': '100ms',
      },
    });
    return String(gateway.listening.httpsUrl).replace('127.0.0.1', 'localhost');
  }

  const jwksUrl = () => `${gateway?.url}/.well-known/jwks.json`;
  const publishedKeys = async () => (await (await fetch(jwksUrl())).json()) as JSONWebKeySet;
  const client = (own?: TestCertificate) => ({ ca: authority.cert, ...(own === undefined ? {} : { own }) });

  /** Sends a submission and answers the headers that the cluster got. */
  async function received(
    url: string,
    cluster: 'a' | 'b',
    own: TestCertificate | undefined,
    headers: Readonly<Record<string, string>> = {},
    send = overHttp1,
  ) {
    const all = { 'x-trino-routing-group': cluster, 'x-trino-user': 'bob', ...headers };
    const response = await send(client(own), url, '/v1/statement', all, 'SELECT 1');
    expect(response).toMatchObject({ status: 200 });
    const { requests } = engines[cluster === 'a' ? 0 : 1] as SimulatedEngine;
    const got: Readonly<Record<string, unknown>> = requests.findLast(({ method }) => method === 'POST')?.headers ?? {};
    return { got, token: String(got.authorization ?? '').replace(/^Bearer /, '') };
  }

  test('are verified by the published keys, of each algorithm', async () => {
    const pairs = { RS256: newRsa(), ES256: newEc('P-256'), ES384: newEc('P-384'), ES512: newEc('P-521') };
    await putKey(pairs.RS256);
    const settings = {
      jwtIssuer: 'https://gateway.example',
      jwtAudiences: ['trino-{cluster}'],
      jwtPublishAhead: '1ms',
    };
    const url = await start(settings);
    for (const [alg, pair] of Object.entries(pairs)) {
      await putKey(pair);
      const use = async () => decodeProtectedHeader((await received(url, 'a', ann)).token).alg;
      await expect.poll(use).toBe(alg);
      await expectVerified(url, alg, pair);
    }
  });

  async function expectVerified(url: string, alg: string, pair: Pair): Promise<void> {
    const { token, got } = await received(url, 'a', ann, {}, overHttp2);
    const { payload, protectedHeader } = await jwtVerify(token, createRemoteJWKSet(new URL(jwksUrl())), {
      issuer: 'https://gateway.example',
      audience: 'trino-a',
      algorithms: [alg],
      maxTokenAge: '5m',
    });
    expect([payload.sub, got['x-trino-user']]).toEqual(['ann', 'bob']);
    expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(300);
    const { keys } = await publishedKeys();
    expect(keys[0]).toEqual({ ...pair.publicKey.export({ format: 'jwk' }), kid: protectedHeader.kid, use: 'sig', alg });
    // The same token while it is fresh, and another one for another cluster.
    expect((await received(url, 'a', ann)).token).toBe(token);
    const other = (await received(url, 'b', ann)).token;
    await expect(jwtVerify(other, createRemoteJWKSet(new URL(jwksUrl())), { audience: 'trino-a' })).rejects.toThrow();
    await jwtVerify(other, createRemoteJWKSet(new URL(jwksUrl())), { audience: 'trino-b' });
  }

  test('replace what the client sends for itself, and nothing where there is no certificate', async () => {
    await putKey(newEc('P-256'));
    const url = await start({ overrideTrinoUser: true, jwtPrincipalClaim: 'preferred_username', jwtKeyId: 'one' });
    const sent = { authorization: 'Bearer client', 'x-trino-original-user': 'root' };
    const { token, got } = await received(url, 'a', ann, sent);
    expect([got['x-trino-user'], got['x-trino-original-user']]).toEqual(['ann', 'ann']);
    const { payload, protectedHeader } = await jwtVerify(token, createRemoteJWKSet(new URL(jwksUrl())));
    expect([payload.preferred_username, payload.aud, protectedHeader.kid]).toEqual(['ann', undefined, 'one']);
    const { got: plain } = await received(url, 'a', undefined, sent);
    expect([plain.authorization, plain['x-trino-user'], plain['x-trino-original-user']]).toEqual([
      'Bearer client',
      'bob',
      'root',
    ]);
    // Pages and probes of engines are not asked in a user's name.
    const pageHeaders = { 'x-trino-routing-group': 'a', authorization: 'Bearer client' };
    await overHttp1(client(ann), url, '/v1/info?page', pageHeaders);
    const asked = engines.flatMap(({ requests }) => requests).find((one) => one.url === '/v1/info?page');
    expect(asked?.headers.authorization).toBe('Bearer client');
  });

  test('go in clear text to named hosts alone', async () => {
    await putKey(newEc('P-256'));
    const url = await start({ tokenHosts: null });
    expect((await received(url, 'a', ann, { authorization: 'Bearer client' })).token).toBe('client');
    const line = await gateway?.logged(({ msg }) => String(msg).includes('gets no tokens'));
    expect(line).toMatchObject({ level: 'warn', cluster: 'a' });
    expect(line?.msg).toMatch(/add 127\.0\.0\.1:\d+ to clientCertificateJwtAuthentication\.tokenHosts/);
  });

  test('queries need a certificate where that is configured', async () => {
    await putKey(newEc('P-256'));
    const url = await start({ clientCertificateRequired: true });
    expect(await overHttp1(client(), url, '/v1/statement', {}, 'SELECT 1')).toEqual({
      status: 401,
      text: 'This gateway takes queries over TLS with a client certificate only.\n',
    });
    expect((await fetch(`${gateway?.url}/v1/query`)).status).toBe(401);
    const toA = { 'x-trino-routing-group': 'a', 'x-trino-user': 'ann' };
    expect((await overHttp1(client(), url, '/v1/info', toA)).status).toBe(200);
    expect((await overHttp1(client(ann), url, '/v1/statement', toA, 'SELECT 1')).status).toBe(200);
  });

  test('a new key is published before it signs, and the old one after', async () => {
    const [first, second] = [newEc('P-256'), newRsa()];
    await putKey(first);
    const url = await start({ jwtPublishAhead: '2s' });
    const before = (await received(url, 'a', ann)).token;
    const cachedByClusters = await publishedKeys();
    expect(cachedByClusters.keys.map(({ kty }) => kty)).toEqual(['EC']);
    await putKey(second);
    await vi.waitFor(async () => expect((await publishedKeys()).keys).toHaveLength(2), {
      timeout: 20_000,
      interval: 20,
    });
    const between = await publishedKeys();
    // The old one still signs: clusters that have not read the new one yet know it.
    expect(between.keys.map(({ kty }) => kty)).toEqual(['EC', 'RSA']);
    await jwtVerify((await received(url, 'a', ann)).token, createLocalJWKSet(cachedByClusters));
    await vi.waitFor(async () => expect((await received(url, 'a', ann)).token).not.toBe(before), {
      timeout: 20_000,
      interval: 50,
    });
    const after = (await received(url, 'a', ann)).token;
    const { protectedHeader } = await jwtVerify(after, createLocalJWKSet(between));
    expect(protectedHeader.alg).toBe('RS256');
    // Tokens that were made before are still good.
    await jwtVerify(before, createLocalJWKSet(await publishedKeys()));
    expect((await publishedKeys()).keys.map(({ kty }) => kty)).toEqual(['RSA', 'EC']);
    // A file that is no key leaves the last good one in use.
    await writeFile(privateKey(), 'x');
    await gateway?.logged(({ msg }) => String(msg).startsWith('changed token keys rejected'));
    await jwtVerify((await received(url, 'a', ann)).token, createLocalJWKSet(await publishedKeys()));
  });

  test.each<[Keys, string]>([
    [
      { jwtSigningKeyPair: { privateKey: '/nowhere.pem' } },
      'clientCertificateJwtAuthentication.jwtSigningKeyPair.privateKey: /nowhere.pem cannot be read (ENOENT).',
    ],
    [
      { jwtPublishedKeys: ['/dev/null'] },
      'clientCertificateJwtAuthentication.jwtPublishedKeys[0]: /dev/null holds no key in PEM form that can be read without a password.',
    ],
  ])('a key that cannot be used stops the start: %j', async (tokens, message) => {
    await putKey(newEc('P-256'));
    const failed = await start(tokens).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(GatewayExit);
    expect((failed as GatewayExit).message).toContain(message);
  });
});
