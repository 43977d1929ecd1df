import { request } from 'node:http';
import { afterEach, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import type {
  Admission,
  AdmissionAnswer,
  AdmissionRequest,
  AdmissionWait,
} from '../../../src/gateway/admission/admission.ts';
import type { Refusal } from '../../../src/routing/refusal.ts';
import { closeAll, closing, clusterAt, startGateway, type TestGatewayOptions, until } from '../../support/gateway.ts';
import { send } from '../../support/rawHttp.ts';
import { sampleRequest } from '../../support/ruleAttempt.ts';
import { runQuery, submit } from '../../support/statementClient.ts';
import { TransactionClient } from '../../support/transactionClient.ts';

afterEach(closeAll);

const full: Refusal = { reason: 'denied', message: 'etl is full: ask #data-platform for more', queryId: null };
const late: Refusal = { reason: 'no_cluster', message: 'Waited too long for etl', queryId: null };

/** A gateway in front of one engine with an admission of the test, which keeps what it was asked. */
async function gatewayWith(
  admit: (request: AdmissionRequest) => AdmissionAnswer,
  more: Partial<TestGatewayOptions> = {},
) {
  const engine = closing(await startSimulatedEngine({ name: 'a', record: true, queuedPolls: 0 }));
  const asked: AdmissionRequest[] = [];
  const admission: Admission = {
    admit: (one) => {
      asked.push(one);
      return admit(one);
    },
  };
  const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)], admission, ...more });
  const lines = () => gateway.log.filter((line) => line.msg === 'query');
  return { gateway, engine, asked, lines };
}

/** An admission that lets every submission wait until the test admits, refuses or fails it. */
function waiting(atMost = 60_000) {
  const begun: { readonly signal: AbortSignal; readonly end: PromiseWithResolvers<Refusal | null> }[] = [];
  const begin: AdmissionWait['begin'] = (signal) => {
    const end = Promise.withResolvers<Refusal | null>();
    begun.push({ signal, end });
    return end.promise;
  };
  return { begun, admit: (): AdmissionAnswer => ({ answer: 'wait', atMost, hold: atMost, late, begin }) };
}

test('is asked once a submission, with its group, user and headers; never for follow-ups and other requests', async () => {
  const { gateway, asked } = await gatewayWith(() => ({ answer: 'now' }));
  const headers = { 'X-Engine-Routing-Group': 'etl', 'X-Engine-Source': 'dbt' };
  await runQuery(gateway.url, 'SELECT 1', { user: 'alice', headers });
  await send(gateway.url, '/v1/info');
  expect(asked).toHaveLength(1);
  expect(asked[0]).toMatchObject({ decision: { group: 'etl', decidedBy: 'header' }, user: { user: 'alice' } });
  expect(asked[0]?.headers).toContain('dbt');
});

test('statements of transactions and calls of kill_query are not asked about', async () => {
  const running: string[] = [];
  const user = () => ({ user: 'alice', userInfo: null });
  const { gateway, asked, engine } = await gatewayWith(
    () => (asked.length === 1 ? { answer: 'now' } : { answer: 'refuse', refusal: full }),
    {
      analyzer: {
        user,
        analyze: () => ({
          user: user(),
          queryProperties: { ...sampleRequest.queryProperties!, queryId: running[0] ?? null },
        }),
      },
    },
  );
  const client = new TransactionClient([gateway.url]);
  expect((await client.run('START TRANSACTION')).error).toBeUndefined();
  const statement = await client.run('SELECT 1');
  expect(statement).toMatchObject({ error: undefined, rows: [[1]] });
  running.push(statement.queryId);
  expect((await submit(gateway.url, `CALL system.runtime.kill_query('${running[0]}')`)).error).toBeUndefined();
  expect(engine.queries).toHaveLength(3);
  expect(asked).toHaveLength(1);
  expect((await submit(gateway.url, 'SELECT 1')).error).toMatchObject({ message: full.message });
});

test("a refusal is sent in the engine's protocol and logged; no cluster receives the query", async () => {
  const { gateway, engine, lines } = await gatewayWith(() => ({ answer: 'refuse', refusal: full }));
  const answer = await submit(gateway.url, 'SELECT 1');
  expect(answer.error).toMatchObject({ message: full.message, errorName: 'PERMISSION_DENIED' });
  expect(answer.nextUri).toBeUndefined();
  expect(lines()).toMatchObject([
    { group: 'adhoc', decidedBy: 'default', refused: 'denied', user: 'test', status: 200 },
  ]);
  expect(engine.requests).toEqual([]);
  expect(gateway.records).toEqual([]);
});

describe('a submission that has to wait', () => {
  test('is sent on when it is admitted: its client sees the answer of the engine', async () => {
    const { begun, admit } = waiting();
    const { gateway, engine } = await gatewayWith(admit);
    const query = runQuery(gateway.url, 'SELECT 1');
    await until(() => begun.length === 1, 'the wait');
    expect(engine.requests).toEqual([]);
    begun[0]?.end.resolve(null);
    expect((await query).rows).toEqual([[1]]);
    expect(begun[0]?.signal.aborted).toBe(false);
    expect(gateway.records).toHaveLength(1);
  });

  test('goes to a cluster that was not there when it came', async () => {
    const { begun, admit } = waiting();
    const { gateway } = await gatewayWith(admit, { healthy: false });
    const query = runQuery(gateway.url, 'SELECT 1');
    await until(() => begun.length === 1, 'the wait');
    gateway.setHealthy('a');
    begun[0]?.end.resolve(null);
    expect((await query).rows).toEqual([[1]]);
  });

  test('arrives whole, also where its body is longer than what is buffered', async () => {
    const { begun, admit } = waiting();
    const { gateway, engine } = await gatewayWith(admit);
    const sql = `SELECT '${'x'.repeat(3_000_000)}'`;
    const query = submit(gateway.url, sql);
    await until(() => begun.length === 1, 'the wait');
    begun[0]?.end.resolve(null);
    expect((await query).error).toBeUndefined();
    expect(engine.queries[0]?.text.length).toBe(sql.length);
  });

  test('may be refused in the end', async () => {
    const { begun, admit } = waiting();
    const { gateway, engine } = await gatewayWith(admit);
    const query = submit(gateway.url, 'SELECT 1');
    await until(() => begun.length === 1, 'the wait');
    begun[0]?.end.resolve(full);
    expect((await query).error).toMatchObject({ message: full.message });
    expect(engine.requests).toEqual([]);
  });

  test('is refused when its time is over, and gives its place up', async () => {
    const { begun, admit } = waiting(20);
    const { gateway, engine, lines } = await gatewayWith(admit);
    expect((await submit(gateway.url, 'SELECT 1')).error).toMatchObject({
      message: late.message,
      errorName: 'NO_NODES_AVAILABLE',
    });
    expect(begun[0]?.signal.aborted).toBe(true);
    begun[0]?.end.resolve(null);
    expect(lines()).toMatchObject([{ refused: 'no_cluster' }]);
    expect(engine.requests).toEqual([]);
  });

  test('gives its place up when its client goes away, and is logged', async () => {
    const { begun, admit } = waiting();
    const { gateway, engine, lines } = await gatewayWith(admit);
    const sent = request(`${gateway.url}/v1/statement`, { method: 'POST', headers: { 'X-Engine-User': 'alice' } });
    sent.on('error', () => undefined).end('SELECT 1');
    await until(() => begun.length === 1, 'the wait');
    sent.destroy();
    await until(() => begun[0]?.signal.aborted === true, 'the place is given up');
    begun[0]?.end.resolve(null);
    await until(() => lines().length === 1, 'the line of the query');
    expect(lines()).toMatchObject([{ status: 'client_gone', user: 'alice', group: 'adhoc' }]);
    expect(await gateway.registry.metrics()).toMatch(
      /requests_total\{kind="submission",method="POST",status="0xx"\} 1/,
    );
    expect(engine.requests).toEqual([]);
  });

  test('is refused when the gateway stops, so that its client sends it elsewhere', async () => {
    const { begun, admit } = waiting();
    const { gateway, engine } = await gatewayWith(admit);
    const query = send(gateway.url, '/v1/statement', { method: 'POST', body: 'SELECT 1' });
    await until(() => begun.length === 1, 'the wait');
    gateway.dataPlane.refuseSubmissions();
    expect(await query).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
    expect(begun[0]?.signal.aborted).toBe(true);
    expect(engine.requests).toEqual([]);
  });

  test('fails with a defect of what lets it wait; others are served', async () => {
    const { begun, admit } = waiting();
    const { gateway } = await gatewayWith(admit);
    const query = send(gateway.url, '/v1/statement', { method: 'POST', body: 'SELECT 1' });
    await until(() => begun.length === 1, 'the wait');
    begun[0]?.end.reject(new Error('a defect'));
    expect((await query).status).toBe(500);
    const next = runQuery(gateway.url, 'SELECT 1');
    await until(() => begun.length === 2, 'the next wait');
    begun[1]?.end.resolve(null);
    expect((await next).rows).toEqual([[1]]);
  });
});
