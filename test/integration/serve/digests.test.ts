import { beforeAll, describe, expect, test } from 'vitest';
import type { QueryPage } from '../../../src/api/responses/queries.ts';
import type { KnexStore } from '../../../src/store/openStore.ts';
import type { StoredReplay } from '../../../src/store/queryOutcome.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { runQuery, submit } from '../../support/statementClient.ts';
import { worldOf } from '../../support/world.ts';

describe('digests of queries', () => {
  const world = worldOf('suite');
  let gateway: GatewayProcess;
  let store: KnexStore;

  const listed = async (id: string) => {
    const response = await fetch(`${gateway.url}/api/queries?queryId=${id}`);
    return ((await response.json()) as QueryPage).queries[0];
  };
  /** The outcome of a statement, once it is stored. */
  const outcomeOf = async (sql: string, headers: Readonly<Record<string, string>> = {}) => {
    const { id } = await runQuery(gateway.url, sql, { headers });
    await expect.poll(async () => (await listed(id))?.outcome?.digest).toMatch(/^[0-9a-f]{16}$/);
    const replay = await store.database.knex('eg_query_decisions').where('query_id', id).first('replay');
    return { ...(await listed(id))?.outcome, replay: JSON.parse(replay.replay) as StoredReplay };
  };

  beforeAll(async () => {
    const engine = await world.engine({ name: 'engine' });
    await world.declare(
      manifest('EngineCluster', 'first', { proxyTo: engine.url, routingGroup: 'adhoc' }),
      manifest('RoutingRule', 'closed', {
        condition: 'request.getHeader("X-Team") == "red"',
        deny: { message: 'closed' },
      }),
    );
    gateway = await world.startReady({ queryHistory: { redact: ["secret '[^']*'"], maxTextSize: '100B' } });
    store = await world.store();
  });

  test('are equal for literals, white space and prepared statements', async () => {
    const one = await outcomeOf('SELECT 1');
    const other = await outcomeOf('select /* c */ 22');
    expect(other.digest).toBe(one.digest);
    expect(other.exactDigest).not.toBe(one.exactDigest);
    const headers = { 'X-Engine-Prepared-Statement': 'p=SELECT+%3F' };
    const executed = await outcomeOf('EXECUTE p USING 3', headers);
    expect(executed.digest).toBe(one.digest);
    expect(executed.replay.statement).toBe('SELECT ?');
    expect(one).toMatchObject({ physicalInputBytes: 0, spilledBytes: 0, tool: null });
    const shape = await store.database
      .knex('eg_digests')
      .where('digest', one.digest ?? '')
      .first();
    expect(shape.shape).toBe('SELECT ?');
  });

  test('come with labels and what a replay needs, without secrets', async () => {
    const model = 'model.shop.orders';
    const outcome = await outcomeOf(`/* {"app": "dbt", "node_id": "${model}"} */ SELECT 1`, {
      ...{ 'X-Engine-Session': 'a=1,hive.s3_secret=hidden', 'X-Engine-Extra-Credential': 'k=hidden' },
      ...{ 'X-Engine-Time-Zone': 'Europe/Berlin', 'X-Engine-Client-Capabilities': 'PATH,PARAMETRIC_DATETIME' },
    });
    expect(outcome).toMatchObject({ tool: 'dbt', model, dashboard: null });
    expect(outcome.replay).toEqual({
      complete: 'redacted',
      headers: {
        ...{ Session: 'a=1,hive.s3_secret=***', 'Time-Zone': 'Europe/Berlin' },
        'Client-Capabilities': 'PATH,PARAMETRIC_DATETIME',
      },
    });
  });

  test('state whether the stored text is complete', async () => {
    expect((await outcomeOf('SELECT 1')).replay).toEqual({ complete: 'yes', headers: {} });
    expect((await outcomeOf(`SELECT 1${' '.repeat(100)} + 1`)).replay.complete).toBe('cut');
    expect((await outcomeOf("SELECT 'x' -- secret 'abc'")).replay.complete).toBe('redacted');
  });

  test('belong to denied queries, too', async () => {
    const denied = await submit(gateway.url, "SELECT 'denied', 2", { headers: { 'X-Team': 'red' } });
    await expect.poll(async () => (await listed(denied.id))?.outcome?.state).toBe('DENIED');
    expect((await listed(denied.id))?.outcome?.digest).toBe((await outcomeOf('SELECT 1, 2')).digest);
  });
});
