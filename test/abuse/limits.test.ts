import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { OtherClient, RawConnection, startTarget, type Target } from './target.ts';

const MAX_BODY = 4 * 1024 ** 2;
/** What answers and requests on their way may add to the gateway's memory. */
const MAX_GROWTH_MB = 150;

describe('requests over the limits', { retry: 2 }, () => {
  let target: Target;
  let other: OtherClient;
  let memory: number;
  beforeAll(async () => {
    target = await startTarget({ server: { maxBodySize: '4MB' } });
  });
  afterAll(() => target?.close());
  beforeEach(() => {
    memory = target.memory();
    other = new OtherClient(target);
  });
  afterEach(async () => {
    expect((await other.stop()).served).toBeGreaterThan(0);
    expect(target.memory() - memory).toBeLessThan(MAX_GROWTH_MB);
  });
  const statusOf = async (...parts: readonly (string | Buffer)[]): Promise<number | undefined> => {
    const connection = await new RawConnection(target.port).open();
    for (const part of parts) connection.send(part);
    await expect.poll(() => connection.statuses.length > 0 || connection.closed).toBe(true);
    connection.socket.destroy();
    return connection.statuses[0];
  };

  test('100,000 headers: 431', async () => {
    const lines = Array.from({ length: 100_000 }, (_, index) => `x-${index}: ${index}\r\n`).join('');
    expect(await statusOf(`GET /v1/query/a HTTP/1.1\r\nHost: x\r\n${lines}\r\n`)).toBe(431);
    expect(await statusOf(`GET /healthz HTTP/1.1\r\nHost: x\r\n${'a:\r\n'.repeat(100_000)}\r\n`)).toBe(431);
  });

  test('100,000 trailers end the connection', async () => {
    const trailers = 'a: b\r\n'.repeat(100_000);
    const head = 'POST /v1/statement HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n';
    expect([431, undefined]).toContain(await statusOf(`${head}8\r\nSELECT 1\r\n0\r\n${trailers}\r\n`));
  });

  test('chunk extensions of a megabyte: 413', async () => {
    const head = 'POST /v1/statement HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n';
    expect([413, undefined]).toContain(await statusOf(`${head}8;${'x'.repeat(1024 ** 2)}\r\nSELECT 1\r\n0\r\n\r\n`));
  });

  test('a URL of 2 MB or far more: 431 on every path; a long one within the limit passes', async () => {
    const url = (length: number, path: string) => `GET ${path}?${'x'.repeat(length)} HTTP/1.1\r\nHost: x\r\n\r\n`;
    expect(await statusOf(url(2 * 1024 ** 2, '/v1/query/a'))).toBe(431);
    expect(await statusOf(url(2 * 1024 ** 2, '/api/explain'))).toBe(431);
    expect(await statusOf(url(10 * 1024 ** 2, '/v1/query/a'))).toBe(431);
    expect(await statusOf(`GET / HTTP/1.1\r\nHost: x\r\nx: ${'x'.repeat(10 * 1024 ** 2)}\r\n\r\n`)).toBe(431);
    expect(await statusOf(url(10_000, '/v1/node'))).toBe(200);
  });

  test('a body over the limit: 413, announced or not, on the way to a cluster and in the API', async () => {
    const head = (path: string, ...lines: readonly string[]) =>
      `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${lines.join('\r\n')}\r\n\r\n`;
    const before = target.reached.length;
    const large = 'x'.repeat(1024 ** 2);
    const chunk = `100000\r\n${large}\r\n`;
    expect(await statusOf(head('/v1/statement', `Content-Length: ${MAX_BODY + 1}`))).toBe(413);
    expect(await statusOf(head('/v1/statement', 'Transfer-Encoding: chunked'), ...Array(6).fill(chunk))).toBe(413);
    expect(await statusOf(head('/v1/node', 'Transfer-Encoding: chunked'), ...Array(6).fill(chunk))).toBe(413);
    expect(await statusOf(head('/gateway/backend/modify/add', 'Content-Length: 200000000'))).toBe(413);
    expect(
      await statusOf(head('/gateway/backend/modify/add', 'Transfer-Encoding: chunked'), ...Array(40).fill(chunk)),
    ).toBe(413);
    expect(target.reached.slice(before).filter(({ body }) => body !== 'SELECT 1')).toEqual([]);
  });

  test('a client that goes on sending after 413 costs no memory', async () => {
    const connection = await new RawConnection(target.port).open();
    connection.send('POST /v1/statement HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
    const chunk = Buffer.from(`100000\r\n${'x'.repeat(1024 ** 2)}\r\n`);
    for (let sent = 0; sent < 200 && !connection.closed; sent++) {
      // Called back with an error where the connection is closed.
      await new Promise<void>((resolve) => connection.socket.write(chunk, () => resolve()));
    }
    expect(connection.statuses).toEqual([413]);
    connection.socket.destroy();
  });
});
