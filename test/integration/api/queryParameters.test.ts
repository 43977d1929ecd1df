import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiServer, startApi } from '../../support/apiServer.ts';

let api: ApiServer;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

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
