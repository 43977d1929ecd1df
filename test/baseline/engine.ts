import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request that reached the engine. */
export interface EngineRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
}

/** A scripted engine: every query runs for one page and ends with one row. */
export interface Engine {
  readonly url: string;
  /** Requests so far, without health checks. */
  readonly requests: EngineRequest[];
  stop(): Promise<void>;
}

/** Response of a scripted engine. */
export interface EngineResponse {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/**
 * Starts a scripted engine on a free port.
 * @param suffix last characters of its query ids
 * @param respond response to a request in place of the default one; undefined: the default one
 */
export async function startEngine(
  suffix = 'aaaaa',
  respond: (request: EngineRequest, base: string) => EngineResponse | undefined = () => undefined,
): Promise<Engine> {
  const requests: EngineRequest[] = [];
  let queries = 0;
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const { method = 'GET', url: path = '/', rawHeaders } = request;
      const headers = rawHeaders.flatMap((name, index) =>
        index % 2 === 0 ? [[name.toLowerCase(), rawHeaders[index + 1] ?? ''] as const] : [],
      );
      const received = { method, path, headers, body: Buffer.concat(parts).toString() };
      const isHealthCheck = path === '/v1/info';
      if (!isHealthCheck) requests.push(received);
      const base = baseOf(request.headers);
      const {
        status = 200,
        headers: extra = {},
        body,
      } = (isHealthCheck ? undefined : respond(received, base)) ??
      defaultResponse(received, base, () => `20260101_000000_${String(queries++).padStart(5, '0')}_${suffix}`);
      response.writeHead(status, { 'content-type': 'application/json', ...extra });
      response.end(
        typeof body === 'string' || body === undefined || Buffer.isBuffer(body) ? body : JSON.stringify(body),
      );
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    stop: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** Base of the URLs in responses, as an engine with `process-forwarded` makes it. */
function baseOf(headers: NodeJS.Dict<string | string[]>): string {
  const { host, 'x-forwarded-host': name, 'x-forwarded-port': port, 'x-forwarded-prefix': prefix = '' } = headers;
  const address = name === undefined ? host : `${String(name).split(':')[0]}:${String(port)}`;
  return `${String(headers['x-forwarded-proto'] ?? 'http')}://${address}${String(prefix)}`;
}

function defaultResponse({ method, path }: EngineRequest, base: string, newId: () => string): EngineResponse {
  if (path === '/v1/info')
    return { body: { starting: false, nodeVersion: { version: '476' }, coordinator: true, uptime: '1m' } };
  const page = (id: string, state: string, next: number | null) => ({
    id,
    infoUri: `${base}/ui/query.html?${id}`,
    ...(next === null ? {} : { nextUri: `${base}/v1/statement/executing/${id}/y${next}/${next}` }),
    stats: {
      state,
      elapsedTimeMillis: 5,
      cpuTimeMillis: 3,
      queuedTimeMillis: 1,
      processedRows: 1,
      processedBytes: 8,
      peakMemoryBytes: 9,
    },
  });
  if (method === 'POST') return { body: page(newId(), 'QUEUED', 1) };
  if (method === 'DELETE') return { status: 204 };
  const [, id = '', number = ''] = /\/v1\/statement\/\w+\/([^/]+)\/\w+\/(\d+)/.exec(path) ?? [];
  if (id === '') return { status: 404, headers: { 'content-type': 'text/plain' }, body: 'not found' };
  const columns = [{ name: '_col0', type: 'integer', typeSignature: { rawType: 'integer', arguments: [] } }];
  return {
    body: {
      ...page(id, number === '1' ? 'RUNNING' : 'FINISHED', number === '1' ? 2 : null),
      columns,
      data: [[Number(number)]],
    },
  };
}
