import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { type SimulatedEngine, startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { requireComponent } from '../support/components.ts';
import type { ServerDatabase } from '../support/databases.ts';
import { type GatewayProcess, startGatewayWithFile } from '../support/gatewayProcess.ts';
import { families } from '../support/referenceDatabases.ts';
import { freePort } from '../support/serverProcess.ts';
import { clientRequests, rulesFile } from './installation.ts';
import { missingReferenceTools, RELEASE, type ReferenceGateway, startReference } from './referenceGateway.ts';

const groups = ['adhoc', 'etl', 'large'] as const;

const missing = await missingReferenceTools();
const canRun = requireComponent(missing.join(', '), missing.length === 0, 'the suite runs the released Trino Gateway');

/** Client protocol: id and the path of the next page. */
interface Submitted {
  readonly id: string;
  readonly next: string;
}

async function submit(gateway: string, { headers, body }: (typeof clientRequests)[number]): Promise<Submitted> {
  const response = await fetch(`${gateway}/v1/statement`, { method: 'POST', headers, body });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  const { id, nextUri } = JSON.parse(text) as { id: string; nextUri?: string };
  if (nextUri === undefined) expect.fail(`no nextUri in ${text}`);
  return { id, next: new URL(nextUri).pathname };
}

const send = (url: string, method: string, body?: unknown) =>
  fetch(url, {
    method,
    ...(body === undefined
      ? {}
      : {
          headers: { 'content-type': typeof body === 'string' ? 'text/plain' : 'application/json' },
          body: typeof body === 'string' ? body : JSON.stringify(body),
        }),
  });

for (const family of families) {
  describe.skipIf(!canRun || !family.available())(
    `release ${RELEASE} and this gateway on one ${family.name} database`,
    () => {
      let folder: string;
      let server: ServerDatabase;
      let reference: ReferenceGateway;
      let gateway: GatewayProcess;
      const engines = new Map<string, SimulatedEngine>();
      let run: ReturnType<typeof family.runner>;

      /** The configuration of the release; of this gateway, but for the port, the same. */
      const configuration = (settings: { jdbcUrl: string; user: string; password: string }, port: number) => ({
        serverConfig: { 'node.environment': 'test', 'http-server.http.port': port },
        dataStore: {
          jdbcUrl: settings.jdbcUrl.replace('jdbc:mariadb:', 'jdbc:mysql:'),
          user: settings.user,
          password: settings.password,
          driver: family.name === 'mysql' ? 'com.mysql.cj.jdbc.Driver' : 'org.postgresql.Driver',
          queryHistoryHoursRetention: 24,
          runMigrationsEnabled: true,
        },
        clusterStatsConfiguration: { monitorType: 'INFO_API' },
        monitor: { taskDelay: '1s' },
        routingRules: { rulesEngineEnabled: true, rulesConfigPath: join(folder, 'rules.yaml') },
        requestAnalyzerConfig: { analyzeRequest: true },
      });

      const engineOf = (id: string): string => {
        for (const [name, engine] of engines) if (id.endsWith(`_${engine.suffix}`)) return name;
        return `none of the engines gave ${id}`;
      };
      const clusters = async (url: string) =>
        ((await (await fetch(`${url}/gateway/backend/all`)).json()) as { name: string }[]).toSorted((a, b) =>
          a.name < b.name ? -1 : 1,
        );

      beforeAll(async () => {
        folder = mkdtempSync(join(tmpdir(), 'side-by-side-'));
        writeFileSync(join(folder, 'rules.yaml'), rulesFile);
        server = await family.start();
        const settings = await server.create();
        run = family.runner(settings);
        for (const name of groups) engines.set(name, await startSimulatedEngine({ name, productName: 'Trino' }));
        const [oldPort, newPort] = [await freePort(), await freePort()];
        const oldFile = join(folder, 'old.yaml');
        const newFile = join(folder, 'new.yaml');
        writeFileSync(oldFile, stringify(configuration(settings, oldPort)));
        // The one key that both at once need, for follow-ups there of queries begun here.
        const beside = { queryHistory: { writeBeforeAnswer: true, spillDirectory: join(folder, 'spill') } };
        writeFileSync(newFile, stringify({ ...configuration(settings, newPort), ...beside }));
        reference = await startReference(RELEASE, oldFile, oldPort);
        for (const [name, { url }] of engines) {
          const body = { name, proxyTo: url, active: true, routingGroup: name };
          expect((await send(`${reference.url}/gateway/backend/modify/add`, 'POST', body)).status).toBe(200);
        }
        gateway = await startGatewayWithFile(newFile);
        for (const url of [reference.url, gateway.url]) {
          await vi.waitFor(
            async () => {
              const answer = (await (await send(`${url}/webapp/getAllBackends`, 'POST', {})).json()) as {
                data: { name: string; status: string }[];
              };
              expect(answer.data.map(({ status }) => status)).toEqual(groups.map(() => 'HEALTHY'));
            },
            { timeout: 90_000, interval: 200 },
          );
        }
      }, 400_000);
      afterAll(async () => {
        await gateway?.stop();
        await reference?.stop();
        for (const engine of engines.values()) await engine.close();
        await server?.dispose();
        rmSync(folder, { recursive: true, force: true });
      }, 120_000);

      test('the configuration starts, and the log names the product that was inferred', () => {
        expect(gateway.log.find(({ key }) => key === 'protocol.productName')?.msg).toContain('is taken as Trino');
      });

      test('the clusters of the database are the same', async () => {
        expect(await clusters(gateway.url)).toEqual(await clusters(reference.url));
      });

      test(`${clientRequests.length} requests are decided alike`, async () => {
        const moved: unknown[] = [];
        const taken = new Set<string>();
        for (const request of clientRequests) {
          const there = engineOf((await submit(reference.url, request)).id);
          const here = engineOf((await submit(gateway.url, request)).id);
          taken.add(here);
          if (there !== here) moved.push({ ...request, there, here });
        }
        expect(moved).toEqual([]);
        expect([...taken].sort()).toEqual([...groups]);
      });

      test.each([
        ['begun there and followed up here', () => [reference.url, gateway.url] as const],
        ['begun here and followed up there', () => [gateway.url, reference.url] as const],
      ])('60 queries %s at once', async (_, urls) => {
        const [from, to] = urls();
        const failed: unknown[] = [];
        for (const request of clientRequests.slice(0, 60)) {
          const { id, next } = await submit(from, request);
          const response = await fetch(`${to}${next}`, { headers: request.headers });
          const text = await response.text();
          if (response.status !== 200 || !text.includes(id)) failed.push({ id, status: response.status, text });
        }
        expect(failed).toEqual([]);
      });

      test('both write the history of the same queries, which both list', async () => {
        const { id } = await submit(gateway.url, { headers: { 'X-Trino-User': 'ann' }, body: 'SELECT 42' });
        await expect
          .poll(async () => (await run([`select query_id from query_history where query_id = '${id}'`]))[0]?.length)
          .toBe(1);
        const history = await (await fetch(`${reference.url}/trino-gateway/api/queryHistory`)).json();
        expect(JSON.stringify(history)).toContain(id);
      });

      /** Calls in their order; a difference has its reason in docs/migration.md. */
      const calls: readonly (readonly [
        what: string,
        method: string,
        path: string,
        body: unknown,
        difference?: readonly [there: number, here: number],
      ])[] = [
        [
          'add a cluster by name and URL alone',
          'POST',
          '/gateway/backend/modify/add',
          { name: 'x', proxyTo: 'http://127.0.0.1:9' },
        ],
        [
          'update it',
          'POST',
          '/gateway/backend/modify/update',
          { name: 'x', proxyTo: 'http://127.0.0.1:9', active: 'false' },
        ],
        ['activate it', 'POST', '/gateway/backend/activate/x', undefined],
        ['deactivate it', 'POST', '/gateway/backend/deactivate/x', undefined],
        ['activate one that is not there', 'POST', '/gateway/backend/activate/none', undefined],
        ['all clusters', 'GET', '/gateway/backend/all', undefined],
        ['active clusters', 'GET', '/gateway/backend/active', undefined],
        [
          'an entity',
          'POST',
          '/entity?entityType=GATEWAY_BACKEND',
          { name: 'x', proxyTo: 'http://127.0.0.1:9', routingGroup: 'adhoc' },
        ],
        ['entities', 'GET', '/entity/GATEWAY_BACKEND', undefined],
        [
          "the web application's update",
          'POST',
          '/webapp/updateBackend',
          { name: 'x', proxyTo: 'http://127.0.0.1:9', active: false },
        ],
        ["the web application's history", 'POST', '/webapp/findQueryHistory', { page: '1', size: '10' }],
        ["the web application's rules", 'GET', '/webapp/getRoutingRules', undefined],
        ['the configuration of pages', 'GET', '/webapp/getUIConfiguration', undefined],
        ['public clusters', 'GET', '/api/public/backends', undefined],
        ['a public cluster', 'GET', '/api/public/backends/etl', undefined],
        ['the kind of login', 'POST', '/loginType', undefined],
        ['delete it', 'POST', '/gateway/backend/modify/delete', 'x'],
        ['delete nothing', 'POST', '/gateway/backend/modify/delete', ''],
        ['history by cluster', 'GET', '/trino-gateway/api/queryHistoryDistribution', undefined],
        ['alive', 'GET', '/trino-gateway/livez', undefined],
        ['ready', 'GET', '/trino-gateway/readyz', undefined],
      ];

      test('REST calls have the same status, but for the listed ones', async () => {
        const different: unknown[] = [];
        for (const [what, method, path, body, difference] of calls) {
          const there = (await send(`${reference.url}${path}`, method, body)).status;
          if (path.endsWith('/add')) await send(`${reference.url}/gateway/backend/modify/delete`, 'POST', 'x');
          const here = (await send(`${gateway.url}${path}`, method, body)).status;
          const [wantedThere, wantedHere] = difference ?? [there, there];
          if (there !== wantedThere || here !== wantedHere) different.push({ what, path, there, here });
        }
        expect(different).toEqual([]);
      });

      test('the way back: the reference alone goes on with what was written here', async () => {
        const { id, next } = await submit(gateway.url, clientRequests[0] as (typeof clientRequests)[number]);
        await gateway.stop();
        expect((await clusters(reference.url)).map(({ name }) => name)).toEqual([...groups]);
        const followed = await fetch(`${reference.url}${next}`, { headers: { 'X-Trino-User': 'ann' } });
        expect([followed.status, (await followed.text()).includes(id)]).toEqual([200, true]);
        const request = clientRequests[0] as (typeof clientRequests)[number];
        expect(engineOf((await submit(reference.url, request)).id)).toBe('etl');
      });
    },
  );
}
