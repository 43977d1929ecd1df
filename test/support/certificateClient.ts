import { request } from 'node:https';
import { text } from 'node:stream/consumers';
import { http2Client } from './http2Client.ts';

/** What a client shows and trusts. */
export interface CertificateClient {
  /** PEM of the server's authority. */
  readonly ca: string;
  /** Its own certificate; none where absent. */
  readonly own?: { readonly cert: string; readonly key: string };
}

/** An answer, as far as these tests look at it. */
export interface CertificateResponse {
  readonly status: number;
  readonly text: string;
}

/** Sends one request over a connection of its own. */
export type SendWithCertificate = (
  client: CertificateClient,
  url: string,
  path: string,
  headers?: Readonly<Record<string, string>>,
  body?: string,
) => Promise<CertificateResponse>;

/** Over HTTP/1.1. */
export const overHttp1: SendWithCertificate = ({ ca, own }, url, path, headers = {}, body) =>
  new Promise((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST';
    const outgoing = request(`${url}${path}`, { ca, cert: own?.cert, key: own?.key, agent: false, headers, method });
    outgoing.once('error', reject);
    outgoing.once('response', (response) => {
      text(response).then((answer) => resolve({ status: response.statusCode ?? 0, text: answer }), reject);
    });
    outgoing.end(body);
  });

/** Over HTTP/2. */
export const overHttp2: SendWithCertificate = async ({ ca, own }, url, path, headers = {}, body) => {
  const client = await http2Client(url, { ca, cert: own?.cert, key: own?.key });
  try {
    const method = body === undefined ? 'GET' : 'POST';
    const { status, text: answer } = await client.send({ ':method': method, ':path': path, ...headers }, body);
    return { status, text: answer };
  } finally {
    await client.close();
  }
};
