import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { mariadb, type ServerDatabase } from '../support/databases.ts';
import { type EndedQuery, type Load, reasonsOf, startLoad } from './load.ts';
import { startWorld, type World } from './world.ts';

/** Time for a call of the service. */
const REQUEST_TIMEOUT_MS = 5_000;
/** How long a query takes beside that on a busy machine, at most. */
const OTHERWISE_MS = 10_000;

/** A rules service that sends everything to one group, and can be made to hang. */
class RulesService {
  readonly #server: Server;
  hanging = false;
  group = 'etl';

  constructor() {
    this.#server = createServer((request, response) => {
      request.resume();
      request.on('end', () => {
        if (this.hanging) return;
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify({ routingGroup: this.group, errors: null }));
      });
    });
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/rules`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

describe.skipIf(!mariadb.available())('the rules service hangs in the middle of a load', () => {
  const service = new RulesService();
  let server: ServerDatabase;
  let world: World;
  let load: Load;
  beforeAll(async () => {
    server = await mariadb.start();
    world = await startWorld({
      database: await server.create(),
      clusters: { a: 'adhoc', b: 'etl' },
      config: {
        routingRules: {
          rulesEngineEnabled: true,
          rulesType: 'EXTERNAL',
          rulesExternalConfiguration: { urlPath: await service.listen(), retryAfter: '2s' },
        },
        serverConfig: { 'router.http-client.request-timeout': `${REQUEST_TIMEOUT_MS}ms` },
      },
    });
  });
  afterAll(async () => {
    await world?.close();
    await server?.dispose();
    service.close();
  });
  afterEach(async () => {
    await load?.stop();
  });

  test('no query fails; they go by header, most of them without waiting; and by the service when it is back', async () => {
    const ran = (name: string, since: number) => (query: EndedQuery) =>
      query.startedAt > since && world.cluster(name).gave(query.id);
    const requestCount = (outcome: string) =>
      world.metric('engine_gateway_external_rules_requests_total', `outcome="${outcome}"`);
    const byHeader = async () => (await requestCount('failed')) + (await requestCount('skipped'));
    load = startLoad({ bases: world.bases, group: 'adhoc', slowShare: 0 });
    await load.progress(100);
    // All by the service, but for those that a busy machine kept waiting for it too long: these are counted.
    expect(load.queries.filter(ran('a', 0)).length).toBeLessThanOrEqual(await byHeader());

    service.hanging = true;
    const hungAt = performance.now();
    await expect.poll(() => world.metric('engine_gateway_external_rules_circuit_open'), { timeout: 60_000 }).toBe(2);
    const leftAloneAt = performance.now();
    const waitedBefore = await requestCount('failed');
    await load.progress(300);
    const meanwhile = load.queries.filter((query) => query.startedAt > leftAloneAt);
    expect(meanwhile.filter(ran('b', leftAloneAt))).toEqual([]);
    expect(Math.max(...meanwhile.map((query) => query.endedAt - query.startedAt))).toBeLessThan(
      REQUEST_TIMEOUT_MS + OTHERWISE_MS,
    );
    // One of them tries the service again now and then; the others do not wait for it.
    expect((await requestCount('failed')) - waitedBefore).toBeLessThan(meanwhile.length / 4);
    expect(await requestCount('skipped')).toBeGreaterThan(meanwhile.length / 2);

    await world.raised('EngineGatewayExternalRulesUnavailable');
    service.hanging = false;
    await expect.poll(() => world.metric('engine_gateway_external_rules_circuit_open'), { timeout: 60_000 }).toBe(0);
    const backAt = performance.now();
    const byHeaderBefore = await byHeader();
    await load.progress(100);
    expect(load.queries.filter(ran('a', backAt)).length).toBeLessThanOrEqual((await byHeader()) - byHeaderBefore);
    expect(load.queries.some(ran('b', backAt))).toBe(true);
    const { failed, repeated, queries } = await load.stop();
    expect(reasonsOf(failed)).toEqual([]);
    expect(repeated).toBe(0);
    expect(queries.filter(ran('a', hungAt)).length).toBeGreaterThan(200);
    expect(await world.missingInHistory(queries)).toBe(0);
  });
});
