import { afterEach, beforeEach, expect, test } from 'vitest';
import { GatewayError } from '../../../src/model/errors.ts';
import { type ApiServer, startApi } from '../../support/apiServer.ts';

const good = { name: 'a', proxyTo: 'http://a:1', active: true, routingGroup: 'adhoc' };

let api: ApiServer;
beforeEach(async () => {
  api = await startApi();
});
afterEach(() => api.close());

const post = (path: string, body?: unknown, headers: Record<string, string> = {}) =>
  api.call('POST', path, {
    headers,
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });

test.each([
  ['a', 'text/plain'],
  ['a', undefined],
  ['a', 'application/json'],
  ['a', ';; nonsense'],
  ['a\n', 'application/x-www-form-urlencoded'],
  ['{"name": "a"}', 'application/json'],
  ['{"name": "a"}', 'text/plain'],
])('deletes by the body %j of type %s', async (body, type) => {
  await post('/gateway/backend/modify/add', good);
  const response = await post(
    '/gateway/backend/modify/delete',
    body,
    type === undefined ? {} : { 'Content-Type': type },
  );
  expect([response.status, api.registry.all()]).toEqual([200, []]);
});

test.each(['add', 'update', 'delete'])('%s passes force on', async (operation) => {
  const path = `/gateway/backend/modify/${operation}`;
  const body = operation === 'delete' ? 'a' : { ...good, name: operation };
  for (const query of ['', '?force=false', '?force=true', '?force']) {
    await post(`${path}${query}`, typeof body === 'string' ? body : { ...body, name: `a${query.length}` });
  }
  expect(api.registry.calls.map((call) => [call.by, call.force])).toEqual([
    ['api', false],
    ['api', false],
    ['api', true],
    ['api', true],
  ]);
});

test.each<[GatewayError, number, string | undefined]>([
  [
    new GatewayError('EG_FIELD_OWNED', 'spec.routingGroup is owned by kubectl', { field: 'routingGroup' }),
    409,
    undefined,
  ],
  [new GatewayError('EG_READ_ONLY', 'engines.yaml cannot be written'), 409, undefined],
  [new GatewayError('EG_API_WRITES_DISABLED', 'resources.apiWrites is off'), 403, undefined],
  [new GatewayError('EG_IMPOSSIBLE', 'the Service has no port 1', { field: 'proxyTo' }), 422, undefined],
  [new GatewayError('EG_SOURCE_UNAVAILABLE', 'the API server is unavailable'), 503, '5'],
  [new GatewayError('EG_DATABASE_UNAVAILABLE', 'the database is unavailable', { retryAfterSeconds: 2.2 }), 503, '3'],
])('%s is answered unchanged', async (failure, status, retryAfter) => {
  for (const path of ['modify/add', 'modify/update', 'modify/delete', 'activate/a', 'deactivate/a']) {
    api.registry.failure = failure;
    const response = await post(`/gateway/backend/${path}`, path === 'modify/delete' ? 'a' : good);
    expect([path, response.status, response.json(), response.headers['retry-after']]).toEqual([
      path,
      status,
      failure.toBody(),
      retryAfter,
    ]);
  }
});

test('a defect is 500 without its words; the log has them under the request id', async () => {
  api.registry.failure = new Error('select * from secret_table');
  const response = await post('/gateway/backend/modify/add', good).catch((error: Error) => error.message);
  // 500 is never documented: the check of every answer against the OpenAPI document refuses it.
  expect(response).toContain('500 is not in the OpenAPI document');
  expect(response).toContain('EG_INTERNAL');
  expect(response).not.toContain('secret_table');
  const line = api.logged.find((text) => text.includes('secret_table')) ?? '';
  expect(response).toContain(JSON.parse(line).requestId);
});

test.each(['GET', 'POST'])('OPTIONS and HEAD (%s paths)', async (method) => {
  const path = method === 'GET' ? '/gateway/backend/all' : '/gateway/backend/modify/add';
  const options = await api.call('OPTIONS', path);
  expect([options.status, options.headers.allow, options.text]).toEqual([
    204,
    method === 'GET' ? 'GET, HEAD, OPTIONS' : 'OPTIONS, POST',
    '',
  ]);
  const head = await api.call('HEAD', path);
  expect([head.status, head.text]).toEqual([method === 'GET' ? 200 : 405, '']);
});

test('every answer has a request id and forbids guessing its type', async () => {
  const response = await api.call('GET', '/nowhere');
  expect(response.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  expect(response.headers['x-content-type-options']).toBe('nosniff');
});
