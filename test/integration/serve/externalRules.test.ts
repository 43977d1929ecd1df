import { afterEach, expect, test } from 'vitest';
import { closeAll, startServer } from '../../support/gateway.ts';
import { runQuery } from '../../support/statementClient.ts';
import { addCluster, call, ready, worldOf } from '../../support/world.ts';

const world = worldOf('test');
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
  const engine = await world.engine({ name: 'etl', productName: 'Trino', queuedPolls: 0 });
  const gateway = await world.start({
    protocol: { productName: 'Trino' },
    resources: { source: 'database' },
    requestAnalyzerConfig: { analyzeRequest: true },
    routingRules: {
      rulesEngineEnabled: true,
      rulesType: 'EXTERNAL',
      rulesExternalConfiguration: { urlPath: service.url },
    },
  });
  const added = await call(gateway, 'POST', '/gateway/backend/modify/add', {
    ...{ name: 'etl', proxyTo: engine.url, routingGroup: 'etl' },
  });
  expect(added.status).toBe(200);
  await ready(gateway);

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
  const engine = await world.engine({ name: 'etl', queuedPolls: 0 });
  const other = await world.engine({ name: 'adhoc', queuedPolls: 0 });
  const gateway = await world.start({
    resources: { source: 'database' },
    routingRules: {
      rulesEngineEnabled: true,
      rulesType: 'EXTERNAL',
      rulesExternalConfiguration: { urlPath: service.url, failureThreshold: 1 },
    },
  });
  for (const { name, url } of [engine, other]) await addCluster(gateway, name, url, name);
  await ready(gateway);
  const readiness = async () => (await call(gateway, 'GET', '/readyz?verbose')).text;

  expect((await runQuery(gateway.url, 'SELECT 1')).id).toMatch(new RegExp(`_${engine.suffix}$`));
  expect(await readiness()).toContain('external rules service');
  ill = true;
  expect((await runQuery(gateway.url, 'SELECT 1')).id).toMatch(new RegExp(`_${other.suffix}$`));
  expect(await readiness()).toContain(
    'left alone for a while, header and default group decide: it answered status 500',
  );
});
