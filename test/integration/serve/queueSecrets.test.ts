/**
 * What the database has of queries that wait: credentials and texts are looked for in every column of every table, in clear
 * and as base64 or hexadecimal digits.
 */
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { openStore } from '../../../src/store/openStore.ts';
import type { Dialect } from '../../../src/store/store.ts';
import { oneDatabase, type TestDatabase } from '../../support/databases.ts';
import { closeAll, startServer, until } from '../../support/gateway.ts';
import { manifest, sharedSecret } from '../../support/queueing.ts';
import { follow, pathOf, type QueryResults, submit } from '../../support/statementClient.ts';
import { worldOf } from '../../support/world.ts';

const basic = Buffer.from('ann:password-of-ann').toString('base64');
/** Headers of each client, with what must be found nowhere. */
const clients: readonly { readonly headers: Readonly<Record<string, string>>; readonly secrets: readonly string[] }[] =
  [
    { headers: { Authorization: `Basic ${basic}` }, secrets: ['password-of-ann', basic] },
    { headers: { Authorization: 'Bearer token-of-bob' }, secrets: ['token-of-bob'] },
    {
      headers: { 'X-Engine-Extra-Credential': 'vault=credential-of-eve,s3=key-of-eve' },
      secrets: ['credential-of-eve', 'key-of-eve'],
    },
    { headers: { Cookie: 'login=cookie-of-joe; other=1' }, secrets: ['cookie-of-joe'] },
    { headers: { 'X-Engine-Session': 'catalog.password=property-of-kim' }, secrets: ['property-of-kim'] },
    { headers: { 'X-Forwarded-Access-Token': 'forwarded-token-of-lee' }, secrets: ['forwarded-token-of-lee'] },
  ];
const ofHeaders = clients.flatMap(({ secrets }) => secrets);
/** In the texts of statements: the history has texts, once a cluster has the query. */
const textSecret = 'secret-in-a-statement';
/** What the cluster gives its clients with its first answer. */
const responseSecrets = ['cookie-of-the-cluster', 'slug-of-the-cluster'];

const tablesOf: Readonly<Record<Dialect, string>> = {
  sqlite: "select name from sqlite_master where type = 'table' and name not like 'sqlite%'",
  postgresql: "select table_name as name from information_schema.tables where table_schema = 'public'",
  mysql: 'select table_name as name from information_schema.tables where table_schema = database()',
};

/** A cluster of which the first query runs until the test ends it; all others end at once. */
async function startCluster() {
  let count = 0;
  const held = Promise.withResolvers<void>();
  const headers: NodeJS.Dict<string | string[]>[] = [];
  const { url } = await startServer((request, response) => {
    const answer = (value: object) => {
      response.writeHead(200, { 'content-type': 'application/json', 'set-cookie': `login=${responseSecrets[0]}` });
      response.end(JSON.stringify(value));
    };
    request.resume().on('end', async () => {
      const base = `http://${request.headers['x-forwarded-host']}:${request.headers['x-forwarded-port']}`;
      if (request.url === '/v1/info') answer({ starting: false });
      else if (request.method === 'POST') {
        headers.push(request.headers);
        const id = `20261121_000000_${String(count++).padStart(5, '0')}_abcde`;
        const nextUri = `${base}/v1/statement/executing/${id}/${responseSecrets[1]}/1`;
        answer({ id, infoUri: base, nextUri, stats: { state: 'RUNNING' } });
      } else {
        const id = request.url?.split('/')[4] ?? '';
        if (id.includes('_00000_')) await held.promise;
        answer({ id, infoUri: base, stats: { state: 'FINISHED' } });
      }
    });
  });
  return { url, headers, endFirst: () => held.resolve() };
}

/** A text as it is, and as base64 and hexadecimal digits show it inside of something longer. */
function formsOf(text: string): readonly string[] {
  const shifted = [0, 1, 2].map((shift) => {
    const encoded = Buffer.from(`${'\0'.repeat(shift)}${text}`)
      .toString('base64')
      .replaceAll('=', '');
    return encoded.slice(shift === 0 ? 0 : shift + 1, -2);
  });
  return [text, encodeURIComponent(text), Buffer.from(text).toString('hex'), ...shifted];
}

describe('what the database has of queries that wait', () => {
  const world = worldOf('test');
  let server: TestDatabase;
  beforeAll(async () => {
    server = await oneDatabase.start();
  });
  afterEach(closeAll);
  afterAll(() => server?.dispose());

  test('is nothing of their credentials, and of their texts nothing before a cluster has them', async () => {
    const cluster = await startCluster();
    await world.declare(
      manifest('EngineCluster', 'one', { proxyTo: cluster.url, routingGroup: 'adhoc', maxRunningQueries: 1 }),
      manifest('RoutingGroup', 'adhoc', { queue: { hold: '0s', maxWait: '5m' } }),
    );
    const dataStore = await server.create();
    const gateway = await world.start({ ...sharedSecret, dataStore });
    const { url } = gateway;
    const store = await openStore({ ...dataStore, runMigrations: false, logger: pino({ level: 'silent' }) });
    /** Every value of every column, as `table.column`. */
    const values = async () => {
      const { knex } = store.database;
      const [listed] = [await knex.raw(tablesOf[oneDatabase.name])] as [never];
      const tables = (
        Array.isArray(listed) ? (Array.isArray(listed[0]) ? listed[0] : listed) : (listed as { rows: unknown[] }).rows
      ) as { name: string }[];
      const found: { readonly place: string; readonly text: string }[] = [];
      for (const { name } of tables) {
        for (const row of (await knex(name).select('*')) as Record<string, unknown>[]) {
          for (const [column, value] of Object.entries(row)) {
            const text = Buffer.isBuffer(value)
              ? value.toString('latin1')
              : typeof value === 'object'
                ? JSON.stringify(value)
                : String(value);
            found.push({ place: `${name}.${column}`, text });
          }
        }
      }
      return found;
    };
    /** Where any of the texts is. */
    const places = async (texts: readonly string[]) => {
      const forms = texts.flatMap(formsOf);
      const all = await values();
      return [
        ...new Set(all.filter(({ text }) => forms.some((form) => text.includes(form))).map(({ place }) => place)),
      ].sort();
    };
    try {
      let page: QueryResults | null = null;
      const isTaken = async () => {
        page = await submit(url, 'SELECT 0').catch(() => null);
        return page !== null && page.error === undefined;
      };
      await until(isTaken, 'a query that is taken');
      let first = page as unknown as QueryResults;
      while (first.stats.state !== 'RUNNING') first = await follow(first.nextUri ?? '');
      void follow(first.nextUri ?? '').catch(() => undefined);
      const waiting: { readonly page: QueryResults; readonly headers: Readonly<Record<string, string>> }[] = [];
      for (const { headers } of clients) {
        const page = await submit(url, `SELECT '${textSecret}'`, { headers });
        expect(page.stats.state, JSON.stringify(page)).toBe('QUEUED');
        waiting.push({ page, headers });
      }
      // Those who look find what is there in clear: the ids, of one that waited before in the history as well.
      expect(await places(['_queue'])).toContain('eg_queued_queries.id');
      expect(await places([...ofHeaders, textSecret])).toEqual([]);
      const slugs = waiting.map(({ page }) => pathOf(page.nextUri ?? '').split('/')[5] as string);
      expect(await places(slugs)).toEqual([]);

      cluster.endFirst();
      for (const { page, headers } of waiting) {
        let last = page;
        while (last.nextUri !== undefined) last = await follow(last.nextUri, { headers });
        expect(last.error).toBeUndefined();
      }
      const sent = JSON.stringify(cluster.headers);
      expect(ofHeaders.filter((secret) => !sent.includes(secret) && !sent.includes(basic))).toEqual([]);
      // The text of a query that ran is in the history, as that of any other.
      await expect.poll(() => places([textSecret]), { timeout: 10_000 }).toEqual(['query_history.query_text']);
      expect(await places([...ofHeaders, ...responseSecrets, ...slugs])).toEqual([]);
    } finally {
      await store.close();
    }
  }, 60_000);
});
