import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { vi } from 'vitest';
import { stringify } from 'yaml';
import { residentMegabytes } from '../../bench/proxy/processTimes.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { loopFigures, withLoopProbe } from '../support/loopFigures.ts';
import type { LoopFigures } from '../support/loopProbe.ts';
import { manifest } from '../support/manifest.ts';
import { limitMemory, manifestMemoryLimit } from './memoryLimit.ts';

/** A request that reached the cluster. */
interface Reached {
  /** Method and path. */
  readonly request: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
  readonly body: string;
}

/** A gateway as a process of its own under the manifests' memory limit, before one cluster, which counts what reaches it. */
export interface Target {
  readonly url: string;
  readonly port: number;
  readonly gateway: GatewayProcess;
  /** Requests that reached the cluster whole, other than health checks: `POST /v1/statement`, with headers and bodies. */
  readonly reached: readonly Reached[];
  /** Resident memory of the gateway now, MB. */
  memory(): number;
  /** For how long its event loop was blocked at most, since this was last asked. */
  loop(): Promise<LoopFigures>;
  /** The first sample of a metric; the name is without `engine_gateway_`. */
  metric(name: string): Promise<number>;
  /** Stops all. @throws when the gateway was over its memory limit at any time */
  close(): Promise<void>;
}

/** What is around a target. */
export interface TargetSetup {
  /**
   * Prepares the folder of the gateway's resources, its database `gateway.db` and other files, before the gateway starts.
   * @param clusterUrl address of the cluster, at which further EngineCluster manifests may have theirs
   */
  readonly prepare?: (folder: string, clusterUrl: string) => Promise<void>;
}

/** Starts both and waits until queries are routed. */
export async function startTarget(
  config: Readonly<Record<string, unknown>> = {},
  { prepare }: TargetSetup = {},
): Promise<Target> {
  const reached: Reached[] = [];
  const cluster = await startCluster(reached);
  const folder = await mkdtemp(join(tmpdir(), 'abuse-'));
  const proxyTo = `http://127.0.0.1:${(cluster.address() as AddressInfo).port}`;
  const spec = { proxyTo, routingGroup: 'adhoc' };
  await writeFile(join(folder, 'a.yaml'), stringify(manifest('EngineCluster', 'a', spec)));
  await prepare?.(folder, proxyTo);
  const limit = limitMemory(await manifestMemoryLimit());
  const gateway = await startGateway(
    {
      resources: { source: 'directory', directory: folder },
      dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
      queryHistory: { spillDirectory: join(folder, 'spill') },
      monitor: { taskDelay: '1s' },
      ...config,
      // The host of requests that are written by hand.
      server: { allowedHosts: ['x'], ...(config.server as object | undefined) },
    },
    withLoopProbe(folder),
    { command: limit.command },
  ).catch((error: unknown) => {
    limit.dispose();
    throw error;
  });
  limit.watch(gateway.pid);
  const target: Target = {
    url: gateway.url,
    port: Number(new URL(gateway.url).port),
    gateway,
    reached,
    memory: () => residentMegabytes(gateway.pid),
    loop: () => loopFigures(folder, gateway.pid),
    metric: async (name) => {
      const text = await (await fetch(`${gateway.url}/metrics?name[]=engine_gateway_${name}`)).text();
      return Number(new RegExp(`^engine_gateway_${name}(?:\\{[^}]*\\})? (\\S+)`, 'm').exec(text)?.[1]);
    },
    async close() {
      try {
        limit.check();
      } finally {
        await gateway.stop();
        limit.dispose();
        cluster.closeAllConnections();
        cluster.close();
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
  await vi.waitFor(() => submitTo(target), { timeout: 30_000, interval: 50 });
  reached.length = 0;
  return target;
}

/**
 * Sends a small statement.
 * @param retriesShedding whether a response that the gateway is short of memory is obeyed, as clients of engines do
 * @throws when it is not served
 */
async function submitTo({ url }: Pick<Target, 'url'>, retriesShedding = false): Promise<void> {
  const response = await fetch(`${url}/v1/statement`, {
    method: 'POST',
    headers: { 'X-Engine-User': 'other' },
    body: 'SELECT 1',
    signal: AbortSignal.timeout(20_000),
  }).catch((error: Error) => {
    // An idle connection was closed just then.
    const { code } = (error.cause ?? error) as NodeJS.ErrnoException;
    if (retriesShedding && (code === 'ECONNRESET' || code === 'UND_ERR_SOCKET')) return null;
    throw error;
  });
  if (response === null) return await submitTo({ url }, true);
  const body = await response.text();
  if (retriesShedding && response.status === 503 && body.includes('short of memory')) {
    await pause(1_000 * Number(response.headers.get('retry-after')));
    return await submitTo({ url }, true);
  }
  if (response.status !== 200) throw new Error(`HTTP ${response.status}: ${body}`);
  const { error } = JSON.parse(body) as { error?: { message: string } };
  if (error !== undefined) throw new Error(error.message);
}

/** Another client, which sends statements one after the other while a test does its worst. */
export class OtherClient {
  readonly #target: Target;
  readonly #retriesShedding: boolean;
  #served = 0;
  #slowest = 0;
  #stopped = false;
  #failure: unknown = null;
  readonly #work: Promise<void>;

  /** @param retriesShedding whether its statements are sent again while the gateway is short of memory */
  constructor(target: Target, retriesShedding = false) {
    this.#target = target;
    this.#retriesShedding = retriesShedding;
    this.#work = this.#run();
  }

  /** Ends it. @throws when one of its statements was not served */
  async stop(): Promise<{ readonly served: number; readonly slowestMs: number }> {
    this.#stopped = true;
    await this.#work;
    if (this.#failure !== null) throw this.#failure;
    return { served: this.#served, slowestMs: this.#slowest };
  }

  async #run(): Promise<void> {
    while (!this.#stopped && this.#failure === null) {
      const startedAt = performance.now();
      await submitTo(this.#target, this.#retriesShedding).catch((error: unknown) => {
        this.#failure = error;
      });
      this.#slowest = Math.max(this.#slowest, performance.now() - startedAt);
      this.#served++;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** A connection that sends given bytes, and keeps what comes back. */
export class RawConnection {
  readonly socket: Socket;
  received = '';
  /** Whether the other side ended or reset it. */
  closed = false;

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1');
    this.socket.on('data', (chunk) => {
      this.received += chunk.toString('latin1');
    });
    this.socket.on('error', () => undefined);
    this.socket.on('close', () => {
      this.closed = true;
    });
  }

  /** Statuses of the answers so far. */
  get statuses(): readonly number[] {
    return [...this.received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]));
  }

  async open(): Promise<this> {
    if (this.socket.connecting) await once(this.socket, 'connect');
    return this;
  }

  send(bytes: string | Buffer): void {
    this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
  }
}

/**
 * A cluster that answers statements at once, `/ui/endless` with as many bytes as are taken, and never reads what goes to
 * `/ui/stuck`.
 */
async function startCluster(reached: Reached[]): Promise<Server> {
  const server = createServer({ maxHeaderSize: 2 * 1024 ** 2, keepAliveTimeout: 600_000 }, (request, response) => {
    const { method = '', url = '' } = request;
    if (url === '/v1/info') {
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify({ nodeVersion: { version: '1' }, environment: 'a', coordinator: true, starting: false }),
      );
      return;
    }
    if (url.startsWith('/ui/endless')) {
      const chunk = Buffer.alloc(65_536, 'x');
      const more = () => {
        while (response.write(chunk));
      };
      response.on('drain', more);
      more();
      return;
    }
    if (url.startsWith('/ui/stuck')) return;
    const chunks: Buffer[] = [];
    request.on('error', () => undefined);
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString('latin1');
      reached.push({ request: `${method} ${url}`, headers: request.rawHeaders, body: body.slice(0, 1000) });
      if (reached.length > 1000) reached.shift();
      const id = '20260101_000000_00000_abuse';
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ id, infoUri: '', stats: { state: 'FINISHED' }, size: body.length }));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}
