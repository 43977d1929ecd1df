/** Requests and answers with many or large headers, over HTTP/1.1 and HTTP/2. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Agent, request } from 'undici';
import { afterEach, describe, expect, test } from 'vitest';
import { hasOpenssl, localCertificate } from '../../support/certificates.ts';
import { closeAll, closing, clusterAt } from '../../support/gateway.ts';
import { http2Client } from '../../support/http2Client.ts';
import { startSecureGateway } from '../../support/secureGateway.ts';

const MB = 1024 ** 2;
const queryId = '20261121_000000_00001_abcde';
const followUp = `/v1/statement/executing/${queryId}/x/0`;

describe.skipIf(!hasOpenssl).each(['HTTP/1.1', 'HTTP/2'])('over %s', (protocol) => {
  const { authority, certificate } = localCertificate();
  afterEach(closeAll);

  /** A cluster whose answers have so many bytes of headers, by method; a gateway before it, and a client. */
  async function world(
    answerHeaders: Readonly<Record<string, number>> = {},
    responseLines: Readonly<Record<string, string>> = {},
  ) {
    let lines: readonly string[] = [];
    const engine = createServer({ maxHeaderSize: 4 * MB }, (incoming, outgoing) => {
      lines = incoming.rawHeaders;
      incoming.resume();
      // Lines of 8,000 bytes, as clients and engines may limit the single line.
      const wanted = answerHeaders[incoming.method ?? ''] ?? 0;
      for (let size = 0, n = 0; size < wanted; size += 8_000) outgoing.setHeader(`x-${n++}`, 'x'.repeat(7_990));
      for (const [name, value] of Object.entries(responseLines)) outgoing.setHeader(name, value);
      outgoing.setHeader('content-type', 'application/json');
      outgoing.end(JSON.stringify({ id: queryId, infoUri: '', stats: { state: 'FINISHED' } }));
    });
    engine.maxHeadersCount = 0;
    await new Promise<void>((resolve) => engine.listen(0, '127.0.0.1', resolve));
    closing({
      close: () => {
        engine.closeAllConnections();
        return new Promise((resolve) => engine.close(resolve));
      },
    });
    const url = `http://127.0.0.1:${(engine.address() as AddressInfo).port}`;
    const gateway = await startSecureGateway(certificate, authority.cert, {
      clusters: [clusterAt('a', url)],
      upstream: { maxHeaderSize: 2 * MB },
    });
    const connect = { ca: authority.cert };
    const agent = closing(new Agent({ connect, allowH2: false, maxHeaderSize: 4 * MB }));
    const large = { settings: { maxHeaderListSize: 4 * MB }, maxSendHeaderBlockLength: 4 * MB };
    const client = protocol === 'HTTP/2' ? closing(await http2Client(gateway.url, { ...connect, ...large })) : null;
    const send = async (method: string, path: string, headers: Readonly<Record<string, string>> = {}) => {
      const all = { 'x-engine-user': 'u', ...headers };
      if (client !== null) {
        const response = await client.send(
          { ':method': method, ':path': path, ...all },
          method === 'POST' ? 'SELECT 1' : undefined,
        );
        return { status: response.status, headers: response.headers, text: response.text };
      }
      const body = method === 'POST' ? 'SELECT 1' : null;
      const response = await request(`${gateway.url}${path}`, {
        dispatcher: agent,
        method: method as 'GET',
        headers: all,
        body,
      });
      return { status: response.statusCode, headers: response.headers, text: await response.body.text() };
    };
    return { send, lines: () => lines };
  }
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`x-line-${n}`, `${n}`]));

  test('every one of 4,000 header lines reaches the cluster', async () => {
    const { send, lines } = await world();
    expect((await send('POST', '/v1/statement', many(4_000))).status).toBe(200);
    const names = lines().filter((_, index) => index % 2 === 0);
    expect(names.filter((name) => name.startsWith('x-line-'))).toHaveLength(4_000);
    expect(names.map((name) => name.toLowerCase())).toContain('x-forwarded-for');
  });

  // One header line over HTTP/2 is limited to 64 kB by Node.js's HTTP/2 library (docs/clients.md).
  test.each(protocol === 'HTTP/2' ? [65_000] : [100_000])(
    'a prepared statement of %d bytes reaches the cluster',
    async (length) => {
      const { send, lines } = await world();
      const statement = '~'.repeat(length);
      expect((await send('POST', '/v1/statement', { 'x-engine-prepared-statement': statement })).status).toBe(200);
      expect(lines()).toContain(statement);
    },
  );

  test('a head over the limit is refused by that name', async () => {
    const { send, lines } = await world();
    const large = Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`x-${n}`, 'a'.repeat(60_000)]));
    const few = Object.fromEntries(Object.entries(large).slice(0, 3));
    const { status, text } = await send('POST', '/v1/statement', protocol === 'HTTP/2' ? few : large);
    expect(status).toBe(431);
    expect(text).toContain('are larger than 131072 bytes (serverConfig."http-server.max-request-header-size")');
    expect(lines()).toEqual([]);
  });

  test('more lines than the gateway takes are refused by that name', async () => {
    const { send, lines } = await world();
    const response = await send('POST', '/v1/statement', many(10_000));
    expect(response.status).toBe(431);
    expect(response.text).toMatch(/more than 10000 (header )?lines \(server\.maxHeaderLines\)/);
    expect(lines()).toEqual([]);
  });

  test('an answer with a prepared statement of 60 kB, or 100 kB over HTTP/1.1, arrives whole', async () => {
    const length = protocol === 'HTTP/2' ? 60_000 : 100_000;
    const { send } = await world({}, { 'x-engine-added-prepare': `a=${'~'.repeat(length)}` });
    const { status, headers } = await send('POST', '/v1/statement');
    expect([status, headers['x-engine-added-prepare']]).toEqual([200, `a=${'~'.repeat(length)}`]);
  });

  test('an answer with 100 kB of headers arrives whole', async () => {
    const { send } = await world({ POST: 100_000, GET: 100_000 });
    for (const [method, path] of [
      ['POST', '/v1/statement'],
      ['GET', followUp],
      ['GET', '/v1/info'],
    ] as const) {
      const { status, headers } = await send(method, path);
      expect([status, Object.values(headers).filter((value) => value?.length === 7_990).length]).toEqual([200, 13]);
    }
  });

  test('an answer with headers over the limit is a final error', async () => {
    const { send } = await world({ POST: 2 * MB + 100_000, GET: 2 * MB + 100_000 });
    const message =
      'The headers of the answer of cluster "a" are larger than the gateway takes (serverConfig."http-server.max-response-header-size").';
    const submitted = await send('POST', '/v1/statement');
    expect(submitted.status).toBe(200);
    expect(JSON.parse(submitted.text).error).toMatchObject({ message, errorName: 'GENERIC_INTERNAL_ERROR' });
    const page = await send('GET', '/v1/info');
    expect([page.status, page.text]).toEqual([500, `${message}\n`]);
  });

  test('so is that of a follow-up', async () => {
    const { send } = await world({ GET: 2 * MB + 100_000 });
    expect((await send('POST', '/v1/statement')).status).toBe(200);
    const followed = await send('GET', followUp);
    expect(followed.status).toBe(200);
    expect(JSON.parse(followed.text)).toMatchObject({ id: queryId, error: { errorName: 'GENERIC_INTERNAL_ERROR' } });
  });
});
