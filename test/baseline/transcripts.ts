import type { Step } from './client.ts';

/** Steps of the transcripts of one gateway, by name. `P` in header names and paths stands for the product's name. */
export type Transcripts = Readonly<Record<string, readonly Step[]>>;

const user = ['X-P-User', 'ann'] as const;
const submit = (body = 'SELECT 1', ...headers: readonly (readonly [string, string])[]): Step => ({
  headers: [user, ...headers],
  body,
});
const next = (...headers: readonly (readonly [string, string])[]): Step => ({
  method: 'GET',
  path: 'NEXT',
  headers: [user, ...headers],
});
const get = (path: string, ...headers: readonly (readonly [string, string])[]): Step => ({
  method: 'GET',
  path,
  headers: [user, ...headers],
});

const headerLines: readonly (readonly [string, string])[] = [
  ['X-P-Source', 'etl'],
  ['X-P-Source', 'dashboards'],
  ['X-P-Routing-Group', 'etl'],
  ['X-P-Routing-Group', 'nowhere'],
  ['X-P-Routing-Group', ''],
  ['X-P-Catalog', 'hive'],
  ['X-P-Schema', 'sales'],
  ['X-P-Session', 'a=b,c=d'],
  ['X-P-Prepared-Statement', 'p=SELECT+1'],
  ['X-P-Transaction-Id', 'NONE'],
  ['X-P-Transaction-Id', '0f7d7b5e-0000-4000-8000-000000000000'],
  ['X-P-Client-Tags', 'a,b'],
  ['X-P-Client-Info', 'info'],
  ['X-P-Client-Capabilities', 'PATH,PARAMETRIC_DATETIME'],
  ['X-P-Time-Zone', 'UTC'],
  ['X-P-Language', 'en'],
  ['X-P-Trace-Token', 'token'],
  ['X-P-Original-User', 'bob'],
  ['X-P-Extra-Credential', 'k=v'],
  ['X-P-Resource-Estimate', 'CPU_TIME=1h'],
  ['X-P-Role', 'system=ROLE{admin}'],
  ['X-P-Query-Data-Encoding', 'json'],
  ['X-P-User', 'eve'],
  ['Authorization', 'Basic YW5uOnNlY3JldA=='],
  ['Authorization', 'Bearer abc'],
  ['Authorization', 'Negotiate abc'],
  ['Cookie', 'P-UI-Token=abc; other=1'],
  ['Cookie', 'a=b'],
  ['Forwarded', 'for=1.2.3.4;proto=https;host=example.com'],
  ['X-Forwarded-For', '1.2.3.4'],
  ['X-Forwarded-Host', 'example.com'],
  ['X-Forwarded-Proto', 'https'],
  ['X-Forwarded-Port', '8443'],
  ['X-Forwarded-Prefix', '/prefix'],
  ['Accept-Encoding', 'gzip'],
  ['Content-Type', 'text/plain; charset=utf-8'],
  ['User-Agent', 'StatementClientV1/476'],
  ['Via', '1.1 other'],
  ['TE', 'trailers'],
  ['X-Other', 'value'],
  ['traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'],
];

const statements: readonly string[] = [
  'SELECT * FROM hive.sales.orders',
  'SELECT * FROM orders',
  'INSERT INTO hive.sales.orders SELECT 1',
  'CREATE TABLE hive.sales.x AS SELECT 1',
  'DELETE FROM hive.sales.orders',
  'DROP TABLE hive.secret.t',
  'SELECT * FROM hive.secret.t',
  'WITH t AS (SELECT * FROM hive.secret.t) SELECT * FROM t',
  'EXPLAIN SELECT * FROM hive.secret.t',
  'EXECUTE p',
  'PREPARE p FROM SELECT * FROM hive.sales.orders',
  'DEALLOCATE PREPARE p',
  'START TRANSACTION',
  'COMMIT',
  'ROLLBACK',
  'SET SESSION a = 1',
  'USE hive.sales',
  'SHOW TABLES',
  'DESCRIBE hive.sales.orders',
  'SELECT FROM',
  'SELECT 1;',
  '',
  '   ',
  "CALL system.runtime.kill_query('20260101_000000_00000_zzzzz')",
  `SELECT '${'x'.repeat(5_000)}'`,
];

const statementPaths: readonly string[] = [
  '/v1/statement',
  '/v1/statement/',
  '/v1/statement;x=1',
  '/v1/statement?a=b',
  '/v1//statement',
  '/v1/statement/../statement',
  '/v1/statement/%2e%2e/x',
];

/** Statements to which the scripted engine gives the response that each names. */
export const scripted: readonly string[] = [
  'status 400', 'status 401', 'status 403', 'status 404', 'status 410', 'status 429', 'status 500', 'status 502', 'status 503',
  'redirect', 'text', 'empty', 'broken', 'error', 'user error', 'cookie', 'session headers', 'transaction', 'gzip', 'warning',
]; // biome-ignore format: a list

const otherPaths: readonly string[] = [
  '/v1/info', '/v1/node', '/v1/cluster', '/v1/query', '/v1/query/20260101_000000_00000_zzzzz', '/v1/query/nonsense',
  '/ui/', '/ui/api/stats', '/ui/api/query/20260101_000000_00000_zzzzz', '/ui/query.html?20260101_000000_00000_zzzzz', '/ui/../x',
  '/v1/jmx', '/v1/thread', '/v1/task', '/v1/unknown', '/unknown', '/v1/statement/queued/20260101_000000_00000_zzzzz/y/1',
  '/v1/statement/executing/20260101_000000_00000_aaaaa/y1/1', '/v1/statement/executing/nonsense/y/1', '/v1/statement/executing',
  '/v1/spooled/download/abc', '/v1/spooled/ack/abc', '/oauth2/token/initiate/abc', '/oauth2/token/abc', '/oauth2/callback?state=a&code=b',
]; // biome-ignore format: a list

const follow: readonly Step[] = [next(), next()];

/** Transcripts of an ordinary gateway. */
export function plainTranscripts(): Transcripts {
  const named: Record<string, readonly Step[]> = {};
  for (const [name, value] of headerLines)
    named[`submission with ${name}: ${value}`] = [submit('SELECT 1', [name, value])];
  for (const statement of statements) named[`submission of ${statement.slice(0, 60)}`] = [submit(statement)];
  for (const path of statementPaths) {
    for (const method of ['POST', 'GET', 'PUT', 'DELETE'])
      named[`${method} ${path}`] = [{ method, path, headers: [user], body: method === 'POST' ? 'SELECT 1' : '' }];
  }
  for (const statement of scripted)
    named[`engine: ${statement}`] = [submit(statement), ...(statement === 'cookie' ? [next()] : [])];
  for (const path of otherPaths) named[`GET ${path}`] = [get(path)];
  for (const path of otherPaths.slice(0, 20)) named[`HEAD ${path}`] = [{ method: 'HEAD', path, headers: [user] }];
  for (const method of ['OPTIONS', 'PATCH', 'TRACE']) named[`${method} /v1/statement`] = [{ method, headers: [user] }];
  for (const source of ['deny', 'reject', 'pinned', 'tags'])
    named[`rule for source ${source}`] = [submit('SELECT 1', ['X-P-Source', source])];
  return {
    ...named,
    'query to its end': [submit(), ...follow],
    'query to its end, compressed': [submit(), next(['Accept-Encoding', 'gzip']), next(['Accept-Encoding', 'gzip'])],
    'page asked for twice': [submit(), next(), { method: 'GET', path: 'SAME', headers: [user] }],
    'follow-up without a user': [submit(), { method: 'GET', path: 'NEXT' }],
    'follow-up of another user': [submit(), { method: 'GET', path: 'NEXT', headers: [['X-P-User', 'bob']] }],
    'cancellation by nextUri': [submit(), { method: 'DELETE', path: 'NEXT', headers: [user] }],
    'cancellation by query id': [submit(), { method: 'DELETE', path: '/v1/query/ID', headers: [user] }],
    'partial cancellation': [
      submit(),
      { method: 'DELETE', path: '/v1/statement/executing/partialCancel/ID/1/y1/1', headers: [user] },
    ],
    'query info': [submit(), get('/v1/query/ID')],
    'query info of the pages': [submit(), get('/ui/api/query/ID')],
    'page of a query': [submit(), get('/ui/query.html?ID')],
    'query killed by PUT': [submit(), { method: 'PUT', path: '/v1/query/ID/killed', headers: [user], body: 'reason' }],
    'query of the cluster of a rule': [submit('SELECT 1', ['X-P-Source', 'etl']), ...follow],
    transaction: [
      submit('transaction'),
      submit('SELECT 1', ['X-P-Transaction-Id', '11111111-0000-4000-8000-000000000000']),
      submit('COMMIT', ['X-P-Transaction-Id', '11111111-0000-4000-8000-000000000000']),
    ],
    'two user lines': [submit('SELECT 1', ['X-P-User', 'bob'])],
    'two routing groups': [submit('SELECT 1', ['X-P-Routing-Group', 'etl'], ['X-P-Routing-Group', 'adhoc'])],
    'no user': [{ body: 'SELECT 1' }],
    'prepared statement of a denied table': [
      submit('EXECUTE p', ['X-P-Prepared-Statement', 'p=SELECT+*+FROM+hive.secret.t']),
    ],
    'default catalog and schema of a denied table': [
      submit('SELECT * FROM t', ['X-P-Catalog', 'hive'], ['X-P-Schema', 'secret']),
    ],
    'spooled segment of a query': [submit(), get('/v1/spooled/download/abc'), get('/v1/spooled/ack/abc')],
    'login by OAuth2': [
      get('/oauth2/token/initiate/abc'),
      get('/oauth2/token/abc'),
      get('/oauth2/callback?state=a&code=b'),
    ],
  };
}

/** Transcripts of a gateway before a cluster that runs one query at a time. */
export const queueTranscripts: Transcripts = {
  'second query is queued and runs after the first': [
    submit(),
    submit('SELECT 2'),
    next(),
    { method: 'GET', path: 'FIRST', headers: [user] },
  ],
  'queued query that is cancelled': [submit(), submit('SELECT 2'), { method: 'DELETE', path: 'NEXT', headers: [user] }],
  'queued query of another user': [
    submit(),
    { headers: [['X-P-User', 'bob']], body: 'SELECT 2' },
    { method: 'GET', path: 'NEXT', headers: [['X-P-User', 'bob']] },
  ],
  'full queue': [submit(), submit('SELECT 2'), submit('SELECT 3'), submit('SELECT 4')],
};

/** Transcripts over HTTP/2. */
export const http2Transcripts: Transcripts = {
  'query to its end': [submit(), ...follow],
  denied: [submit('SELECT 1', ['X-P-Source', 'deny'])],
  'unknown id': [get('/v1/query/20260101_000000_00000_zzzzz')],
  ...Object.fromEntries(scripted.map((statement) => [`engine: ${statement}`, [submit(statement)]])),
  ...Object.fromEntries(
    headerLines
      .slice(0, 22)
      .map(([name, value]) => [
        `submission with ${name}: ${value}`,
        [{ headers: [user, [name, value]], body: 'SELECT 1' }],
      ]),
  ),
};
