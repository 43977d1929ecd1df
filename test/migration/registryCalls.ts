import { get, post, type RestCall } from './restCall.ts';

/** Calls of the REST API of release 21, right and wrong ones, in their order: later ones see what earlier ones changed. */

const url = 'http://127.0.0.1:9';
const x = { name: 'x', proxyTo: url };

const json = { contentType: 'application/json' };

const reads: readonly RestCall[] = [
  get('/gateway', 'whether it runs'),
  get('/gateway/backend/all', 'clusters'),
  get('/gateway/backend/active', 'active clusters'),
  get('/api/public/backends', 'clusters'),
  get('/api/public/backends/etl', 'a cluster'),
  get('/api/public/backends/none', 'an unknown name'),
  get('/api/public/backends/etl/state', 'a cluster'),
  get('/api/public/backends/none/state', 'an unknown name'),
  get('/entity', 'types'),
  get('/entity/GATEWAY_BACKEND', 'clusters'),
  get('/entity/NONE', 'an unknown type'),
  get('/trino-gateway/api/queryHistory', 'newest queries'),
  get('/trino-gateway/api/activeBackends', 'active clusters'),
  get('/trino-gateway/api/queryHistoryDistribution', 'queries by cluster'),
  get('/trino-gateway/livez', 'alive'),
  get('/trino-gateway/readyz', 'ready'),
  get('/trino-gateway', 'the web application'),
  get('/trino-gateway/', 'the web application, with a slash'),
  get('/trino-gateway/logo.svg', 'its logo', { hasBody: false }),
  get('/trino-gateway/assets/none.js', 'a missing file'),
  get('/', 'the root'),
  get('/metrics', 'metrics', { hasBody: false }),
  get('/v1/jmx/mbean', 'JMX', { hasBody: false }),
  get('/none', 'an unknown path'),
  get('/gateway/backend/modify/add', 'a wrong method'),
  get('/webapp/getAllBackends', 'a wrong method'),
  { method: 'PUT', path: '/gateway/backend/all', what: 'a wrong method', body: {} },
  { method: 'OPTIONS', path: '/gateway/backend/all', what: 'methods' },
  { method: 'HEAD', path: '/gateway/backend/all', what: 'the head alone' },
];

const webApplication: readonly RestCall[] = [
  post('/webapp/getAllBackends', 'clusters', {}),
  post('/webapp/getAllBackends', 'without a body'),
  post('/webapp/findQueryHistory', 'all', {}),
  post('/webapp/findQueryHistory', 'by user', { user: 'ann' }),
  post('/webapp/findQueryHistory', 'by URL', { externalUrl: 'http://large.example' }),
  post('/webapp/findQueryHistory', 'by id', { queryId: '20261121_015745_00001_aaaaa' }),
  post('/webapp/findQueryHistory', 'by source', { source: 'cli' }),
  post('/webapp/findQueryHistory', 'empty filters', { user: '', externalUrl: '', queryId: '', source: '' }),
  post('/webapp/findQueryHistory', 'the second page', { page: 2, size: 2 }),
  post('/webapp/findQueryHistory', 'numbers as text', { page: '1', size: '10' }),
  post('/webapp/findQueryHistory', 'page 0', { page: 0 }),
  post('/webapp/findQueryHistory', 'size 0', { size: 0 }),
  post('/webapp/findQueryHistory', 'a size below 0', { size: -1 }),
  post('/webapp/findQueryHistory', 'a size that is not a number', { size: 'many' }),
  post('/webapp/findQueryHistory', 'an unknown field', { color: 'red' }),
  post('/webapp/findQueryHistory', 'without a body'),
  post('/webapp/findQueryHistory', 'broken JSON', '{"page":', json),
  post('/webapp/findQueryHistory', 'as plain text', '{}'),
  post('/webapp/getDistribution', 'the last hour', { latestHour: 1 }),
  post('/webapp/getDistribution', 'without a time', {}),
  post('/webapp/getDistribution', 'a time that is not a number', { latestHour: 'one' }),
  get('/webapp/getUIConfiguration', 'the configuration of pages'),
  post('/webapp/saveBackend', 'a new cluster', { ...x, active: true, routingGroup: 'adhoc', externalUrl: url }),
  post('/webapp/saveBackend', 'a name that is taken', x),
  post('/webapp/updateBackend', 'a cluster', { ...x, active: false, routingGroup: 'etl', externalUrl: url }),
  post('/webapp/updateBackend', 'name and URL alone', x),
  post('/webapp/updateBackend', 'without a URL', { name: 'x' }),
  post('/webapp/updateBackend', 'an unknown name', { ...x, name: 'y' }, { leaves: ['y'] }),
  post('/webapp/deleteBackend', 'a cluster', { name: 'x' }),
  post('/webapp/deleteBackend', 'an unknown name', { name: 'x' }),
  post('/webapp/deleteBackend', 'without a name', {}),
  post('/webapp/none', 'an unknown path', {}),
];

const login: readonly RestCall[] = [
  post('/loginType', 'without authentication'),
  post('/login', 'without authentication', { username: 'ann', password: 'x' }),
  post('/login', 'without a password', { username: 'ann' }),
  post('/login', 'without a name', { password: 'x' }),
  post('/login', 'without a body', undefined),
  post('/login', 'broken JSON', '{"username":', json),
  post('/logout', 'without a session'),
  post('/userinfo', 'without authentication'),
  post('/sso', 'without OAuth'),
  get('/oidc/callback', 'without OAuth'),
  get('/oidc/callback?code=a&state=b', 'without OAuth, with a code'),
];

const add = '/gateway/backend/modify/add';
const update = '/gateway/backend/modify/update';
const remove = '/gateway/backend/modify/delete';
const entity = '/entity?entityType=GATEWAY_BACKEND';

const registry: readonly RestCall[] = [
  post(add, 'a cluster', { ...x, active: true, routingGroup: 'etl', externalUrl: 'http://x.example' }),
  post(add, 'a name that is taken', { ...x, active: true, routingGroup: 'etl' }),
  post(update, 'a cluster', { ...x, active: false, routingGroup: 'adhoc', externalUrl: 'http://y.example' }),
  post(update, 'name and URL alone', x),
  post('/gateway/backend/deactivate/x', 'a cluster'),
  post('/gateway/backend/deactivate/x', 'an inactive cluster'),
  post('/gateway/backend/activate/x', 'a cluster'),
  post('/gateway/backend/activate/none', 'an unknown name'),
  post('/gateway/backend/deactivate/none', 'an unknown name'),
  post('/gateway/backend/activate/x%2Fb', 'a name with a slash'),
  post(remove, 'a cluster', 'x'),
  post(remove, 'an unknown name', 'x'),
  post(remove, 'without a body'),
  post(remove, 'an empty body', ''),
  post(remove, 'a line end after an unknown name', 'x\n'),
  post(remove, 'a JSON object', { name: 'etl-none' }),
  ...[add, update, entity].flatMap((path) => [
    post(path, 'name and URL alone, new', x, { leaves: ['x'] }),
    post(path, 'active as text', { ...x, active: 'false' }, { leaves: ['x'] }),
    post(path, 'active that is not a truth value', { ...x, active: 'perhaps' }, { leaves: ['x'] }),
    post(path, 'active null', { ...x, active: null }, { leaves: ['x'] }),
    post(path, 'routingGroup null', { ...x, routingGroup: null }, { leaves: ['x'] }),
    post(path, 'routingGroup as a number', { ...x, routingGroup: 7 }, { leaves: ['x'] }),
    post(path, 'an empty routingGroup', { ...x, routingGroup: '' }, { leaves: ['x'] }),
    post(path, 'an empty externalUrl', { ...x, externalUrl: '' }, { leaves: ['x'] }),
    post(path, 'externalUrl null', { ...x, externalUrl: null }, { leaves: ['x'] }),
    post(path, 'slashes at the end of URLs', { ...x, proxyTo: `${url}/`, externalUrl: `${url}/` }, { leaves: ['x'] }),
    post(path, 'a URL without a scheme', { ...x, proxyTo: 'nohost' }, { leaves: ['x'] }),
    post(path, 'an unknown field', { ...x, color: 'red' }, { leaves: ['x'] }),
    post(path, 'without a name', { proxyTo: url }),
    post(path, 'without a URL', { name: 'x' }, { leaves: ['x'] }),
    post(path, 'broken JSON', '{"name":', json),
    post(path, 'a list', [x], { leaves: ['x'] }),
    post(path, 'null', 'null', json),
    post(path, 'without a body'),
    post(path, 'as plain text', JSON.stringify(x), { leaves: ['x'] }),
    post(path, 'without Content-Type', JSON.stringify(x), { contentType: null, leaves: ['x'] }),
  ]),
  post(add, 'a name with a slash', { ...x, name: 'x/b' }, { leaves: ['x/b'] }),
  post('/entity', 'without a type', x, { leaves: ['x'] }),
  post('/entity?entityType=NONE', 'an unknown type', x, { leaves: ['x'] }),
];

/** How the Terraform provider `paragor/trinogateway` 0.x calls: as its client sends, without Content-Type. */
const untyped = { contentType: null };
const ofProvider = (fields: object) => ({
  name: 'x',
  proxyTo: url,
  routingGroup: 'adhoc',
  active: true,
  externalUrl: url,
  ...fields,
});
export const terraformCalls: readonly RestCall[] = [
  post(entity, 'Terraform: create', JSON.stringify(ofProvider({})), untyped),
  get('/entity/GATEWAY_BACKEND', 'Terraform: read after create'),
  post(entity, 'Terraform: update', JSON.stringify(ofProvider({ active: false, routingGroup: 'etl' })), untyped),
  get('/entity/GATEWAY_BACKEND', 'Terraform: read after update'),
  post(entity, 'Terraform: an empty external_url', JSON.stringify(ofProvider({ externalUrl: '' })), untyped),
  get('/entity/GATEWAY_BACKEND', 'Terraform: read with an empty external_url'),
  post(remove, 'Terraform: delete', 'x', untyped),
  get('/entity/GATEWAY_BACKEND', 'Terraform: read after delete'),
  post(remove, 'Terraform: delete what is gone', 'x', untyped),
];

const changed = {
  name: 'dbt',
  description: 'changed',
  priority: 3,
  actions: ['result.put("routingGroup", "adhoc")'],
  condition: 'request.getHeader("X-Trino-Source") == "dbt"',
};
const rules: readonly RestCall[] = [
  get('/webapp/getRoutingRules', 'rules'),
  post('/webapp/updateRoutingRules', 'a rule', changed),
  post('/webapp/updateRoutingRules', 'a rule without description and priority', {
    name: 'dbt',
    actions: changed.actions,
    condition: changed.condition,
  }),
  post('/webapp/updateRoutingRules', 'an unknown name', { ...changed, name: 'none' }),
  post('/webapp/updateRoutingRules', 'without a name', { ...changed, name: undefined }),
  post('/webapp/updateRoutingRules', 'without a condition', { ...changed, condition: undefined }),
  post('/webapp/updateRoutingRules', 'without actions', { ...changed, actions: undefined }),
  post('/webapp/updateRoutingRules', 'a condition that does not compile', { ...changed, condition: '(' }),
  post('/webapp/updateRoutingRules', 'broken JSON', '{"name":', json),
];

/** All of them. */
export const registryCalls: readonly RestCall[] = [
  ...reads,
  ...webApplication,
  ...login,
  ...registry,
  ...terraformCalls,
  ...rules,
];
