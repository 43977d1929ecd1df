import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { closeAll, closing, startServer } from '../../support/gateway.ts';
import { startGateway } from '../../support/gatewayProcess.ts';
import { runQuery } from '../../support/statementClient.ts';

afterEach(closeAll);

test('with productName Trino the service gets what Trino Gateway sends, and an empty list of errors is none', async () => {
  const bodies: Record<string, unknown>[] = [];
  const service = await startServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      bodies.push(JSON.parse(Buffer.concat(chunks).toString()));
      response.writeHead(200).end('{"routingGroup":"etl","errors":[]}');
    });
  });
  const engine = closing(await startSimulatedEngine({ name: 'etl', productName: 'Trino', queuedPolls: 0 }));
  const folder = await mkdtemp(join(tmpdir(), 'external-rules-'));
  closing({ close: () => rm(folder, { recursive: true, force: true }) });
  const gateway = await startGateway({
    protocol: { productName: 'Trino' },
    dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
    requestAnalyzerConfig: { analyzeRequest: true },
    routingRules: {
      rulesEngineEnabled: true,
      rulesType: 'EXTERNAL',
      rulesExternalConfiguration: { urlPath: service.url },
    },
  });
  closing({ close: () => gateway.stop() });
  const added = await fetch(`${gateway.url}/gateway/backend/modify/add`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'etl', proxyTo: engine.url, routingGroup: 'etl' }),
  });
  expect(added.status).toBe(200);
  await expect.poll(async () => (await fetch(`${gateway.url}/readyz`)).status).toBe(200);

  const answer = await fetch(`${gateway.url}/v1/statement?a=1&a=2&b=%20`, {
    method: 'POST',
    headers: { 'X-Trino-User': 'ann', 'X-Trino-Catalog': 'hive', 'X-Trino-Schema': 'web' },
    body: 'SELECT * FROM events',
  });
  expect(((await answer.json()) as { id: string }).id).toMatch(new RegExp(`_${engine.suffix}$`));
  const [body] = bodies;
  expect(body).toMatchObject({
    contentType: 'application/json',
    method: 'POST',
    requestURI: '/v1/statement',
    queryString: 'a=1&a=2&b=%20',
    parameters: { a: ['1', '2'], b: [' '] },
    trinoRequestUser: { user: 'ann' },
    trinoQueryProperties: {
      body: 'SELECT * FROM events',
      queryType: 'Query',
      resourceGroupQueryType: 'SELECT',
      tables: ['hive.web.events'],
      defaultCatalog: 'hive',
      defaultSchema: 'web',
      catalogs: ['hive'],
      schemas: ['web'],
      catalogSchemas: ['hive.web'],
      isNewQuerySubmission: true,
      isQueryParsingSuccessful: true,
    },
  });
  expect(body?.parameterMap).toEqual(body?.parameters);
  expect(body?.TrinoRequestUser).toEqual(body?.trinoRequestUser);
  expect(body?.TrinoQueryProperties).toEqual(body?.trinoQueryProperties);
});

test('rulesType EXTERNAL has the service decide; /readyz?verbose reports when it is not called', async () => {
  let ill = false;
  const service = await startServer((request, response) => {
    request.resume().on('end', () => {
      if (ill) response.writeHead(500).end();
      else response.writeHead(200).end('{"routingGroup":"etl"}');
    });
  });
  const engine = closing(await startSimulatedEngine({ name: 'etl', queuedPolls: 0 }));
  const other = closing(await startSimulatedEngine({ name: 'adhoc', queuedPolls: 0 }));
  const folder = await mkdtemp(join(tmpdir(), 'external-rules-'));
  closing({ close: () => rm(folder, { recursive: true, force: true }) });
  const gateway = await startGateway({
    dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
    routingRules: {
      rulesEngineEnabled: true,
      rulesType: 'EXTERNAL',
      rulesExternalConfiguration: { urlPath: service.url, failureThreshold: 1 },
    },
  });
  closing({ close: () => gateway.stop() });
  const json = { 'content-type': 'application/json' };
  for (const [name, { url }] of Object.entries({ etl: engine, adhoc: other })) {
    const body = JSON.stringify({ name, proxyTo: url, active: true, routingGroup: name });
    const added = await fetch(`${gateway.url}/gateway/backend/modify/add`, { method: 'POST', headers: json, body });
    expect(added.status).toBe(200);
  }
  await expect.poll(async () => (await fetch(`${gateway.url}/readyz`)).status).toBe(200);
  const ready = async () => await (await fetch(`${gateway.url}/readyz?verbose`)).text();

  expect((await runQuery(gateway.url, 'SELECT 1')).id).toMatch(new RegExp(`_${engine.suffix}$`));
  expect(await ready()).toContain('external rules service');
  ill = true;
  expect((await runQuery(gateway.url, 'SELECT 1')).id).toMatch(new RegExp(`_${other.suffix}$`));
  expect(await ready()).toContain('left alone for a while, header and default group decide: it answered status 500');
});
