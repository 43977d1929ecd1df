import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { manifest } from '../support/manifest.ts';
import { attack, type Responded, send, sendJson } from './attack.ts';
import { RawConnection, startTarget, type Target } from './target.ts';

/** Bytes of a body of the API, just below the limit of `server.maxApiBodySize`. */
const API_BODY = 1_000_000;
/** Characters of header lines: as many as are free, and just below the limit of 2 MB. */
const HEADERS = { '60 kB': 60_000, '1.9 MB': 1_900_000 };

/** Rules that look at every header, cookie and parameter a request may have. */
const rules = [
  'request.getHeader("X-Engine-Client-Tags").split(",").length > 100000',
  'request.getHeader("X-Engine-Session").toLowerCase().contains("nothing=here")',
  'request.getHeader("X-Engine-Client-Tags").matches("(a|b|c)*d")',
  'request.getHeader("X-Engine-Source").replace("a", "bb").indexOf("aaaaaaaaaaaaaaaaaab") > 5',
].map((condition, index) =>
  manifest('RoutingRule', `rule-${index}`, { condition, actions: ['result.put("routingGroup", "adhoc")'] }),
);

describe('requests of all families', () => {
  let target: Target;
  beforeAll(async () => {
    target = await startTarget(
      { requestAnalyzerConfig: { analyzeRequest: true } },
      {
        prepare: (folder) => writeFile(join(folder, 'rules.yaml'), rules.map((rule) => stringify(rule)).join('---\n')),
      },
    );
  });
  afterAll(() => target?.close());
  const filled = (unit: string, size = API_BODY) => unit.repeat(Math.floor(size / unit.length));

  const bodies: readonly (readonly [string, string])[] = [
    ['deep arrays', `{"name":${filled('[', API_BODY / 2)}${filled(']', API_BODY / 2)}}`],
    ['deep objects', `${filled('{"a":', API_BODY / 2)}1${filled('}', API_BODY / 12)}`],
    ['deep objects that end', `${'{"a":'.repeat(150_000)}1${'}'.repeat(150_000)}`],
    ['open brackets', filled('[')],
    ['many unknown fields', `{${Array.from({ length: 80_000 }, (_, index) => `"f${index}":1`).join(',')}}`],
    ['many wrong headers', `{"headers":{${Array.from({ length: 80_000 }, (_, index) => `"${index}":1`).join(',')}}}`],
    ['a list in place of an object', `[${filled('0,')}0]`],
    ['a long list of headers', `{"headers":{"a":[${filled('"b",')}"b"]}}`],
    ['a list of wrong headers', `{"headers":{"a":[${filled('1,')}1]}}`],
    ['many headers', `{"headers":{${Array.from({ length: 60_000 }, (_, index) => `"h${index}":"x"`).join(',')}}}`],
    ['a long text', `{"name":"${filled('a')}"}`],
    ['escapes', `{"name":"${filled('\\u0061')}"}`],
    ['half surrogates', `{"name":"${filled('\\ud800')}"}`],
    ['a long number', `{"name":${filled('9')}}`],
    ['white space', `${filled(' ')}{}`],
    ['wrong UTF-8', filled('\u00ff')],
    ['one key again and again', `{${filled('"a":1,')}"a":1}`],
    ['a long description', `{"condition":"true","actions":["x"],"description":"${filled('a')}"}`],
    ['many actions', `{"condition":"true","actions":[${filled('"x",')}"x"]}`],
    ['a long condition', `{"condition":"${filled('1+')}1","actions":["x"]}`],
    ['a rule to try', `{"rule":{"name":"x","condition":"${filled('(', 16_000)}","actions":["x"]}}`],
    ['a long form of a rule', `{"rule":{"name":"x","condition":"${filled('a || ', 16_000)}a","actions":["x"]}}`],
    ['an SQL text', `{"body":"${filled('select ')}"}`],
    ['a long user', `{"user":"${filled('u')}"}`],
  ];
  const endpoints: readonly (readonly [string, string])[] = [
    ['POST', '/api/explain'],
    ['PUT', '/api/rules/rule-0'],
    ['PUT', '/api/clusters/a/active'],
    ['POST', '/gateway/backend/modify/add'],
    ['POST', '/gateway/backend/modify/delete'],
    ['POST', '/webapp/saveBackend'],
    ['POST', '/webapp/findQueryHistory'],
    ['POST', '/webapp/updateRoutingRules'],
    ['POST', '/webapp/saveResourceGroup'],
    ['POST', '/webapp/saveSelector'],
    ['POST', '/entity?entityType=SELECTOR'],
    ['POST', '/login'],
  ];

  test.each(bodies)('a body of a megabyte, %s, to each family of the API', async (name, body) => {
    await attack(target, `bodies: ${name}`, async () => {
      for (const [method, path] of endpoints) {
        const { status, text } = await sendJson(target, method, path, body);
        expect(status, `${method} ${path}: ${text.slice(0, 200)}`).not.toBe(500);
        expect(text.length, `${method} ${path}`).toBeLessThan(2_000_000);
      }
    });
  });

  test('a body of too many values, or nested too deep, is refused with what to do', async () => {
    const texts = [`{"headers":{"a":[${'"b",'.repeat(5_000)}"b"]}}`, `${'{"a":'.repeat(101)}1${'}'.repeat(101)}`];
    const answers = await Promise.all(texts.map((body) => sendJson(target, 'POST', '/api/explain', body)));
    expect(answers.map(({ status }) => status)).toEqual([400, 400]);
    expect(answers[0]?.text).toContain('more than 5000 values; send fewer');
    expect(answers[1]?.text).toContain('more than 100 levels deep; send less');
  });

  /** One header line of almost so many characters, or many. */
  const headers = (size: number): readonly (readonly [string, Record<string, string>])[] => [
    ['client tags', { 'X-Engine-Client-Tags': filled('a,', size) }],
    ['tags against a pattern', { 'X-Engine-Client-Tags': filled('abc', size) }],
    ['session properties', { 'X-Engine-Session': filled('a=b,', size) }],
    ['a source', { 'X-Engine-Source': filled('a', size) }],
    ['cookies', { Cookie: filled('a=b; ', size) }],
    ['one cookie', { Cookie: `a=${filled('"', size)}` }],
    ['a bearer token', { Authorization: `Bearer ${filled('a.', size)}` }],
    [
      'a token of three parts',
      {
        Authorization: `Bearer ${Array(3)
          .fill(filled('e30', size / 3))
          .join('.')}`,
      },
    ],
    ['credentials', { Authorization: `Basic ${Buffer.from(filled('a:', size / 2)).toString('base64')}` }],
    ['forwarded addresses', { 'X-Forwarded-For': filled('1.1.1.1,', size) }],
    ['forwarded', { Forwarded: filled('for=1.1.1.1,', size) }],
    ['extra credentials', { 'X-Engine-Extra-Credential': filled('a=b,', size) }],
    ['prepared statements', { 'X-Engine-Prepared-Statement': filled('a=SELECT+1,', size) }],
    ['an accepted type', { Accept: filled('a/b;q=0.5,', size) }],
    ['a content type', { 'Content-Type': `text/plain;${filled('a=b;', size)}` }],
    ['a content type of spaces', { 'Content-Type': `text/plain;${filled(' ', size)}x` }],
    ['versions', { 'If-None-Match': filled('"a",', size) }],
    ['a trace', { traceparent: filled('0-', size / 2), tracestate: filled('a=b,', size / 2) }],
    ['a routing group', { 'X-Engine-Routing-Group': filled('g', size) }],
    [
      'many lines',
      Object.fromEntries(
        Array.from({ length: size / 60 > 9_000 ? 9_000 : size / 66 }, (_, index) => [`x-${index}`, filled('y', 40)]),
      ),
    ],
  ];
  const paths: readonly (readonly [string, string])[] = [
    ['POST', '/v1/statement'],
    ['GET', '/v1/statement/queued/20260101_000000_00000_abuse/y/1'],
    ['GET', '/ui/'],
    ['GET', '/api/rules'],
    ['GET', '/metrics'],
  ];

  describe.each(Object.entries(HEADERS))('%s of headers', (sizeName, size) => {
    test.each(headers(size))('%s', async (name, lines) => {
      await attack(target, `${sizeName} of ${name}`, async () => {
        for (const [method, path] of paths) {
          await send(target, path, { method, headers: lines, ...(method === 'POST' ? { body: 'EXECUTE a' } : {}) });
        }
      });
    });

    test('as a URL on every path', async () => {
      const parts = ['/', '%2F', 'a', '?a=b&', '%', '..;/', '//'];
      await attack(target, `URLs of ${sizeName}`, async () => {
        for (const start of [
          '/v1/query/',
          '/api/rules/',
          '/gateway/',
          '/engine-gateway/',
          '/webapp/',
          '/x/',
          '/oidc/callback?code=',
        ]) {
          for (const part of parts) {
            const connection = await new RawConnection(target.port).open();
            connection.send(`GET ${start}${filled(part, size)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
            await expect.poll(() => connection.closed).toBe(true);
          }
        }
      });
    });
  });
});

describe('answers of others', () => {
  let target: Target;
  let service: Server;
  let answer: (statement: string) => { readonly headers: Record<string, string>; readonly body: Buffer };
  beforeAll(async () => {
    service = createServer((request, response) => {
      if (request.url === '/v1/info') {
        response.setHeader('content-type', 'application/json');
        response.end(
          JSON.stringify({ nodeVersion: { version: '1' }, environment: 'b', coordinator: true, starting: false }),
        );
        return;
      }
      request.resume().on('end', () => {
        const { headers, body } = answer(request.url ?? '');
        response.writeHead(200, headers);
        response.end(body);
      });
    });
    service.listen(0, '127.0.0.1');
    await once(service, 'listening');
    const url = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;
    const hostile = manifest('EngineCluster', 'hostile', { proxyTo: url, routingGroup: 'hostile' });
    target = await startTarget({}, { prepare: (folder) => writeFile(join(folder, 'b.yaml'), stringify(hostile)) });
    answer = () => ({ headers: {}, body: Buffer.from('{"id":"20260101_000000_00000_hostl"}') });
    await vi.waitFor(async () => expect((await submit()).text).toContain('hostl'), { timeout: 30_000, interval: 200 });
  });
  afterAll(async () => {
    await target?.close();
    service?.closeAllConnections();
    service?.close();
  });
  const submit = (): Promise<Responded> =>
    send(target, '/v1/statement', {
      method: 'POST',
      body: 'SELECT 1',
      headers: { 'X-Engine-Routing-Group': 'hostile' },
    });

  const large = 30_000_000;
  const text = (start: string, unit: string, end: string) =>
    Buffer.from(start + unit.repeat(Math.floor(large / unit.length)) + end);
  const id = '"id":"20260101_000000_00001_hostl"';
  const json = { 'content-type': 'application/json' };
  const gzip = { ...json, 'content-encoding': 'gzip' };
  const rows = text(`{${id},"data":[`, '["row"],', '["row"]]}');
  test.each([
    ['30 MB of rows', json, rows],
    ['30 MB of rows, compressed', gzip, gzipSync(rows)],
    ['30 MB before the id', json, text('{"data":[', '["row"],', `[]],${id}}`)],
    ['30 MB before the id, compressed', gzip, gzipSync(text('{"data":[', '["row"],', `[]],${id}}`))],
    ['30 MB of brackets', json, text('', '[', '')],
    ['30 MB of white space, compressed', gzip, gzipSync(text('', ' ', '{}'))],
    ['30 MB of keys', json, text('{', '"id":1,', `${id}}`)],
    ['a text of 30 MB', json, text('{"id":"', 'a', '"}')],
  ])('%s', async (name, headers, body) => {
    answer = () => ({ headers, body });
    const { answer: got } = await attack(target, name, submit);
    expect([200, 502]).toContain(got.status);
  });
});
