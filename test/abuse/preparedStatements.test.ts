import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { manifest } from '../support/manifest.ts';
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

describe('a deny rule by table', () => {
  const rule = manifest('RoutingRule', 'salaries', {
    condition: 'engineQueryProperties.tablesContains("hive.hr.salaries")',
    deny: { message: 'salaries are closed', whenError: 'Skip' },
  });
  let judged: Target;
  beforeAll(async () => {
    judged = await startTarget(
      { requestAnalyzerConfig: { analyzeRequest: true } },
      { prepare: (folder) => writeFile(join(folder, 'rule.yaml'), stringify(rule)) },
    );
  });
  afterAll(() => judged?.close());

  /** Sends a statement; returns what the client gets, and if it reached the cluster. */
  async function submit(body: string, lines: readonly string[]): Promise<{ received: string; isForwarded: boolean }> {
    const before = judged.reached.length;
    const client = await new RawConnection(judged.port).open();
    const head = ['Host: x', 'X-Engine-User: u', ...lines, `Content-Length: ${body.length}`];
    client.send(`POST /v1/statement HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n${body}`);
    await expect.poll(() => client.statuses.length, { timeout: 20_000 }).toBe(1);
    await expect.poll(() => client.received.endsWith('}'), { timeout: 20_000 }).toBe(true);
    client.socket.destroy();
    return { received: client.received, isForwarded: judged.reached.length > before };
  }

  const secret = 'TABLE+hive.hr.salaries';
  const prepared = (...values: readonly string[]) => values.map((value) => `X-Engine-Prepared-Statement: ${value}`);
  const hive = ['X-Engine-Catalog: hive', 'X-Engine-Schema: hr'];
  const packed = `$zstd:${zstdCompressSync('TABLE hive.hr.salaries').toString('base64url')}`;

  test.each<readonly [string, string, readonly string[]]>([
    ['a repeated name', 'EXECUTE p', prepared(`p=SELECT+1,p=${secret}`)],
    ['a repeated name in two lines', 'EXECUTE p', prepared('p=SELECT+1', `p=${secret}`)],
    ['names that are equal when decoded', 'EXECUTE p', prepared(`p=${secret},%70=SELECT+1`)],
    ['a space before the name', 'EXECUTE p', prepared(`q=SELECT+1, p=${secret}`)],
    ['a tab around the name', 'EXECUTE p', prepared(`q=SELECT+1,\tp\t=${secret}`)],
    ['NBSP around the name', 'EXECUTE p', prepared(`q=SELECT+1,\xa0p\x85= ${secret}`)],
    ['empty parts', 'EXECUTE p', prepared(`,,p=${secret}`)],
    ['a header that cannot be read', 'TABLE x.y.z', prepared('p')],
    ['a wrong escape', 'EXECUTE p', prepared(`p=${secret},q=%zz`)],
    ['an unknown name', 'EXECUTE nope', prepared(`p=${secret}`)],
    ['compressed, then URL-encoded', 'EXECUTE p', prepared(`p=${encodeURIComponent(packed)}`)],
    [
      'a prepared statement that is too long',
      'EXECUTE p',
      prepared(
        `p=${encodeURIComponent(`$zstd:${zstdCompressSync(`TABLE hive.hr.salaries${' '.repeat(1_000_000)}`).toString('base64url')}`)}`,
      ),
    ],
    ['EXPLAIN EXECUTE', 'EXPLAIN EXECUTE p', prepared(`p=${secret}`)],
    ['EXPLAIN EXECUTE of an unknown name', 'EXPLAIN EXECUTE nope', []],
    ['EXPLAIN of EXECUTE IMMEDIATE', "EXPLAIN EXECUTE IMMEDIATE 'TABLE hive.hr.salaries'", []],
    ['DESCRIBE INPUT', 'DESCRIBE INPUT p', prepared(`p=${secret}`)],
    ['DESCRIBE OUTPUT', 'DESCRIBE OUTPUT p', prepared(`p=${secret}`)],
    ['an EXPLAIN that is prepared', 'EXECUTE e', prepared(`e=EXPLAIN+EXECUTE+p,p=${secret}`)],
    ['statements that explain themselves', 'EXECUTE e', prepared('e=EXPLAIN+EXECUTE+e')],
    [
      'two lines of Catalog',
      'TABLE salaries',
      ['X-Engine-Catalog: hive', 'X-Engine-Catalog: x', 'X-Engine-Schema: hr'],
    ],
    ['two lines of Schema', 'TABLE salaries', [...hive, 'x-engine-schema: x']],
    ['a table function without defaults', 'SELECT * FROM TABLE(sequence(1, 1)), hive.hr.salaries', []],
  ])('is not bypassed by %s', async (_name, body, lines) => {
    const { received, isForwarded } = await submit(body, lines);
    expect(received).toContain('salaries are closed');
    expect(isForwarded).toBe(false);
  });

  test.each<readonly [string, string, readonly string[]]>([
    ['another table', 'EXECUTE p', prepared('q=TABLE+a.b.c,p=TABLE+a.b.d')],
    ['another default schema', 'TABLE salaries', [...hive.slice(0, 1), 'X-Engine-Schema: x', 'X-Engine-Schema: hr']],
    ['a statement that does not parse', 'SELEC 1', prepared(`p=${secret}`)],
  ])('does not deny %s', async (_name, body, lines) => {
    const { received, isForwarded } = await submit(body, lines);
    expect(received).not.toContain('salaries are closed');
    expect(isForwarded).toBe(true);
  });
});
