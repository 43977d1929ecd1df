import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';

/** A request of a transcript. */
export interface Step {
  readonly method?: string;
  /** Path; `NEXT` follows `nextUri` of the response before, `ID` stands for its query id. */
  readonly path?: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly body?: string;
}

/** Response to a step. */
export interface Answer {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly text: string;
}

const TIMEOUT_MS = 30_000;

/** Sends a request with exactly these header lines over HTTP/1.1. */
export async function send(
  base: string,
  { method = 'POST', path = '/v1/statement', headers = [], body = '' }: Step,
): Promise<Answer> {
  const { hostname, port, host } = new URL(base);
  const lines = [
    ['Host', host],
    ...headers,
    ...(body === '' ? [] : [['Content-Length', String(Buffer.byteLength(body))]]),
  ];
  const request = httpRequest({
    hostname,
    port,
    method,
    path,
    agent: false,
    headers: lines.flat(),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  request.end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const { rawHeaders, statusCode = 0 } = response;
  const received = rawHeaders.flatMap((name, index) =>
    index % 2 === 0 ? [[name.toLowerCase(), rawHeaders[index + 1] ?? ''] as const] : [],
  );
  return { status: statusCode, headers: received, text: decoded(received, await buffer(response)) };
}

/** Sends a request over HTTP/2 with TLS. */
export async function sendHttp2(
  base: string,
  ca: string,
  { method = 'POST', path = '/v1/statement', headers = [], body = '' }: Step,
): Promise<Answer> {
  const session = connectHttp2(base, { ca });
  try {
    const fields = { ':method': method, ':path': path, ...Object.fromEntries(headers) };
    const stream = session.request(fields, { endStream: body === '' });
    stream.setTimeout(TIMEOUT_MS, () => stream.destroy(new Error('timeout')));
    if (body !== '') stream.end(body);
    const [response] = (await once(stream, 'response')) as [Readonly<Record<string, string | number>>];
    const received = Object.entries(response).filter(([name]) => !name.startsWith(':'));
    const lines = received.map(([name, value]) => [name, String(value)] as const);
    return { status: Number(response[':status']), headers: lines, text: decoded(lines, await buffer(stream)) };
  } finally {
    session.destroy();
  }
}

function decoded(headers: readonly (readonly [string, string])[], body: Buffer): string {
  const isCompressed = headers.some(([name, value]) => name === 'content-encoding' && value === 'gzip');
  return (isCompressed && body.length > 0 ? gunzipSync(body) : body).toString();
}
