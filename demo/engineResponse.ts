import type { IncomingMessage, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';

/** Scheme and authority of the URIs in answers, as the client sees them: from forwarded headers, else from `Host`. */
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

/** An answer of the engine: objects go as JSON, texts as plain text unless said otherwise. */
export interface Answer {
  readonly status: number;
  readonly content: object | string;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Makes an answer. */
export function answer(status: number, content: object | string, rest: Pick<Answer, 'type' | 'headers'> = {}): Answer {
  return { status, content, ...rest };
}

/** Sends an answer, compressed where it is long and the client takes gzip. */
export function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, content, type, headers }: Answer,
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
