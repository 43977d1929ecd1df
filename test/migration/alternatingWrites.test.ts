import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { requireComponent } from '../support/components.ts';
import type { ServerDatabase } from '../support/databases.ts';
import { freePort } from '../support/freePort.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { families } from '../support/referenceDatabases.ts';
import { missingReferenceTools, RELEASE, type ReferenceGateway, startReference } from './referenceGateway.ts';

const missing = await missingReferenceTools();
const canRun = requireComponent(missing.join(', '), missing.length === 0, 'the suite runs the released Trino Gateway');

interface Cluster {
  readonly name: string;
  readonly proxyTo: string;
  readonly active: boolean;
  readonly routingGroup: string;
  readonly externalUrl: string;
}

const cluster = (name: string, more: Partial<Cluster> = {}): Cluster => {
  const proxyTo = more.proxyTo ?? `http://127.0.0.1:9/${name}`;
  return { name, proxyTo, active: true, routingGroup: 'adhoc', externalUrl: proxyTo, ...more };
};

for (const family of families) {
  describe.skipIf(!canRun || !family.available())(
    `REST writes at release ${RELEASE} and at this gateway in turn, on ${family.name}, with resources.source: database`,
    () => {
      let folder: string;
      let server: ServerDatabase;
      let reference: ReferenceGateway;
      let gateway: GatewayProcess;
      let startOurs: () => Promise<GatewayProcess>;

      const send = async (url: string, path: string, body?: unknown): Promise<void> => {
        const headers = { 'content-type': typeof body === 'string' ? 'text/plain' : 'application/json' };
        const text = typeof body === 'string' ? body : JSON.stringify(body);
        const init = body === undefined ? { method: 'POST' } : { method: 'POST', headers, body: text };
        const response = await fetch(`${url}/gateway/backend/${path}`, init);
        expect(response.status, `${path}: ${await response.text()}`).toBe(200);
      };
      const there = (path: string, body?: unknown) => send(reference.url, path, body);
      const here = (path: string, body?: unknown) => send(gateway.url, path, body);
      const listed = async (url: string): Promise<readonly Cluster[]> => {
        const clusters = (await (await fetch(`${url}/gateway/backend/all`)).json()) as Cluster[];
        return clusters
          .map(({ name, proxyTo, active, routingGroup, externalUrl }) => ({
            ...{ name, proxyTo, active, routingGroup, externalUrl },
          }))
          .toSorted((a, b) => (a.name < b.name ? -1 : 1));
      };
      /** Waits until both list these. */
      const bothList = (...clusters: readonly Cluster[]): Promise<void> =>
        vi.waitFor(
          async () => {
            expect({ here: await listed(gateway.url), there: await listed(reference.url) }).toEqual({
              here: clusters,
              there: clusters,
            });
          },
          { timeout: 60_000, interval: 100 },
        );
      const metrics = async () => (await fetch(`${gateway.url}/metrics`)).text();
      const putBack = () =>
        gateway.log.filter(({ msg }) => String(msg).includes('change of gateway_backend overwritten'));

      beforeAll(async () => {
        folder = mkdtempSync(join(tmpdir(), 'alternating-'));
        server = await family.start();
        const { jdbcUrl, user, password } = await server.create();
        const oldPort = await freePort();
        const oldFile = join(folder, 'old.yaml');
        const common = { clusterStatsConfiguration: { monitorType: 'INFO_API' } };
        const dataStore = {
          jdbcUrl: jdbcUrl.replace('jdbc:mariadb:', 'jdbc:mysql:'),
          user,
          password,
          driver: family.name === 'mysql' ? 'com.mysql.cj.jdbc.Driver' : 'org.postgresql.Driver',
          queryHistoryHoursRetention: 24,
          runMigrationsEnabled: true,
        };
        const serverConfig = { 'node.environment': 'test', 'http-server.http.port': oldPort };
        writeFileSync(oldFile, stringify({ ...common, dataStore, serverConfig }));
        reference = await startReference(RELEASE, oldFile, oldPort);
        startOurs = () =>
          startGateway({
            ...common,
            protocol: { productName: 'Trino' },
            dataStore,
            queryHistory: { spillDirectory: join(folder, 'spill') },
            resources: { source: 'database' },
          });
        gateway = await startOurs();
      }, 400_000);
      afterAll(async () => {
        await gateway?.stop();
        await reference?.stop();
        await server?.dispose();
        rmSync(folder, { recursive: true, force: true });
      }, 120_000);

      test('each sees what the other wrote: add, update, activate, deactivate, delete', async () => {
        await there('modify/add', cluster('a'));
        await there('modify/add', cluster('b'));
        await bothList(cluster('a'), cluster('b'));
        await here('modify/update', cluster('a', { routingGroup: 'etl' }));
        await bothList(cluster('a', { routingGroup: 'etl' }), cluster('b'));
        await there('deactivate/a');
        await bothList(cluster('a', { routingGroup: 'etl', active: false }), cluster('b'));
        await here('modify/update', cluster('b', { proxyTo: 'http://127.0.0.1:10' }));
        await here('activate/a');
        await there('modify/update', cluster('b', { proxyTo: 'http://127.0.0.1:11', routingGroup: 'large' }));
        await there('modify/update', cluster('a', { routingGroup: 'etl', proxyTo: 'http://127.0.0.1:12' }));
        const a = cluster('a', { routingGroup: 'etl', proxyTo: 'http://127.0.0.1:12' });
        await bothList(a, cluster('b', { proxyTo: 'http://127.0.0.1:11', routingGroup: 'large' }));
        await there('modify/delete', 'b');
        await bothList(a);
        await there('modify/add', cluster('c'));
        await bothList(a, cluster('c'));
        await here('deactivate/c');
        await there('activate/c');
        await bothList(a, cluster('c'));
        await here('modify/delete', 'a');
        await bothList(cluster('c'));
        expect(putBack()).toEqual([]);
      });

      test('twelve updates of one field in turn: each is the last word until the next', async () => {
        for (let turn = 0; turn < 12; turn += 1) {
          const next = cluster('c', { routingGroup: `turn-${turn}` });
          await (turn % 2 === 0 ? there : here)('modify/update', next);
          await bothList(next);
        }
        expect(putBack()).toEqual([]);
      });

      test('forty writes of different fields without a pause: none is lost', async () => {
        for (let turn = 0; turn < 20; turn += 1) {
          await there(`${turn % 2 === 0 ? 'deactivate' : 'activate'}/c`);
          // As clients do: what is listed, with a change.
          const [present] = await listed(gateway.url);
          await here('modify/update', { ...present, routingGroup: `fast-${turn}` });
        }
        await there('deactivate/c');
        await bothList(cluster('c', { active: false, routingGroup: 'fast-19' }));
        expect(putBack()).toEqual([]);
      });

      test('writes there while this gateway is stopped are taken over when it starts', async () => {
        await here('modify/add', cluster('d'));
        await here('modify/add', cluster('e'));
        await bothList(cluster('c', { active: false, routingGroup: 'fast-19' }), cluster('d'), cluster('e'));
        await gateway.stop();
        await there('activate/c');
        await there('modify/update', cluster('d', { routingGroup: 'etl' }));
        await there('modify/delete', 'e');
        await there('modify/add', cluster('f'));
        gateway = await startOurs();
        await bothList(cluster('c', { routingGroup: 'fast-19' }), cluster('d', { routingGroup: 'etl' }), cluster('f'));
        expect(putBack()).toEqual([]);
        await expect
          .poll(async () => /foreign_writes_total\{outcome="adopted"\} (\d+)/.exec(await metrics())?.[1])
          .toBe('3');
      });
    },
  );
}
