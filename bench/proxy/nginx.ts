import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { freePort } from '../../test/support/freePort.ts';
import { ServerProcess } from '../../test/support/serverProcess.ts';

/** A private nginx: its own configuration, directory and processes. */
export interface Nginx {
  readonly url: string;
  /** Address over TLS; null for none. */
  readonly tlsUrl: string | null;
  readonly stop: () => Promise<void>;
  /** The worker that does the work. */
  readonly workerPid: number;
}

const PAGE_BYTES = 8_192;
/** As an engine ends each page. */
const stats = {
  ...{ state: 'FINISHED', queued: false, scheduled: true, progressPercentage: 100, runningPercentage: 0, nodes: 3 },
  ...{ totalSplits: 22, queuedSplits: 0, runningSplits: 0, completedSplits: 22, planningTimeMillis: 12 },
  ...{ analysisTimeMillis: 9, cpuTimeMillis: 93, wallTimeMillis: 241, queuedTimeMillis: 1, elapsedTimeMillis: 261 },
  ...{ finishingTimeMillis: 2, physicalInputTimeMillis: 3, processedRows: 60175, processedBytes: 1631213 },
  ...{ physicalInputBytes: 1203200, physicalWrittenBytes: 0, internalNetworkInputBytes: 9120 },
  ...{ peakMemoryBytes: 1048576, spilledBytes: 0 },
};

/**
 * A stub cluster: answers submissions with an id of its own and follow-ups with a page of 8 KB.
 * @param goesOn whether that page has a `nextUri`, so that it is not the last one of its query
 */
export async function startStubCluster(directory: string, goesOn = false): Promise<Nginx> {
  const html = path.join(directory, 'html');
  mkdirSync(html, { recursive: true });
  chmodSync(directory, 0o755);
  const next = goesOn ? { nextUri: 'http://127.0.0.1/v1/statement/executing/x/1' } : {};
  const page = (data: string) => JSON.stringify({ ...next, data, stats, warnings: [] });
  writeFileSync(path.join(html, 'page'), page('x'.repeat(PAGE_BYTES - page('').length)));
  const results = JSON.stringify({
    // Unique: connections are numbered through, and so are the requests of each.
    id: '20261121_015745_${connection}00000${connection_requests}_bench',
    infoUri: 'http://$http_x_forwarded_host:$http_x_forwarded_port/ui/query.html',
    nextUri: 'http://$http_x_forwarded_host:$http_x_forwarded_port/v1/statement/queued/x/1',
    stats: { state: 'QUEUED', queued: true, scheduled: false, nodes: 0, totalSplits: 0, elapsedTimeMillis: 0 },
    warnings: [],
  });
  return start(path.join(directory, 'stub'), (port) =>
    [
      `server { listen 127.0.0.1:${port};`,
      `location = /v1/statement { return 200 '${results}'; }`,
      `location /v1/statement/ { rewrite ^ /page break; root ${html}; }`,
      `location = /v1/info { return 200 '{"starting":false}'; } }`,
    ].join('\n'),
  );
}

/** A rules service that names one group, whatever it is asked. */
export function startRulesService(directory: string): Promise<Nginx> {
  return start(path.join(directory, 'rules'), (port) =>
    [
      `server { listen 127.0.0.1:${port};`,
      `location / { return 200 '{"routingGroup":"adhoc","errors":null}'; } }`,
    ].join('\n'),
  );
}

/**
 * nginx as a reverse proxy in front of the cluster: the peer.
 * @param certificate PEM file of a certificate with its key, to serve TLS as well; null for none
 */
export async function startNginxProxy(
  directory: string,
  cluster: string,
  certificate: string | null = null,
): Promise<Nginx> {
  const tlsPort = certificate === null ? null : await freePort();
  const tls =
    tlsPort === null
      ? ''
      : `listen 127.0.0.1:${tlsPort} ssl; ssl_certificate ${certificate}; ssl_certificate_key ${certificate};`;
  const nginx = await start(path.join(directory, 'proxy'), (port) =>
    [
      `upstream cluster { server ${new URL(cluster).host}; keepalive 64; keepalive_requests 100000000; }`,
      `server { listen 127.0.0.1:${port}; ${tls} location / { proxy_pass http://cluster; proxy_http_version 1.1;`,
      'proxy_set_header Connection ""; proxy_set_header Host $proxy_host; proxy_set_header Via "HTTP/1.1 nginx";',
      'proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme;',
      'proxy_set_header X-Forwarded-Host $host; proxy_set_header X-Forwarded-Port $server_port; } }',
    ].join('\n'),
  );
  return { ...nginx, tlsUrl: tlsPort === null ? null : `https://127.0.0.1:${tlsPort}` };
}

async function start(directory: string, server: (port: number) => string): Promise<Nginx> {
  mkdirSync(directory, { recursive: true });
  const port = await freePort();
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${path.join(directory, name)};`)
    .join(' ');
  const file = path.join(directory, 'nginx.conf');
  // One process that neither forks nor detaches: its CPU time is the whole, and stopping it stops all.
  writeFileSync(
    file,
    `daemon off; master_process off; worker_processes 1; pid ${directory}/pid; error_log ${directory}/error.log;
events { worker_connections 2048; }
http { access_log off; default_type application/json; keepalive_requests 100000000; ${temporary}
${server(port)} }\n`,
  );
  const url = `http://127.0.0.1:${port}`;
  const nginx = new ServerProcess('nginx', ['-c', file, '-e', `${directory}/error.log`], null);
  await nginx.start(async () => {
    await fetch(`${url}/v1/info`).then((response) => response.arrayBuffer());
  });
  return { url, tlsUrl: null, workerPid: nginx.pid, stop: () => nginx.stop('SIGQUIT') };
}
