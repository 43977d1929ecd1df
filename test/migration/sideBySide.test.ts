import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { type SimulatedEngine, startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { requireComponent } from '../support/components.ts';
import type { ServerDatabase } from '../support/databases.ts';
import { freePort } from '../support/freePort.ts';
import { type GatewayProcess, startGatewayWithFile } from '../support/gatewayProcess.ts';
import { families } from '../support/referenceDatabases.ts';
import { clientRequests, configuration, rulesFile } from './installation.ts';
import { listedDifferences } from './listedDifferences.ts';
import { endpointsWithout } from './referenceEndpoints.ts';
import { missingReferenceTools, RELEASE, type ReferenceGateway, startReference } from './referenceGateway.ts';
import { registryCalls } from './registryCalls.ts';
import {
  compareJson,
  type Differences,
  differencesOf,
  get,
  nameOf,
  post,
  type RestCall,
  type RestResponse,
  sendCall,
} from './restCall.ts';

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

const dataOf = (answer: RestResponse | undefined): unknown =>
  answer !== undefined && 'json' in answer.body ? answer.body.json : answer;

test.skipIf(!canRun)(`every endpoint of release ${RELEASE} has calls`, async () => {
  expect(await endpointsWithout(registryCalls, RELEASE)).toEqual([]);
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

      const engineOf = (id: string): string => {
        for (const [name, engine] of engines) if (id.endsWith(`_${engine.suffix}`)) return name;
        return `none of the engines gave ${id}`;
      };
      const clusters = async (url: string) =>
        ((await (await fetch(`${url}/gateway/backend/all`)).json()) as { name: string }[]).toSorted((a, b) =>
          a.name < b.name ? -1 : 1,
        );

      const healthy = (url: string) =>
        vi.waitFor(
          async () => {
            const answer = (await (await send(`${url}/webapp/getAllBackends`, 'POST', {})).json()) as {
              data: { name: string; status: string }[];
            };
            expect(answer.data.map(({ status }) => status)).toEqual(groups.map(() => 'HEALTHY'));
          },
          { timeout: 90_000, interval: 200 },
        );
      /** Queries of the history, on one cluster after the other. */
      const historyRows = (created: number) =>
        [0, 1, 2, 3].map((index) => {
          const group = groups[index % groups.length] as (typeof groups)[number];
          const columns = 'query_id, query_text, created, backend_url, user_name, source, routing_group, external_url';
          const source = index === 1 ? "'cli'" : 'null';
          const texts = `'${engines.get(group)?.url}', '${index === 0 ? 'ann' : 'bob'}', ${source}, '${group}', 'http://${group}.example'`;
          return `insert into query_history (${columns}) values ('20261121_015745_0000${index}_aaaaa', 'select ${index}', ${created + index}, ${texts})`;
        });

      beforeAll(async () => {
        folder = mkdtempSync(join(tmpdir(), 'side-by-side-'));
        const rulesPath = join(folder, 'rules.yaml');
        writeFileSync(rulesPath, rulesFile);
        server = await family.start();
        const settings = await server.create();
        run = family.runner(settings);
        for (const name of groups) engines.set(name, await startSimulatedEngine({ name, productName: 'Trino' }));
        const [oldPort, newPort] = [await freePort(), await freePort()];
        const oldFile = join(folder, 'old.yaml');
        const newFile = join(folder, 'new.yaml');
        writeFileSync(oldFile, stringify(configuration(settings, oldPort, rulesPath)));
        // The one key that both at once need, for follow-ups there of queries begun here.
        const beside = { queryHistory: { writeBeforeAnswer: true, spillDirectory: join(folder, 'spill') } };
        writeFileSync(newFile, stringify({ ...configuration(settings, newPort, rulesPath), ...beside }));
        reference = await startReference(RELEASE, oldFile, oldPort);
        for (const [name, { url }] of engines) {
          const body = { name, proxyTo: url, active: true, routingGroup: name };
          expect((await send(`${reference.url}/gateway/backend/modify/add`, 'POST', body)).status).toBe(200);
        }
        gateway = await startGatewayWithFile(newFile);
        for (const url of [reference.url, gateway.url]) await healthy(url);
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

      test('the way back: the reference alone goes on with what was written here', async () => {
        const { id, next } = await submit(gateway.url, clientRequests[0] as (typeof clientRequests)[number]);
        await gateway.stop();
        expect((await clusters(reference.url)).map(({ name }) => name)).toEqual([...groups]);
        const followed = await fetch(`${reference.url}${next}`, { headers: { 'X-Trino-User': 'ann' } });
        expect([followed.status, (await followed.text()).includes(id)]).toEqual([200, true]);
        const request = clientRequests[0] as (typeof clientRequests)[number];
        expect(engineOf((await submit(reference.url, request)).id)).toBe('etl');
      });

      test(`${registryCalls.length} REST calls differ as documented, in answers and clusters`, async () => {
        // A database of its own with the same rows: calls change them, and later ones see what earlier ones changed.
        const settings = await server.create();
        const port = await freePort();
        const [file, rulesPath] = [join(folder, 'apart.yaml'), join(folder, 'apart-rules.yaml')];
        writeFileSync(rulesPath, rulesFile);
        const spill = { queryHistory: { spillDirectory: join(folder, 'apart') } };
        writeFileSync(file, stringify({ ...configuration(settings, port, rulesPath), ...spill }));
        gateway = await startGatewayWithFile(file);
        const created = Math.floor(Date.now() / 60_000) * 60_000 - 120_000;
        for (const [url, runOn] of [
          [reference.url, run],
          [gateway.url, family.runner(settings)],
        ] as const) {
          for (const [name, engine] of engines) {
            const cluster = {
              name,
              proxyTo: engine.url,
              active: true,
              routingGroup: name,
              externalUrl: `http://${name}.example`,
            };
            expect((await send(`${url}/gateway/backend/modify/update`, 'POST', cluster)).status).toBe(200);
          }
          await runOn(['delete from query_history', ...historyRows(created)]);
          await healthy(url);
        }
        const plain = (text: string) => {
          let result = text;
          for (const [name, { url }] of engines) result = result.replaceAll(url, `http://${name}`);
          return result;
        };
        const found: Record<string, Differences> = {};
        for (const call of registryCalls) {
          const both = (sent: RestCall) =>
            Promise.all([reference, gateway].map(({ url }) => sendCall(url, sent, plain)));
          const [there, here] = (await both(call)) as [RestResponse, RestResponse];
          const differences = { ...differencesOf(call, there, here) };
          if (/^POST .(?:gateway|entity|webapp.\w+Backend$)/.test(`${call.method} ${call.path}`)) {
            const [old, own] = await both(get('/gateway/backend/all', 'clusters'));
            compareJson('clusters', dataOf(old), dataOf(own), differences);
          }
          for (const name of call.leaves ?? []) {
            const cleared = await both(post('/gateway/backend/modify/delete', 'clean up', name));
            expect(cleared, `after ${nameOf(call)}`).toMatchObject([{ status: 200 }, { status: 200 }]);
          }
          if (Object.keys(differences).length > 0) found[nameOf(call)] = differences;
        }
        expect(found).toEqual(listedDifferences(RELEASE, family.name, registryCalls));
      });
    },
  );
}
