import { zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OtherClient, RawConnection, startTarget, type Target } from './target.ts';

const STATEMENTS = 330;
/** Bytes of each when decompressed; a request may have 4,000,000. */
const LENGTH = 3_600_000;
const CLIENTS = 20;
/** What requests on their way may add to the gateway's memory, MB. */
const MAX_GROWTH_MB = 100;

let target: Target;
beforeAll(async () => {
  target = await startTarget();
});
afterAll(() => target?.close());

test.each([
  ['a statement that the header does not hold', 'EXECUTE other'],
  ['one of them', 'EXECUTE s329'],
  ['kill_query in the text', "SELECT 'kill_query'"],
  ['a call of kill_query', "CALL system.runtime.kill_query('20260101_000000_00000_abcde')"],
])(
  '330 compressed statements of 3.6 MB in a header, and %s: served, in bounded time and memory',
  { retry: 2 },
  async (_name, body) => {
    const bomb = zstdCompressSync(Buffer.alloc(LENGTH, ' ')).toString('base64url');
    const header = Array.from({ length: STATEMENTS }, (_, index) => `s${index}=$zstd:${bomb}`).join(',');
    expect(header.length).toBeLessThan(64_000);
    const before = target.memory();
    const other = new OtherClient(target);
    const clients = await Promise.all(Array.from({ length: CLIENTS }, () => new RawConnection(target.port).open()));
    const lines = [
      'Host: x',
      'X-Engine-User: u',
      `X-Engine-Prepared-Statement: ${header}`,
      `Content-Length: ${body.length}`,
    ];
    for (const client of clients) client.send(`POST /v1/statement HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`);
    let peak = 0;
    const answered = () => {
      peak = Math.max(peak, target.memory() - before);
      return clients.every(({ statuses }) => statuses[0] === 200);
    };
    await expect.poll(answered, { timeout: 30_000, interval: 20 }).toBe(true);
    expect((await other.stop()).served).toBeGreaterThan(0);
    expect(peak).toBeLessThan(MAX_GROWTH_MB);
    for (const { socket } of clients) socket.destroy();
  },
);
