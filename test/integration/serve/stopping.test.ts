import { once } from 'node:events';
import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { closeAll, startServer } from '../../support/gateway.ts';
import { asProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { worldOf } from '../../support/world.ts';

/** An engine whose answers to `/v1/info/…` go on until they are released. */
async function startEngine() {
  const waiting: (() => void)[] = [];
  const { url } = await startServer((request, response) => {
    if (request.url === '/v1/info') response.end('{"starting":false}');
    else if (request.method === 'POST') {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ id: '20261121_000000_00000_abcde', infoUri: url, stats: { state: 'FINISHED' } }));
    } else {
      response.write('begin ');
      waiting.push(() => response.end('end'));
    }
  });
  return { url, waiting, release: () => waiting.shift()?.() };
}

const world = worldOf('test');
let engine: Awaited<ReturnType<typeof startEngine>>;

beforeEach(async () => {
  engine = await startEngine();
  await world.declare(manifest('EngineCluster', 'a', { proxyTo: engine.url, routingGroup: 'adhoc' }));
});
afterEach(closeAll);

const start = (server: Readonly<Record<string, string>>) =>
  world.startReady({ queryHistory: { flushInterval: '10s' }, server }, {}, asProcess);

/** One connection of a client, which it keeps. */
function connection(url: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const send = (path: string, body?: string): ClientRequest => {
    const method = body === undefined ? 'GET' : 'POST';
    const outgoing = httpRequest(`${url}${path}`, { agent, method, headers: { 'X-Engine-User': 'u' } });
    outgoing.on('error', () => undefined);
    return outgoing.end(body);
  };
  return {
    begin: async (path: string, body?: string): Promise<IncomingMessage> => {
      const [response] = (await once(send(path, body), 'response')) as [IncomingMessage];
      return response;
    },
    close: () => agent.destroy(),
  };
}

test('a clean stop refuses new queries so that clients repeat them, finishes answers, writes history, releases leadership', async () => {
  const { url, stop, logged } = await start({ drainTimeout: '20s' });
  const [one, other] = [connection(url), connection(url)];
  const query = await one.begin('/v1/statement', 'SELECT 1');
  const { id } = JSON.parse(await text(query)) as { id: string };
  const [short, long] = await Promise.all([one.begin('/v1/info/short'), other.begin('/v1/info/long')]);
  await expect.poll(() => engine.waiting.length).toBe(2);

  const ended = stop();
  await logged((line) => line.msg === 'stopping');
  await expect
    .poll(
      () =>
        fetch(url).then(
          () => 'taken',
          () => 'refused',
        ),
      { timeout: 30_000 },
    )
    .toBe('refused');
  engine.release();
  expect(await text(short)).toBe('begin end');
  // The connection is kept: its answer began without `Connection: close`.
  const refused = await one.begin('/v1/statement', 'SELECT 2');
  expect([refused.statusCode, refused.headers['retry-after'], refused.headers.connection]).toEqual([503, '1', 'close']);
  expect(await text(refused)).toContain('stopping');
  engine.release();
  expect(await text(long)).toBe('begin end');
  expect(await ended).toBe(0);
  one.close();
  other.close();

  const store = await world.store();
  expect(await store.history.get(id)).toMatchObject({ queryId: id, queryText: 'SELECT 1' });
  // Leadership that is held is not given to another one for seconds.
  expect(await store.leader.acquire('another', 1_000)).toMatchObject({ holder: 'another' });
});

test('streams of events end with the gateway, whatever time answers have', async () => {
  const { url, stop, log } = await start({ drainTimeout: '60s' });
  const one = connection(url);
  const stream = await one.begin('/api/events');
  const body = text(stream);
  expect(await stop()).toBe(0);
  expect(await body).toContain('event: versions\ndata: {"clusters":');
  expect(log).not.toContainEqual(expect.objectContaining({ msg: expect.stringContaining('cut off') }));
  one.close();
});

test('answers that do not end are cut off after server.drainTimeout', async () => {
  const { url, stop, log } = await start({ drainTimeout: '300ms' });
  const one = connection(url);
  const endless = await one.begin('/v1/info/endless');
  const body = text(endless).then(
    () => 'whole',
    () => 'cut off',
  );
  expect(await stop()).toBe(0);
  expect(await body).toBe('cut off');
  expect(log).toContainEqual(expect.objectContaining({ requests: 1, msg: expect.stringContaining('cut off') }));
  one.close();
});

test('for server.drainDelay a gateway that stops says so and serves all the same', async () => {
  const { url, stop } = await start({ drainDelay: '4s' });
  const ended = stop();
  await expect.poll(async () => (await fetch(`${url}/readyz`)).status, { timeout: 3_000, interval: 20 }).toBe(503);
  const query = await fetch(`${url}/v1/statement`, {
    method: 'POST',
    body: 'SELECT 1',
    headers: { 'X-Engine-User': 'u' },
  });
  expect([query.status, (await query.json()) as unknown]).toMatchObject([200, { stats: { state: 'FINISHED' } }]);
  expect(await ended).toBe(0);
});
