import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { brotliCompressSync, deflateSync, gzipSync, constants as zlib, zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { cpuMicroseconds } from '../../bench/proxy/processTimes.ts';
import { manifest } from '../support/manifest.ts';
import { slowness } from '../support/processorTime.ts';
import { attack, send } from './attack.ts';
import { startTarget, type Target } from './target.ts';

/** Pages of an attack, one after the other. */
const PAGES = 100;
/** CPU time of the gateway for a page of at most 16 kB, with the requests of the query, milliseconds on a machine of slowness 1. */
const MAX_PAGE_MS = 15;

const cluster = (name: string, proxyTo: string) =>
  stringify(manifest('EngineCluster', name, { proxyTo, routingGroup: name }));

let target: Target;
let folder: string;
let hostile: Server;
let queries = 0;
/** The page that the hostile cluster sends as the last one of each query. */
let page: { readonly encoding: string; readonly bytes: Buffer } = { encoding: 'identity', bytes: Buffer.from('{}') };

const submit = (group: string) =>
  send(target, '/v1/statement', { method: 'POST', body: 'SELECT 1', headers: { 'X-Engine-Routing-Group': group } });

beforeAll(async () => {
  hostile = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    if (request.method === 'POST') {
      const id = `20260101_000000_${String(++queries).padStart(5, '0')}_hostl`;
      const nextUri = `${target.url}/v1/statement/executing/${id}/y/1`;
      request.resume().on('end', () => response.end(JSON.stringify({ id, nextUri, stats: {} })));
    } else if (request.url === '/v1/info') response.end('{"starting":false}');
    else response.setHeader('content-encoding', page.encoding).end(page.bytes);
  });
  hostile.listen(0, '127.0.0.1');
  await once(hostile, 'listening');
  target = await startTarget(
    {},
    {
      prepare: async (path) => {
        folder = path;
        await writeFile(
          join(path, 'hostile.yaml'),
          cluster('hostile', `http://127.0.0.1:${(hostile.address() as AddressInfo).port}`),
        );
      },
    },
  );
  await vi.waitFor(async () => expect((await submit('hostile')).text).toContain('nextUri'), { timeout: 30_000 });
});
afterAll(async () => {
  await target?.close();
  hostile?.closeAllConnections();
  hostile?.close();
});

const start = '{"id":"q","infoUri":"","error":{"message":"';
const escapes = Buffer.from(start + '\\"'.repeat(500_000));
const numbers = Buffer.from(`{"stats":{${'"cpuTimeMillis":1,'.repeat(55_000)}`);
const spaces = Buffer.from(start + ' '.repeat(16_000_000));
test.each([
  ['gzip of 1 MB of escapes', 'gzip', gzipSync(escapes)],
  ['gzip of 1 MB of figures', 'gzip', gzipSync(numbers)],
  ['gzip of 16 MB of spaces', 'gzip', gzipSync(spaces)],
  ['400 members of gzip', 'gzip', Buffer.concat(Array.from({ length: 400 }, () => gzipSync(Buffer.alloc(1000, ' '))))],
  ['deflate of 1 MB of escapes', 'deflate', deflateSync(escapes)],
  ['zstd of 1 MB of escapes', 'zstd', zstdCompressSync(escapes)],
  ['zstd with a window of 128 MB', 'zstd', zstdCompressSync(spaces, { params: { [zlib.ZSTD_c_windowLog]: 27 } })],
  ['brotli of 1 MB of escapes', 'br', brotliCompressSync(escapes)],
  ['brotli with a window of 16 MB', 'br', brotliCompressSync(spaces, { params: { [zlib.BROTLI_PARAM_LGWIN]: 24 } })],
])('last pages of a hostile cluster: %s', async (name, encoding, bytes) => {
  page = { encoding, bytes };
  await attack(target, name, async () => {
    // As of an attack, the least figure counts: compiling and garbage of earlier pages fall into one of them.
    let milliseconds = Number.POSITIVE_INFINITY;
    for (let tries = 0; tries < 3 && milliseconds >= MAX_PAGE_MS; tries++) {
      const before = cpuMicroseconds(target.gateway.pid);
      for (let each = 0; each < PAGES; each++) {
        const { nextUri } = JSON.parse((await submit('hostile')).text) as { nextUri: string };
        // The client takes the bytes as they are.
        const response = await fetch(nextUri, { headers: { 'Accept-Encoding': encoding } }).catch(() => null);
        await response?.body?.cancel().catch(() => undefined);
      }
      const each = (cpuMicroseconds(target.gateway.pid) - before) / 1000 / PAGES / slowness();
      milliseconds = Math.min(milliseconds, each);
    }
    console.log(`${name}: ${bytes.length} bytes, ${milliseconds.toFixed(1)} ms of CPU for each query`);
    expect(milliseconds).toBeLessThan(MAX_PAGE_MS);
  });
});

test('a cluster at the address of the gateway: each submission passes once more and is 508', async () => {
  await writeFile(join(folder, 'loop.yaml'), cluster('loop', target.url.replace('127.0.0.1', 'localhost')));
  await vi.waitFor(async () => expect((await submit('loop')).status).toBe(508), { timeout: 30_000 });
  const looped = async () => {
    const metrics = await (await fetch(`${target.url}/metrics`)).text();
    return Number(/^engine_gateway_refusals_total\{reason="loop"\} (\d+)/m.exec(metrics)?.[1]);
  };
  await attack(
    target,
    '200 submissions to a cluster at the address of the gateway',
    async () => {
      const before = await looped();
      const responses = await Promise.all(Array.from({ length: 200 }, () => submit('loop')));
      expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([508]));
      expect((await looped()) - before).toBe(200);
    },
    1,
  );
});
