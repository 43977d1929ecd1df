import { copyFileSync, mkdtempSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type ServerOptions } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { AnonymousCheck } from '../../../src/gateway/health/healthCheck.ts';
import { ClusterTls, clusterAtOrigin } from '../../../src/gateway/tls/clusterTls.ts';
import { type TlsFiles, TlsMetrics, watchTls } from '../../../src/gateway/tls/tlsFiles.ts';
import type { ClusterTlsSpec } from '../../../src/kinds/engineCluster/spec.ts';
import type { ClusterTlsMaterial } from '../../../src/routing/routingTable.ts';
import { RoutingTableHolder } from '../../../src/routing/routingTable.ts';
import { certificateFolder, hasOpenssl, type TestAuthority, type TestCertificate } from '../../support/certificates.ts';
import { capturingLogger, closeAll, closing, clusterAt, startGateway, until } from '../../support/gateway.ts';
import { openChecks } from '../../support/healthChecks.ts';
import { send } from '../../support/rawHttp.ts';

/** Files that keytool made; the store's password is `store-password`, the key's is `key-password`. */
const javaFile = (name: string): string => fileURLToPath(new URL(`../../fixtures/tls/${name}`, import.meta.url));

describe.skipIf(!hasOpenssl)('TLS to clusters', () => {
  let folder: ReturnType<typeof certificateFolder>;
  let trusted: TestAuthority;
  let other: TestAuthority;
  let local: TestCertificate;
  let internal: TestCertificate;

  beforeAll(() => {
    folder = certificateFolder();
    trusted = folder.authority('trusted');
    other = folder.authority('other');
    local = trusted.issue(['IP:127.0.0.1', 'DNS:localhost']);
    internal = trusted.issue(['DNS:engine.internal']);
  });
  afterAll(() => folder.dispose());
  afterEach(closeAll);

  /** A cluster that reports what it saw of the connection. */
  async function tlsCluster(certificate: TestCertificate | null, options: ServerOptions = {}) {
    const server = createServer(
      { ...(certificate === null ? {} : { cert: certificate.cert, key: certificate.key }), ...options },
      (request: IncomingMessage, response: ServerResponse) => {
        const socket = request.socket as TLSSocket & { servername: string | false };
        const observed = { sni: socket.servername, client: socket.getPeerCertificate().subject?.CN ?? null };
        response.end(JSON.stringify({ starting: false, ...observed }));
      },
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    closing({
      close: () => {
        server.closeAllConnections();
        return new Promise((resolve) => server.close(resolve));
      },
    });
    return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  interface Setup {
    readonly files?: Partial<TlsFiles>;
    readonly spec?: ClusterTlsSpec;
    readonly material?: ClusterTlsMaterial;
    readonly verifyHostname?: boolean;
  }

  /** A gateway in front of one cluster; `ask` sends a proxied request on a connection of its own. */
  async function setUp(url: string, { files, spec, material, verifyHostname = true }: Setup) {
    const log: Record<string, unknown>[] = [];
    const logger = capturingLogger(log);
    const table = new RoutingTableHolder();
    const cluster = clusterAt('a', url, { tls: spec ?? null, tlsMaterial: material });
    table.setInputs({ clusters: [cluster], rules: null });
    const followed = { keyStore: null, trustStore: null, ...files };
    const watch = await watchTls('clusters', followed, 100, logger, new TlsMetrics(new Registry()));
    closing({ close: async () => watch.stop() });
    const serverAt = clusterAtOrigin(table);
    const tls = new ClusterTls(watch, verifyHostname, serverAt, null, logger);
    const gateway = await startGateway({ clusters: [cluster], upstream: { tls } });
    const check = closing(openChecks({}, { tls })).kinds.INFO_API as AnonymousCheck;
    return {
      log,
      watch,
      table,
      ask: async () => {
        const answer = await send(gateway.url, '/v1/info', { headers: ['X-Engine-User', 'u'] });
        return answer.status === 200 ? JSON.parse(answer.text) : `${answer.status} ${answer.text}`;
      },
      refusal: () => gateway.log.map((line) => JSON.stringify(line)).join('\n'),
      failures: gateway.connectionFailures,
      check: () => check.check({ cluster: 'a', proxyTo: url, path: null }, AbortSignal.timeout(5_000)),
    };
  }

  const trust = (authority: Pick<TestAuthority, 'file'>): Partial<TlsFiles> => ({
    trustStore: { path: authority.file, key: 'serverConfig.proxy.http-client.trust-store-path' },
  });
  const file = (path: string, password: string | null = null): Partial<TlsFiles> => ({
    keyStore: { path, password, key: 'serverConfig.proxy.http-client.key-store-path' },
  });

  test.each<[string, (url: string) => Promise<Setup>, string | null]>([
    ['its own authority', async () => ({ files: trust(trusted) }), null],
    ['an authority of the cluster alone', async () => ({ spec: { caBundle: trusted.cert } }), null],
    [
      "the cluster's authority before the configured",
      async () => ({ files: trust(other), spec: { caBundle: trusted.cert } }),
      null,
    ],
    ['nothing but what Node.js knows', async () => ({}), 'unable to verify the first certificate'],
    ['another authority', async () => ({ files: trust(other) }), 'unable to verify the first certificate'],
    ['verification switched off for the cluster', async () => ({ spec: { insecureSkipVerify: true } }), null],
  ])('with %s', async (_name, setup, failure) => {
    const url = await tlsCluster(local);
    const { ask, check, failures, log } = await setUp(url, await setup(url));
    const answer = await ask();
    const checked = await check();
    if (failure === null) {
      expect(answer).toMatchObject({ starting: false });
      expect(checked.health).toBe('HEALTHY');
    } else {
      expect(failures.join()).toContain(failure);
      expect(checked).toMatchObject({ health: 'UNHEALTHY', reason: expect.stringContaining(failure) });
    }
    const warned = log.filter((line) => String(line.msg).includes('not verified'));
    expect(warned.map((line) => line.cluster)).toEqual(_name.includes('switched off') ? ['a'] : []);
  });

  test('referenced authorities and a client certificate of the cluster go before the configured ones', async () => {
    const url = await tlsCluster(local, { requestCert: true, rejectUnauthorized: true, ca: trusted.cert });
    const own = trusted.issueTo('/CN=gateway-of-a');
    const configured = { ...trust(other), ...file(trusted.issueTo('/CN=gateway').file) };
    const { ask, check } = await setUp(url, {
      files: configured,
      material: { ca: trusted.cert, certificate: own.cert, key: own.key },
    });
    expect(await ask()).toMatchObject({ client: 'gateway-of-a' });
    expect((await check()).health).toBe('HEALTHY');
    const wrong = await setUp(url, { files: configured, material: { ca: other.cert } });
    expect((await wrong.check()).health).toBe('UNHEALTHY');
  });

  test('a server name of the cluster is asked for and looked for in the certificate', async () => {
    const url = await tlsCluster(internal);
    const plain = await setUp(url, { files: trust(trusted) });
    await plain.ask();
    expect(plain.failures.join()).toContain("IP: 127.0.0.1 is not in the cert's list");
    const named = await setUp(url, { files: trust(trusted), spec: { serverName: 'engine.internal' } });
    expect(await named.ask()).toMatchObject({ sni: 'engine.internal' });
    const wrong = await setUp(url, { files: trust(trusted), spec: { serverName: 'other.internal' } });
    await wrong.ask();
    expect(wrong.failures.join()).toContain("other.internal. is not in the cert's altnames");
    const unnamed = await setUp(url, { files: trust(trusted), verifyHostname: false });
    expect(await unnamed.ask()).toMatchObject({ starting: false });
  });

  test.each(['PEM', 'PKCS#12', 'a mounted Secret'])('a client certificate in %s', async (form) => {
    const url = await tlsCluster(local, { requestCert: true, rejectUnauthorized: true, ca: trusted.cert });
    const own = trusted.issue(['DNS:gateway-1']);
    const secret = () => {
      const mounted = mkdtempSync(join(folder.path, 'secret-'));
      writeFileSync(join(mounted, 'tls.crt'), own.cert);
      writeFileSync(join(mounted, 'tls.key'), own.key);
      return file(mounted);
    };
    const store = form === 'PEM' ? file(own.file) : form === 'PKCS#12' ? file(own.pkcs12(), 'changeit') : secret();
    const shown = await setUp(url, { files: { ...trust(trusted), ...store } });
    expect(await shown.ask()).toMatchObject({ client: 'gateway-1' });
    expect((await shown.check()).health).toBe('HEALTHY');
    const none = await setUp(url, { files: trust(trusted) });
    expect(await none.ask()).toMatch(/^502 /);
  });

  test('changed files count for the next connection; a broken one leaves the last good one', async () => {
    const path = join(folder.path, 'followed.pem');
    copyFileSync(other.file, path);
    const url = await tlsCluster(local);
    const { ask, watch, log, failures } = await setUp(url, {
      files: { trustStore: { path, key: 'serverConfig.proxy.http-client.trust-store-path' } },
    });
    await ask();
    expect(failures.join()).toContain('unable to verify');
    const before = watch.current;
    copyFileSync(trusted.file, path);
    await until(() => watch.current !== before, 'the changed file');
    expect(await ask()).toMatchObject({ starting: false });
    writeFileSync(path, 'nonsense');
    const refused = () =>
      log.filter((line) => line.msg === 'changed certificate files rejected; last valid ones stay active');
    await until(() => refused().length > 0, 'the complaint');
    expect(refused()[0]).toMatchObject({ use: 'clusters', reason: expect.stringContaining(path) });
    expect(await ask()).toMatchObject({ starting: false });
  });

  test('a changed resource counts for the next connection, also after it was deleted', async () => {
    const url = await tlsCluster(internal);
    const { table, ask, check } = await setUp(url, { files: trust(trusted) });
    expect((await check()).health).toBe('UNHEALTHY');
    table.setInputs({ clusters: [clusterAt('a', url, { tls: { serverName: 'engine.internal' } })], rules: null });
    expect((await check()).health).toBe('HEALTHY');
    table.setInputs({ clusters: [], rules: null });
    expect(await ask()).toMatchObject({ starting: false });
  });

  test.each<[string, () => Partial<TlsFiles>, string]>([
    ['absent', () => file('/absent.pem'), '/absent.pem: cannot be read (ENOENT)'],
    ['without a key', () => file(trusted.file), 'holds no private key'],
    ['with a wrong password', () => file(local.pkcs12(), 'wrong'), 'the password does not open it'],
    ['of another key', () => file(mixed(local, internal)), 'the private key is not that of the first certificate'],
    ['that is nonsense', () => file(written('nonsense.p12', 'nonsense')), 'neither PEM nor a key store'],
    [
      'in JKS',
      () => file(javaFile('gateway.jks'), 'key-password'),
      'gateway.jks: is a Java key store in the format JKS, which is not read; convert it and name the new file: keytool -importkeystore -srckeystore ',
    ],
    ['of authorities in JKS', () => trust({ file: javaFile('gateway.jks') }), 'keytool -list -rfc -keystore '],
    [
      'of authorities without any',
      () => trust({ ...trusted, file: written('none.pem', '') }),
      'at least one certificate',
    ],
  ])('a file %s stops the start, named with its key', async (_name, files, message) => {
    const opened = setUp('https://127.0.0.1:1', { files: files() });
    await expect(opened).rejects.toThrow(message);
    await expect(opened).rejects.toMatchObject({
      code: 'EG_IMPOSSIBLE',
      field: expect.stringContaining('-store-path'),
    });
  });

  function written(name: string, text: string): string {
    const path = join(folder.path, name);
    writeFileSync(path, text);
    return path;
  }

  function mixed(one: TestCertificate, two: TestCertificate): string {
    return written('mixed.pem', one.cert + two.key);
  }
});
