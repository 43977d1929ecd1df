import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import { certificateFolder } from '../../support/certificates.ts';
import { freePort } from '../../support/freePort.ts';
import { startGateway } from '../../support/gatewayProcess.ts';
import { http2Client } from '../../support/http2Client.ts';
import { openWindow, type Window } from '../../ui/support/browser.ts';
import { formAccess } from '../../ui/support/rig.ts';

/** A gateway under host names of its own, over TLS, with form logins (test/ui/support/rig.ts). */
export interface Site extends AsyncDisposable {
  /** Address of clear text by 127.0.0.1, for requests that no browser makes. */
  readonly clearText: string;
  /** Address over TLS under a host name below gateway.test. */
  at(host: string, port?: number): string;
  /** Names of the registered clusters. */
  clusters(): Promise<readonly string[]>;
  /** Has a cluster take no new queries. */
  deactivate(cluster: string): Promise<void>;
  /** A browser for which all names below gateway.test are this machine. */
  open(url: string): Promise<Window>;
}

/** A cluster of a site. */
export interface SiteCluster {
  readonly name: string;
  readonly proxyTo: string;
  readonly externalUrl?: string;
}

const basic = `Basic ${Buffer.from('ada:ada').toString('base64')}`;

/**
 * Starts a gateway before clusters, all of them in the group adhoc.
 * @param server keys of the configuration's section `server`
 * @param apiHost host that leads to the API, on `server.adminPort` where that is given
 */
export async function startSite(
  server: Readonly<Record<string, unknown>>,
  apiHost: string,
  clusters: readonly SiteCluster[],
  more: Readonly<Record<string, unknown>> = {},
): Promise<Site> {
  await using parts = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'origins-'));
  parts.defer(() => rm(folder, { recursive: true, force: true }));
  const certificates = certificateFolder();
  parts.defer(() => certificates.dispose());
  const authority = certificates.authority('authority');
  const { file } = authority.issue(['DNS:*.gateway.test', 'DNS:localhost', 'IP:127.0.0.1']);
  const port = await freePort();
  const gateway = await startGateway({
    ...formAccess(),
    dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
    queryHistory: { spillDirectory: join(folder, 'spill') },
    monitor: { taskDelay: '1s' },
    ...more,
    server,
    serverConfig: {
      'http-server.https.enabled': true,
      'http-server.https.port': port,
      'http-server.https.keystore.path': file,
    },
  });
  parts.defer(async () => void (await gateway.stop()));
  const api = await http2Client(`https://localhost:${server.adminPort ?? port}`, { ca: authority.cert });
  parts.defer(() => api.close());
  const call = async (path: string, body?: unknown) =>
    await api.send(
      {
        ...{ ':path': path, ':authority': apiHost, ':method': body === undefined ? 'GET' : 'POST' },
        ...{ authorization: basic, 'content-type': 'application/json' },
      },
      body === undefined ? undefined : JSON.stringify(body),
    );
  for (const cluster of clusters) {
    const added = await call('/gateway/backend/modify/add', { ...cluster, active: true, routingGroup: 'adhoc' });
    expect([added.status, added.text]).toEqual([200, expect.stringContaining(cluster.name)]);
    const isHealthy = async () =>
      expect((await call(`/api/public/backends/${cluster.name}/state`)).text).toContain('"HEALTHY"');
    await vi.waitFor(isHealthy, { timeout: 30_000, interval: 100 });
  }
  const owned = parts.move();
  return {
    clearText: gateway.url,
    at: (host, otherPort = port) => `https://${host}.gateway.test:${otherPort}`,
    clusters: async () => {
      const all = JSON.parse((await call('/gateway/backend/all')).text) as { name: string }[];
      return all.map(({ name }) => name).sort();
    },
    deactivate: async (cluster) => {
      expect((await call(`/gateway/backend/deactivate/${cluster}`, {})).status).toBe(200);
      await vi.waitFor(
        async () => expect((await call('/gateway/backend/active')).text).not.toContain(`"name":"${cluster}"`),
        { timeout: 30_000, interval: 100 },
      );
    },
    open: (url) =>
      openWindow(url, { args: ['--host-resolver-rules=MAP *.gateway.test 127.0.0.1', '--ignore-certificate-errors'] }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
