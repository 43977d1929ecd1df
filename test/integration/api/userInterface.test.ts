import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readBuiltFiles } from '../../../src/api/userInterface.ts';
import { productNames } from '../../../src/model/names.ts';
import { version } from '../../../src/model/version.ts';
import { type ApiServer, startApi } from '../../support/apiServer.ts';
import { send } from '../../support/rawHttp.ts';

const names = productNames('Engine');
const script = 'assets/index-Ab3.js';

describe('the files of the user interface', () => {
  let folder: string;
  let api: ApiServer;
  let built: Awaited<ReturnType<typeof readBuiltFiles>>;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'built-'));
    await mkdir(join(folder, 'assets'));
    await mkdir(join(folder, '.vite'));
    await writeFile(
      join(folder, 'index.html'),
      '<base href="__BASE__"><title>__PRODUCT__ Gateway</title><meta name="version" content="__VERSION__">',
    );
    await writeFile(join(folder, script), 'console.log(1)');
    await writeFile(join(folder, `${script}.br`), 'as brotli');
    await writeFile(join(folder, 'logo.svg'), '<svg/>');
    await writeFile(join(folder, '.vite/manifest.json'), '{}');
    built = await readBuiltFiles(folder, names);
    api = await startApi({ pages: built, ui: { enabled: true } });
  });
  afterAll(async () => {
    await api?.close();
    await rm(folder, { recursive: true, force: true });
  });

  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(api.url + path, { headers, redirect: 'manual' });

  test.each(['/engine-gateway', '/engine-gateway/', '/engine-gateway/clusters', '/engine-gateway/a/b/'])(
    '%s is the page, with its policy and what depends on the configuration',
    async (path) => {
      const response = await get(path);
      expect(response.status).toBe(200);
      expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
      expect(response.headers.get('cache-control')).toBe('no-cache');
      expect(response.headers.get('content-security-policy')).toMatchInlineSnapshot(
        `"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'"`,
      );
      expect(await response.text()).toBe(
        `<base href="/engine-gateway/"><title>Engine Gateway</title><meta name="version" content="${version}">`,
      );
    },
  );

  test('the page is asked for again by its tag, which differs by encoding', async () => {
    const plain = await get('/engine-gateway', { 'Accept-Encoding': 'identity' });
    const brotli = await get('/engine-gateway', { 'Accept-Encoding': 'gzip;q=0.5, br' });
    const [tag, other] = [plain, brotli].map((each) => each.headers.get('etag') ?? '');
    expect(other).not.toBe(tag);
    expect(brotli.headers.get('vary')).toBe('Accept-Encoding');
    const again = await get('/engine-gateway/history', {
      'Accept-Encoding': 'identity',
      'If-None-Match': `"x", W/${tag}`,
    });
    expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', tag]);
  });

  test.each([
    ['br, gzip', 'br'],
    ['gzip', 'gzip'],
    ['gzip, br;q=0', 'gzip'],
    ['identity', undefined],
    ['', undefined],
  ] as const)('Accept-Encoding %j is answered in %j', async (accepted, encoding) => {
    const { status, headers, body } = await send(api.url, '/engine-gateway', {
      headers: ['Accept-Encoding', accepted],
    });
    expect([status, headers['content-encoding']]).toEqual([200, encoding]);
    const decode = encoding === 'br' ? brotliDecompressSync : encoding === 'gzip' ? gunzipSync : (same: Buffer) => same;
    expect(decode(body).toString()).toContain('<title>Engine Gateway</title>');
  });

  test('files carry their types; those with a digest in their name never change', async () => {
    const file = await get(`/engine-gateway/${script}`, { 'Accept-Encoding': 'identity' });
    expect(file.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    expect(file.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    expect(await file.text()).toBe('console.log(1)');
    const logo = await get('/engine-gateway/logo.svg');
    expect([logo.headers.get('content-type'), logo.headers.get('cache-control')]).toEqual([
      'image/svg+xml',
      'no-cache',
    ]);
  });

  test('names in paths of pages may have dots and slashes', async () => {
    for (const path of ['clusters/etl.example', 'groups/a%2Fb.c', 'queries/x.y']) {
      const { status, headers } = await send(api.url, `/engine-gateway/${path}`);
      expect([status, headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    }
  });

  test.each([
    'assets/gone-Xy9.js',
    'assets',
    'assets/',
    'api/none',
    'gone.svg',
    '.vite/manifest.json',
    'index.html',
    '%2e%2e/package.json',
    'assets/..%2findex.html',
    `${script}.br`,
  ])('/engine-gateway/%s is not there', async (path) => {
    const { status, headers, text } = await send(api.url, `/engine-gateway/${path}`);
    expect([status, headers['content-type']]).toEqual([404, 'application/json; charset=utf-8']);
    expect(JSON.parse(text).error.code).toBe('EG_NOT_FOUND');
  });

  test('other methods are refused with what there is', async () => {
    const response = await fetch(`${api.url}/engine-gateway/clusters`, { method: 'POST' });
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS']);
  });

  test('its path under another product name leads to it', async () => {
    for (const path of ['', '/queries/a?b=c']) {
      const led = await get(`/trino-gateway${path}`);
      expect([led.status, led.headers.get('location')]).toEqual([308, `/engine-gateway${path}`]);
    }
  });

  test('an unknown path leads to it', async () => {
    const page = await fetch(`${api.url}/nosuch`, { headers: { Accept: 'text/html,*/*' } });
    expect([page.status, page.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8']);
    expect(await page.text()).toContain('<a href="/engine-gateway">');
    expect(await (await get('/nosuch')).json()).toEqual({
      error: {
        code: 'EG_NOT_FOUND',
        message: 'There is no /nosuch here; the pages are at /engine-gateway, and /openapi.json lists all calls.',
      },
    });
  });

  test('/ leads to it, and shows the plain page while it is switched off', async () => {
    const led = await get('/');
    expect([led.status, led.headers.get('location')]).toEqual([303, '/engine-gateway']);
    const without = await startApi({ pages: built });
    try {
      expect((await fetch(`${without.url}/`)).status).toBe(200);
      const off = await fetch(`${without.url}/engine-gateway`);
      expect([off.status, await off.json()]).toEqual([
        404,
        { error: { code: 'EG_NOT_FOUND', message: 'The user interface is switched off (uiConfiguration.enabled).' } },
      ]);
    } finally {
      await without.close();
    }
  });
});

test('a gateway whose user interface is not built says how to build it', async () => {
  const built = await readBuiltFiles(join(tmpdir(), 'there-is-no-such-folder'), names);
  expect(built).toBeNull();
  const api = await startApi({ pages: built, ui: { enabled: true } });
  try {
    const response = await fetch(`${api.url}/engine-gateway`);
    expect([response.status, await response.text()]).toEqual([
      503,
      'The user interface is not built. In a clone of the project: npm run build:ui, then start the gateway again.\n',
    ]);
    expect((await fetch(`${api.url}/`)).status).toBe(200);
  } finally {
    await api.close();
  }
});
