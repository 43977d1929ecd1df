import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';

/** A response with nothing decoded or joined. */
export interface RawResponse {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly rawHeaders: readonly string[];
  readonly trailers: NodeJS.Dict<string>;
  readonly body: Buffer;
  readonly text: string;
}

export interface RawRequest {
  readonly method?: string;
  /** Names and values in turn; `Host` and lengths are Node's. */
  readonly headers?: readonly string[];
  readonly body?: Buffer | string;
}

/** Sends one request on a connection of its own, with the path exactly as given. */
export function send(base: string, path: string, options: RawRequest = {}): Promise<RawResponse> {
  const url = new URL(base);
  return new Promise((resolve, reject) => {
    const lines = [...(options.headers ?? [])];
    if (!lines.some((line, index) => index % 2 === 0 && line.toLowerCase() === 'host')) lines.push('Host', url.host);
    if (options.body !== undefined && !lines.some((line) => /^(transfer-encoding|content-length)$/i.test(line))) {
      lines.push('Content-Length', String(Buffer.byteLength(options.body)));
    }
    const request = httpRequest({
      host: url.hostname,
      port: url.port,
      method: options.method ?? 'GET',
      path,
      headers: lines as never,
      agent: false,
    });
    request.on('error', reject);
    request.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const body = Buffer.concat(chunks);
        resolve({
          status: response.statusCode!,
          headers: response.headers,
          rawHeaders: response.rawHeaders,
          trailers: response.trailers,
          body,
          text: body.toString('utf8'),
        });
      });
    });
    request.end(options.body);
  });
}

/** Sends bytes as they are and collects what comes back until the connection closes. */
export function sendBytes(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes, 'latin1'));
    let text = '';
    socket.setTimeout(20_000, () => socket.destroy(new Error(`no end within 20 s; so far: ${text}`)));
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(text));
  });
}

/** Values of a header in order. */
export function valuesOf(rawHeaders: readonly string[], name: string): string[] {
  return rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]!.toLowerCase() === name);
}
