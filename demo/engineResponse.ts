import type { IncomingMessage, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';

/** Scheme and authority of the URIs in responses, as the client sees them: from forwarded headers, else from `Host`. */
export function baseUrl(request: IncomingMessage): string {
  const first = (name: string) => {
    const value = request.headers[name];
    return (Array.isArray(value) ? value[0] : value)?.split(',')[0]?.trim();
  };
  const scheme = first('x-forwarded-proto') ?? 'http';
  const host = first('x-forwarded-host') ?? first('host') ?? 'localhost';
  const prefix = (first('x-forwarded-prefix') ?? '').replace(/\/$/, '');
  const port = first('x-forwarded-port');
  const named = /:\d+$/.test(host);
  const standard = port === (scheme === 'https' ? '443' : '80');
  const authority = named || port === undefined || standard ? host : `${host}:${port}`;
  return `${scheme}://${authority}${prefix}`;
}

/** A response of the engine. Default type of texts: plain text. */
export interface EngineResponse {
  readonly status: number;
  readonly content: object | string;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Makes a response. */
export function reply(status: number, content: object | string, rest: Partial<EngineResponse> = {}): EngineResponse {
  return { status, content, ...rest };
}

/** Sends a response, compressed if it is long and the client accepts gzip. */
export function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, content, type, headers }: EngineResponse,
): void {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  const plain = Buffer.from(text);
  const zip = plain.length > 1024 && /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
  const body = zip ? gzipSync(plain) : plain;
  const textType = `${type ?? 'text/plain'}; charset=utf-8`;
  response.writeHead(status, {
    ...headers,
    ...(status === 204
      ? {}
      : { 'Content-Type': typeof content === 'string' ? textType : 'application/json', 'Content-Length': body.length }),
    ...(zip ? { 'Content-Encoding': 'gzip', Vary: 'Accept-Encoding' } : {}),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}
