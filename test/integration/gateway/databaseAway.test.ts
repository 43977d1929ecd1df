import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { openStore } from '../../../src/store/openStore.ts';
import { closeAll, closing, clusterAt, startGateway } from '../../support/gateway.ts';
import { hasMariadb, startMariadb } from '../../support/mariadb.ts';
import { hasPostgresql, startPostgresql } from '../../support/postgresql.ts';
import { type RawResponse, send } from '../../support/rawHttp.ts';
import type { TestServer } from '../../support/serverProcess.ts';
import { pathOf, type QueryResults, submit } from '../../support/statementClient.ts';

const results = (answer: RawResponse) => JSON.parse(answer.text) as QueryResults;

describe.each([
  {
    name: 'PostgreSQL stops',
    available: hasPostgresql,
    start: startPostgresql,
    begin: (server: TestServer) => server.stop(true),
    end: (server: TestServer) => server.start(),
  },
  {
    name: 'MariaDB hangs',
    available: hasMariadb,
    start: startMariadb,
    begin: async (server: TestServer) => server.suspend(),
    end: async (server: TestServer) => server.resume(),
  },
])('$name; meanwhile a cluster is added that one replica has heard of', ({ available, start, begin, end }) => {
  const missing = !available();
  let server: TestServer;
  beforeAll(async () => {
    if (!missing) server = await start();
  });
  afterEach(closeAll);
  afterAll(() => server?.dispose());

  test.skipIf(missing)(
    'follow-ups at the other one are put off, and answered once it can find their query',
    async () => {
      const database = await server.createDatabase();
      const [known, added] = await Promise.all(
        ['known', 'added'].map(async (name) => closing(await startSimulatedEngine({ name, queuedPolls: 2 }))),
      );
      const clusters = [clusterAt('known', known!.url, { routingGroup: 'etl' })];
      const replica = async () =>
        startGateway({
          clusters,
          store: closing(await openStore({ ...database, runMigrations: true, logger: pino({ level: 'silent' }) })),
        });
      const [one, other] = [await replica(), await replica()];
      const ask = (replica_: typeof one, uri: string) =>
        send(replica_.url, pathOf(uri), { headers: ['X-Engine-User', 'test'] });
      const answers: RawResponse[] = [];
      let page: QueryResults;
      await begin(server);
      try {
        one.table.setInputs({ clusters: [...clusters, clusterAt('added', added!.url)] });
        one.setHealthy('added');
        page = await submit(one.url, 'SELECT 1');
        for (let count = 0; count < 3; count++) answers.push(await ask(other, page.nextUri!));
        expect(answers.map(({ status, headers }) => [status, headers['retry-after']])).toEqual(
          Array(3).fill([503, '1']),
        );
        const next = await ask(one, page.nextUri!);
        expect(next.status).toBe(200);
        page = results(next);
      } finally {
        await end(server);
      }
      // The clients of both go on asking: nothing but "later" is heard until the owner is written down.
      await expect
        .poll(
          async () => {
            const answer = await ask(other, page.nextUri!);
            if (answer.status === 200) page = results(answer);
            else expect([answer.status, answer.headers['retry-after']]).toEqual([503, '1']);
            return answer.status;
          },
          { timeout: 30_000 },
        )
        .toBe(200);
      for (let turn = 0; page.nextUri !== undefined; turn++) {
        page = results(await ask([one, other][turn % 2]!, page.nextUri));
      }
      expect(page.error).toBeUndefined();
      expect(page.stats.state).toBe('FINISHED');
      expect(await other.registry.metrics()).toContain('engine_gateway_query_lookups_total{source="coordinator"} 1');
    },
  );
});
