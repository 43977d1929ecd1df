import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { type SimulatedEngine, startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { requireComponent } from '../support/components.ts';
import type { ServerDatabase } from '../support/databases.ts';
import { freePort } from '../support/freePort.ts';
import { closeAll, startServer } from '../support/gateway.ts';
import { type GatewayProcess, startGatewayWithFile } from '../support/gatewayProcess.ts';
import { families } from '../support/referenceDatabases.ts';
import { configuration } from './installation.ts';
import { missingReferenceTools, RELEASE, type ReferenceGateway, startReference } from './referenceGateway.ts';

const missing = await missingReferenceTools();
const canRun = requireComponent(missing.join(', '), missing.length === 0, 'the suite runs the released Trino Gateway');
const family = families.find(({ name, available }) => name === 'postgresql' && available());

/** A request to both gateways, and what the service answers. */
interface Asked {
  readonly what: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
  readonly answer?: object;
  /** Clusters there and here, where the page of differences has another one here. */
  readonly differs?: readonly [there: string, here: string];
}

const catalog = { 'X-Trino-Catalog': 'hive', 'X-Trino-Schema': 'web' };
const form = { 'content-type': 'application/x-www-form-urlencoded' };
const requests: readonly Asked[] = [
  { what: 'a query', body: 'SELECT * FROM tpch.tiny.orders' },
  { what: 'a query with a default schema', headers: catalog, body: 'INSERT INTO t SELECT * FROM events' },
  { what: 'a name that is not qualified', body: 'SELECT * FROM events' },
  { what: 'a statement that is not SQL', body: 'SELEC' },
  { what: 'parameters', path: '/v1/statement?a=1&a=2&b=%20&c=&d', body: 'SELECT 1' },
  { what: 'a form', path: '/v1/statement?a=1', headers: form, body: 'a=2&q=SELECT+1' },
  { what: 'errors: []', body: 'SELECT 1', answer: { routingGroup: 'etl', errors: [] } },
  {
    what: 'errors',
    body: 'SELECT 1',
    answer: { routingGroup: 'etl', errors: ['no'] },
    differs: ['etl', 'adhoc'],
  },
];

/** Sets in one order, and mistakes without the words that a parser would have taken, which are those of its version. */
function comparable(sent: Record<string, unknown>): Record<string, unknown> {
  const { trinoQueryProperties, ...rest } = sent;
  const { errorMessage, ...properties } = trinoQueryProperties as { readonly errorMessage?: string };
  const message = errorMessage === undefined ? {} : { errorMessage: errorMessage.split('. Expecting')[0] };
  const ordered = Object.entries(properties).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.toSorted() : value,
  ]);
  return { ...rest, trinoQueryProperties: { ...Object.fromEntries(ordered), ...message } };
}

describe.skipIf(!canRun || family === undefined)(
  `the external rules service of release ${RELEASE} and of this gateway`,
  () => {
    let folder: string;
    let server: ServerDatabase;
    let reference: ReferenceGateway;
    let gateway: GatewayProcess;
    const engines: SimulatedEngine[] = [];
    let answer: object = {};
    const bodies: Record<string, unknown>[] = [];

    beforeAll(async () => {
      if (family === undefined) return;
      folder = mkdtempSync(join(tmpdir(), 'external-rules-'));
      const service = await startServer((request, response) => {
        const chunks: Buffer[] = [];
        request.on('data', (chunk: Buffer) => chunks.push(chunk));
        request.on('end', () => {
          bodies.push(JSON.parse(Buffer.concat(chunks).toString()));
          response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
        });
      });
      server = await family.start();
      const settings = await server.create();
      const [oldPort, newPort] = [await freePort(), await freePort()];
      const routingRules = {
        rulesEngineEnabled: true,
        rulesType: 'EXTERNAL',
        // Without `excludeHeaders` the release asks nobody, without a word.
        rulesExternalConfiguration: { urlPath: service.url, excludeHeaders: ['Authorization'] },
      };
      const [oldFile, newFile] = [join(folder, 'old.yaml'), join(folder, 'new.yaml')];
      writeFileSync(oldFile, stringify({ ...configuration(settings, oldPort, ''), routingRules }));
      const spill = { queryHistory: { spillDirectory: join(folder, 'spill') } };
      const protocol = { productName: 'Trino' };
      writeFileSync(newFile, stringify({ ...configuration(settings, newPort, ''), routingRules, protocol, ...spill }));
      reference = await startReference(RELEASE, oldFile, oldPort);
      for (const name of ['adhoc', 'etl']) {
        const engine = await startSimulatedEngine({ name, productName: 'Trino' });
        engines.push(engine);
        const headers = { 'content-type': 'application/json' };
        const body = JSON.stringify({ name, proxyTo: engine.url, active: true, routingGroup: name });
        const added = await fetch(`${reference.url}/gateway/backend/modify/add`, { method: 'POST', headers, body });
        expect(added.status).toBe(200);
      }
      gateway = await startGatewayWithFile(newFile);
      for (const { url } of [reference, gateway]) {
        await vi.waitFor(
          async () => {
            const headers = { 'content-type': 'application/json' };
            const listed = await fetch(`${url}/webapp/getAllBackends`, { method: 'POST', headers, body: '{}' });
            const { data } = (await listed.json()) as { data: { status: string }[] };
            expect(data.map(({ status }) => status)).toEqual(['HEALTHY', 'HEALTHY']);
          },
          { timeout: 90_000, interval: 200 },
        );
      }
    }, 400_000);
    afterAll(async () => {
      await gateway?.stop();
      await reference?.stop();
      await server?.dispose();
      for (const engine of engines) await engine.close();
      await closeAll();
      if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
    }, 120_000);

    /** What the service was sent, and the cluster that took the query. */
    async function decide(url: string, { path = '/v1/statement', headers = {}, body }: Asked) {
      bodies.length = 0;
      const init = { method: 'POST', headers: { 'X-Trino-User': 'ann', ...headers }, body };
      const { id } = (await (await fetch(`${url}${path}`, init)).json()) as { id: string };
      const cluster = ['adhoc', 'etl'].find((_, index) => id.endsWith(`_${engines[index]?.suffix}`));
      return { sent: bodies[0] ?? {}, cluster };
    }

    test.each(requests)('$what: the service gets all fields that it got, and decides alike', async (request) => {
      answer = request.answer ?? { routingGroup: 'etl', errors: null };
      const there = await decide(reference.url, request);
      const here = await decide(gateway.url, request);
      expect(Object.keys(there.sent)).toContain('trinoQueryProperties');
      const ours = Object.fromEntries(Object.keys(there.sent).map((field) => [field, here.sent[field]]));
      expect(comparable(ours)).toEqual(comparable(there.sent));
      expect(here.sent.parameterMap).toEqual(there.sent.parameters);
      expect([there.cluster, here.cluster]).toEqual(request.differs ?? [there.cluster, there.cluster]);
    });
  },
);
