import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { freePort } from '../../test/support/freePort.ts';
import { folderOf, ServerProcess } from '../../test/support/serverProcess.ts';

/** A private haproxy: its own configuration, directory and process of one thread. */
export interface Haproxy {
  readonly url: string;
  /** Address over TLS, HTTP/2 by ALPN; null for none. */
  readonly tlsUrl: string | null;
  readonly workerPid: number;
  readonly stop: () => Promise<void>;
}

/** Whether it is installed; says so where it is not. */
export function hasHaproxy(): boolean {
  if (folderOf(['haproxy'], ['/usr/sbin']) !== null) return true;
  console.log('haproxy is not installed (package haproxy): left out');
  return false;
}

/**
 * haproxy as a reverse proxy in front of the cluster: a peer that, like the gateway, streams in one thread.
 * @param directory made where there is none
 * @param certificate PEM file of a certificate with its key, to serve TLS as well; null for none
 */
export async function startHaproxy(
  directory: string,
  cluster: string,
  certificate: string | null = null,
): Promise<Haproxy> {
  mkdirSync(directory, { recursive: true });
  const port = await freePort();
  const tlsPort = certificate === null ? null : await freePort();
  const tls = tlsPort === null ? '' : `  bind 127.0.0.1:${tlsPort} ssl crt ${certificate} alpn h2,http/1.1\n`;
  const file = path.join(directory, 'haproxy.cfg');
  writeFileSync(
    file,
    `global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  option forwardfor
  http-reuse always
frontend clients
  bind 127.0.0.1:${port}
${tls}  http-request set-header X-Forwarded-Proto http
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  http-request set-header X-Forwarded-Port ${port}
  default_backend cluster
backend cluster
  server one ${new URL(cluster).host}
`,
  );
  const url = `http://127.0.0.1:${port}`;
  // In the foreground and without a master: its CPU time is the whole, and stopping it stops all.
  const haproxy = new ServerProcess(`${folderOf(['haproxy'], ['/usr/sbin'])}/haproxy`, ['-db', '-f', file], null);
  await haproxy.start(async () => {
    await fetch(`${url}/v1/info`).then((response) => response.arrayBuffer());
  });
  return {
    url,
    tlsUrl: tlsPort === null ? null : `https://127.0.0.1:${tlsPort}`,
    workerPid: haproxy.pid,
    stop: () => haproxy.stop('SIGTERM'),
  };
}
