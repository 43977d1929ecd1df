import { zstdCompressSync } from 'node:zlib';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { UserExtractor, userAndQueryAnalyzer } from '../../../src/gateway/user/userExtractor.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { productNames } from '../../../src/model/names.ts';
import { requestAnalysis } from '../../../src/sql/analyzeRequest.ts';
import { freePort } from '../../support/freePort.ts';
import { closeAll, closing, clusterAt, startGateway } from '../../support/gateway.ts';
import { type RawRequest, send } from '../../support/rawHttp.ts';
import { follow, type QueryResults, submit } from '../../support/statementClient.ts';

afterAll(closeAll);

const names = productNames('Engine');
const logger = pino({ level: 'silent' });

/** The real analysis, as the gateway has it also with `analyzeRequest: false`. */
function analyzer(clientsUseV2Format = false) {
  const settings = {
    trustedUserSources: ['header'],
    tokenUserField: 'email',
    oauthTokenInfoUrl: null,
    jwksUrl: null,
    issuer: null,
    audience: null,
  } as const;
  const users = new UserExtractor(settings, {
    names,
    clock: systemClock,
    logger,
    registry: new Registry(),
    exchangeTimeoutMs: 10_000,
  });
  closing(users);
  const analyze = requestAnalysis({ names, maxBodySize: 1_000_000, clientsUseV2Format, cacheBytes: 0 });
  return userAndQueryAnalyzer(users, null, null, null, analyze, logger);
}

/** Two clusters in groups of their own, a query running on each, and no rule that needs the analysis. */
async function running(clientsUseV2Format = false) {
  const engines = await Promise.all(
    ['a', 'b'].map(async (name) => closing(await startSimulatedEngine({ name, record: true }))),
  );
  const clusters = engines.map(({ name, url }) => clusterAt(name, url, { routingGroup: name === 'a' ? 'adhoc' : 'b' }));
  const gateway = await startGateway({ clusters, analyzer: analyzer(clientsUseV2Format) });
  const start = async (group: string) => {
    const started = await submit(gateway.url, 'SELECT 1', { headers: { 'X-Engine-Routing-Group': group } });
    return follow(started.nextUri!);
  };
  const victims = { a: await start('adhoc'), b: await start('b') };
  const [a, b] = engines as [(typeof engines)[0], (typeof engines)[0]];
  return { gateway, a, b, victims };
}

/** What `running` starts, once for all calls that only look where they go. */
const shared = new Map<boolean, ReturnType<typeof running>>();

/** Which cluster got a submission that names the query of cluster b. */
async function takenBy(request: (id: string) => RawRequest, clientsUseV2Format = false): Promise<string> {
  const world = shared.get(clientsUseV2Format) ?? running(clientsUseV2Format);
  shared.set(clientsUseV2Format, world);
  const { gateway, a, b, victims } = await world;
  const before = [a.requests.length, b.requests.length];
  const { headers = [], ...rest } = request(victims.b.id);
  const options = { method: 'POST', ...rest, headers: ['X-Engine-User', 'test', ...headers] };
  expect((await send(gateway.url, '/v1/statement', options)).status).toBe(200);
  return [a, b]
    .filter((engine, index) => engine.requests.length > before[index]!)
    .map(({ name }) => name)
    .join();
}

const prepared = (text: string, name = 'k') => ['X-Engine-Prepared-Statement', `${name}=${text}`];
const compressed = (text: string) => `$zstd:${zstdCompressSync(Buffer.from(text)).toString('base64url')}`;
const call = (id: string) => `CALL system.runtime.kill_query('${id}')`;

describe('a call of kill_query reaches the cluster of the query it names', () => {
  const requests: readonly (readonly [string, (id: string) => RawRequest])[] = [
    ['by position', (id) => ({ body: call(id) })],
    ['by name', (id) => ({ body: `CALL system.runtime.kill_query(message => 'it''s (me)', query_id => '${id}')` })],
    [
      'in capitals, with comments',
      (id) => ({ body: `/* '; */ CALL -- '\n SYSTEM.Runtime."kill_query"('${id}', 'x')` }),
    ],
    [
      'through the defaults',
      (id) => ({
        body: `CALL kill_query('${id}')`,
        headers: ['X-Engine-Catalog', 'system', 'X-Engine-Schema', 'runtime'],
      }),
    ],
    ['in unicode', (id) => ({ body: `CALL system.runtime.kill_query(U&'${id.replaceAll('_', '\\005f')}')` })],
    ['at once', (id) => ({ body: `EXECUTE IMMEDIATE 'CALL system.runtime.kill_query(''${id}'')'` })],
    ['prepared', (id) => ({ body: 'EXECUTE k', headers: prepared(encodeURIComponent(call(id))) })],
    [
      'prepared, wholly encoded',
      (id) => ({
        body: 'EXECUTE "k"',
        headers: ['x-engine-prepared-statement', `o=SELECT+1,k=${call(id).replace(/_/g, '%5F').replace(/ /g, '+')}`],
      }),
    ],
    [
      'prepared, compressed',
      (id) => ({ body: 'EXECUTE k', headers: prepared(encodeURIComponent(compressed(call(id)))) }),
    ],
  ];
  test.each(requests)('%s', async (_, request) => {
    expect(await takenBy(request)).toBe('b');
  });

  test.each<readonly [string, (id: string) => object]>([
    ['itself', (id) => ({ query: call(id), preparedStatements: {} })],
    ['prepared', (id) => ({ query: 'EXECUTE k', preparedStatements: { k: call(id) } })],
  ])('in a V2 body, %s', async (_, body) => {
    expect(await takenBy((id) => ({ body: JSON.stringify(body(id)) }), true)).toBe('b');
  });

  test('and ends it', async () => {
    const { gateway, victims } = await running();
    let page: QueryResults = await submit(gateway.url, `CALL system.runtime.kill_query('${victims.b.id}', 'enough')`);
    while (page.nextUri !== undefined) page = await follow(page.nextUri);
    expect(page.error).toBeUndefined();
    expect((await follow(victims.b.nextUri!)).error?.message).toContain('enough');
    expect((await follow(victims.a.nextUri!)).error).toBeUndefined();
  });
});

describe('all else goes the usual way', () => {
  const requests: readonly (readonly [string, (id: string) => RawRequest])[] = [
    ['an unknown id', () => ({ body: call('20261121_015745_00001_strng') })],
    ['no id at all', () => ({ body: call("it''s; DROP") })],
    ['the words in a string', (id) => ({ body: `SELECT 'CALL system.runtime.kill_query(''${id}'')'` })],
    ['the words in a comment', (id) => ({ body: `SELECT 1 -- CALL system.runtime.kill_query('${id}')` })],
    ['a procedure of another catalog', (id) => ({ body: `CALL other.runtime.kill_query('${id}')` })],
    ['an id that has to be worked out', (id) => ({ body: `CALL system.runtime.kill_query('${id}' || '')` })],
    ['no SQL', (id) => ({ body: `kill_query '${id}` })],
    ['another prepared statement', (id) => ({ body: 'EXECUTE o', headers: prepared(encodeURIComponent(call(id))) })],
    ['a header that cannot be read', (id) => ({ body: 'EXECUTE k', headers: prepared(`%zz${call(id)}`) })],
    [
      'a V2 body where none is expected',
      (id) => ({ body: JSON.stringify({ query: call(id), preparedStatements: {} }) }),
    ],
  ];
  test.each(requests)('%s', async (_, request) => {
    expect(await takenBy(request)).toBe('a');
  });
});

test('a cluster that cannot be reached is reported in the protocol, and no other one gets the call', async () => {
  const { gateway, a, b, victims } = await running();
  const before = a.requests.length;
  await b.close();
  const refused = await submit(gateway.url, call(victims.b.id));
  expect(refused.error).toMatchObject({
    errorName: 'REMOTE_HOST_GONE',
    message: expect.stringContaining(victims.b.id),
  });
  expect(refused.nextUri).toBeUndefined();
  expect(a.requests.length).toBe(before);
});

test('the cluster may be inactive or gone from the registry', async () => {
  const { gateway, a, b, victims } = await running();
  gateway.table.setInputs({ clusters: [clusterAt('a', a.url)], rules: null });
  gateway.setHealthy('a');
  expect((await submit(gateway.url, call(victims.b.id))).id).toMatch(new RegExp(`${b.suffix}$`));
  const moved = `http://127.0.0.1:${await freePort()}`;
  gateway.table.setInputs({ clusters: [clusterAt('a', a.url), clusterAt('b', moved)], rules: null });
  expect((await submit(gateway.url, call(victims.b.id))).id).toMatch(new RegExp(`${b.suffix}$`));
});
