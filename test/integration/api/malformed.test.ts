import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiServer, type Call, startApi } from '../../support/apiServer.ts';

const add = '/gateway/backend/modify/add';
const update = '/gateway/backend/modify/update';
const remove = '/gateway/backend/modify/delete';
const good = { name: 'a', proxyTo: 'http://a:1', active: true, routingGroup: 'adhoc' };
const json = { 'Content-Type': 'application/json' };

let api: ApiServer;
beforeAll(async () => {
  api = await startApi({ bodyLimit: 4096 });
});
afterAll(() => api.close());

/** A body that differs from a good one in these fields; undefined leaves one out. */
const body = (change: Record<string, unknown>): Call => ({
  headers: json,
  body: JSON.stringify({ ...good, ...change }),
});
const raw = (text: string | Buffer, type = 'application/json'): Call => ({
  headers: { 'Content-Type': type },
  body: text,
});

type Row = [
  why: string,
  method: string,
  path: string,
  call: Call,
  status: number,
  field: string | undefined,
  words: string,
];

const rows: Row[] = [
  ['white space', 'POST', add, raw(' \n'), 400, undefined, 'body is empty'],
  ['NaN', 'POST', add, raw('{"active": NaN}'), 400, undefined, 'not JSON'],
  ['a control character in a text', 'POST', add, raw('{"name": "a\u0001"}'), 400, undefined, 'not JSON'],
  ['nothing in it', 'POST', add, raw('{}'), 400, 'name', 'name is required; proxyTo is required'],
  ['bytes that are not UTF-8', 'POST', add, raw(Buffer.from('{"name":"\xff"}', 'latin1')), 400, undefined, 'not UTF-8'],
  ['half a surrogate pair', 'POST', add, raw(JSON.stringify({ ...good, name: 'a\ud800' })), 400, 'name', 'surrogate'],
  ['deep nesting', 'POST', add, raw(`${'['.repeat(2000)}${']'.repeat(2000)}`), 400, undefined, '100 levels'],
  ['name empty', 'POST', add, body({ name: '' }), 400, 'name', 'must not be empty'],
  ['name too long', 'POST', add, body({ name: 'x'.repeat(257) }), 400, 'name', 'at most 256'],
  ['line end in the name', 'POST', add, body({ name: 'a\nb' }), 400, 'name', 'control characters'],
  ['NUL in the name', 'POST', update, body({ name: 'a\u0000' }), 400, 'name', 'control characters'],
  ['space after the name', 'POST', add, body({ name: 'a ' }), 400, 'name', 'space'],
  ['credentials in the URL', 'POST', add, body({ proxyTo: 'http://u:secret@a' }), 400, 'proxyTo', 'credentials'],
  [
    'externalUrl of another scheme',
    'POST',
    add,
    body({ externalUrl: 'javascript:alert(1)' }),
    400,
    'externalUrl',
    'http',
  ],
  ['routingGroup too long', 'POST', add, body({ routingGroup: 'g'.repeat(256) }), 400, 'routingGroup', 'at most 255'],
  ['routingGroup with a line end', 'POST', add, body({ routingGroup: 'a\r\nb' }), 400, 'routingGroup', 'control'],
  ['two wrong fields', 'POST', add, body({ name: '', proxyTo: 'x' }), 400, 'name', 'proxyTo must start with'],
  ['force twice', 'POST', `${add}?force=true&force=true`, body({}), 400, 'force', 'force'],
  ['a form', 'POST', add, raw('name=a', 'application/x-www-form-urlencoded'), 415, undefined, 'send application/json'],
  [
    'another charset',
    'POST',
    add,
    raw('{}', 'application/json; charset=utf-16'),
    415,
    undefined,
    'send application/json',
  ],
  ['no media type at all', 'POST', add, raw('{}', ';;'), 415, undefined, ''],
  ['a huge name to delete', 'POST', remove, raw('x'.repeat(5000), 'text/plain'), 413, undefined, 'too large'],
  ['a space to delete', 'POST', remove, raw(' ', 'text/plain'), 400, 'name', 'body is empty'],
  ['a name to delete that is not UTF-8', 'POST', remove, raw(Buffer.from([0xff])), 400, undefined, 'not UTF-8'],
  ['a slash in the path', 'POST', '/gateway/backend/activate/a/b', {}, 404, undefined, 'There is no'],
  ['encoded slash in a public read', 'GET', '/api/public/backends/a%2fb', {}, 404, 'name', 'a/b'],
  ['broken percent-encoding', 'POST', '/gateway/backend/activate/%zz', {}, 400, undefined, 'not a valid url'],
  ['percent-encoding that is not UTF-8', 'GET', '/api/public/backends/%ff', {}, 400, undefined, 'not a valid url'],
  ['an unknown path', 'GET', '/gateway/backends', {}, 404, undefined, '/gateway/backends'],
  ['an unknown path with a huge body', 'POST', '/nowhere', raw('x'.repeat(5000)), 404, undefined, '/nowhere'],
  ['a path in capitals', 'GET', '/Gateway', {}, 404, undefined, '/Gateway'],
  ['PATCH with a huge body', 'PATCH', '/gateway', raw('x'.repeat(5000)), 405, undefined, 'GET, HEAD, OPTIONS'],
  ['TRACE', 'TRACE', '/gateway', {}, 405, undefined, 'GET, HEAD, OPTIONS'],
  ['a method of WebDAV', 'PROPFIND', '/gateway', {}, 405, undefined, 'GET, HEAD, OPTIONS'],
];

test.each(rows)('%s', async (_why, method, path, call, status, field, words) => {
  const before = api.registry.all();
  const response = await api.call(method, path, call);
  expect(response.status).toBe(status);
  expect(response.headers['content-type']).toBe('application/json; charset=utf-8');
  const { error, ...rest } = response.json();
  expect(rest).toEqual({});
  expect(error.field).toBe(field);
  expect(error.message).toContain(words);
  expect(error.message).not.toMatch(/\bat .+:\d+:\d+|node_modules|\.ts\b/);
  expect(response.headers.allow !== undefined).toBe(status === 405);
  expect(api.registry.all()).toEqual(before);
  expect(api.registry.calls).toEqual([]);
});

test.each([
  ['/api/clusters?limt=1', 'limt is not a query parameter of this call; did you mean limit?'],
  ['/gateway/backend/all?x=1', 'x is not a query parameter of this call; it has none.'],
  ['/api/public/backends?_=17', '_ is not a query parameter of this call; it has none.'],
])('GET %s is rejected', async (path, message) => {
  const response = await api.call('GET', path);
  expect([response.status, response.json().error]).toMatchObject([400, { code: 'EG_MALFORMED', message }]);
});

test('the nearest name is in the message, and every wrong name is listed', async () => {
  const path = '/gateway/backend/modify/add?forse=true&dryRun=true';
  const body = JSON.stringify({ name: 'a', proxyTo: 'http://a:8080', active: true, routingGroup: 'adhoc' });
  const response = await api.call('POST', path, { body, headers: { 'Content-Type': 'application/json' } });
  expect([response.status, response.json().error.field]).toEqual([400, 'forse']);
  expect(response.json().error.problems).toEqual([
    { field: 'forse', message: 'is not a query parameter of this call; did you mean force?' },
    { field: 'dryRun', message: 'is not a query parameter of this call; the nearest one is force' },
  ]);
  expect((await api.call('GET', '/gateway/backend/all')).json()).toEqual([]);
  // A hostile number of names makes no long answer.
  const many = Array.from({ length: 1000 }, (_, index) => `name${index}=`).join('&');
  expect((await api.call('GET', `/api/clusters?${many}`)).json().error.problems).toHaveLength(5);
});

test('probes and metrics accept parameters that monitoring systems add', async () => {
  for (const path of ['/livez?exclude=a', '/readyz?verbose&exclude=a', '/metrics?target=a', '/?utm=1']) {
    expect((await api.call('GET', path)).status, path).not.toBe(400);
  }
});
