import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterEach, describe, expect, test } from 'vitest';
import { type SimulatedEngine, startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import type { ExternalRulesOptions, ExternalRulesSettings } from '../../../src/gateway/external/externalRules.ts';
import { userAndQueryAnalyzer } from '../../../src/gateway/user/userExtractor.ts';
import { productNames } from '../../../src/model/names.ts';
import { noTrace, type RuleDecision, type RuleSet } from '../../../src/rules/decision.ts';
import { requestAnalysis } from '../../../src/sql/analyzeRequest.ts';
import { freePort } from '../../support/freePort.ts';
import {
  capturingLogger,
  closeAll,
  closing,
  clusterAt,
  defaultExternalRules,
  startGateway,
  startServer,
  type TestGatewayOptions,
  until,
} from '../../support/gateway.ts';
import { send } from '../../support/rawHttp.ts';
import { runQuery, submit } from '../../support/statementClient.ts';

afterEach(closeAll);

const engine = async (name: string): Promise<SimulatedEngine> =>
  closing(await startSimulatedEngine({ name, record: true, queuedPolls: 0 }));

interface Call {
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: Record<string, unknown>;
}

/** A rules service with given answers that records its requests. */
async function service(answer: (call: Call, request: IncomingMessage, response: ServerResponse) => unknown) {
  const calls: Call[] = [];
  const server = await startServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const call = { headers: request.headers, body: JSON.parse(Buffer.concat(chunks).toString()) };
      calls.push(call);
      const sent = answer(call, request, response);
      if (sent !== undefined) response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(sent));
    });
  });
  return { url: `${server.url}/decide?v=1`, calls, close: server.close };
}

const settings = (more: Partial<ExternalRulesSettings>) => ({
  settings: { ...defaultExternalRules.settings, ...more },
});

/** Two clusters, `adhoc` of the default group and `etl`, behind a gateway that asks a service. */
async function gatewayAsking(
  externalRules: Partial<ExternalRulesOptions> & { readonly url: string },
  more: Partial<TestGatewayOptions> = {},
) {
  const [adhoc, etl] = [await engine('adhoc'), await engine('etl')];
  const gateway = await startGateway({
    clusters: [clusterAt('adhoc', adhoc.url), clusterAt('etl', etl.url, { routingGroup: 'etl' })],
    externalRules,
    ...more,
  });
  const servedBy = async (headers: Record<string, string> = {}): Promise<string> => {
    const { id } = await runQuery(gateway.url, 'SELECT 1', { headers });
    return id.endsWith(etl.suffix) ? 'etl' : 'adhoc';
  };
  return { gateway, adhoc, etl, servedBy };
}

const header = { 'X-Engine-Routing-Group': 'etl' };
const counted = async (gateway: { registry: { metrics(): Promise<string> } }, outcome: string) =>
  Number(
    new RegExp(`external_rules_requests_total\\{outcome="${outcome}"\\} (\\d+)`).exec(
      await gateway.registry.metrics(),
    )?.[1] ?? 0,
  );

test('its group counts, not the header; log line and history say that it decided', async () => {
  const rules = await service(() => ({ routingGroup: 'etl' }));
  const { gateway, servedBy } = await gatewayAsking({ url: rules.url });
  expect(await servedBy({ 'X-Engine-Routing-Group': 'adhoc' })).toBe('etl');
  expect(gateway.log.find((line) => line.msg === 'query')).toMatchObject({ group: 'etl', decidedBy: 'external' });
  expect(JSON.parse(gateway.records[0]?.decision ?? '')).toEqual({
    times: expect.objectContaining({ receivedAt: expect.any(Number), submitted: expect.any(Number) }),
    ...{ strategy: 'only', candidates: [{ cluster: 'etl' }] },
    group: 'etl',
    decidedBy: 'external',
    external: { outcome: 'answered', routingGroup: 'etl' },
    cluster: 'etl',
    request: { text: 8, headers: { 'x-engine-user': 'test', 'x-engine-routing-group': 'adhoc' } },
  });
});

test('is asked once a submission, never for follow-ups, over kept connections', async () => {
  const ports = new Set<number | undefined>();
  const rules = await service((_call, request) => {
    ports.add(request.socket.remotePort);
    return { routingGroup: 'etl' };
  });
  const { servedBy } = await gatewayAsking({ url: rules.url });
  for (let query = 0; query < 5; query++) await servedBy();
  expect(rules.calls).toHaveLength(5);
  expect(ports.size).toBe(1);
});

test('receives the request in the documented form', async () => {
  const rules = await service(() => ({ routingGroup: 'etl' }));
  const { gateway } = await gatewayAsking({
    url: rules.url,
    ownCookies: ['session'],
    ...settings({ excludeHeaders: ['authorization'] }),
  });
  await send(gateway.url, '/v1/statement?x=1&x=2&y=%20', {
    method: 'POST',
    headers: [
      ...['X-Engine-User', 'alice', 'AUTHORIZATION', 'Basic c2VjcmV0', 'X-Tag', 'a', 'x-tag', 'b'],
      ...['Cookie', 'session=secret; other=1', 'Content-Type', 'text/plain'],
    ],
    body: 'SELECT 1',
  });
  const [call] = rules.calls;
  expect(call?.body).toEqual({
    headers: {
      'X-Engine-User': 'alice',
      'X-Trino-User': 'alice',
      'X-Tag': 'a, b',
      Cookie: 'other=1',
      'Content-Type': 'text/plain',
      Host: expect.stringMatching(/^127\.0\.0\.1:/),
      'Content-Length': '8',
      Connection: expect.anything(),
    },
    remoteUser: null,
    method: 'POST',
    requestURI: '/v1/statement',
    queryString: 'x=1&x=2&y=%20',
    session: null,
    remoteAddr: '127.0.0.1',
    remoteHost: '127.0.0.1',
    parameterMap: { x: ['1', '2'], y: [' '] },
  });
  expect(call?.headers).toMatchObject({
    'content-type': 'application/json',
    'x-engine-user': 'alice',
    'x-trino-user': 'alice',
    'x-tag': 'a, b',
    cookie: 'other=1',
  });
  expect(call?.headers).not.toHaveProperty('authorization');
  expect(call?.headers.host).not.toBe(new URL(gateway.url).host);
});

test('sendHttpHeaders: false keeps the client’s headers in the body alone', async () => {
  const rules = await service(() => ({ routingGroup: 'etl' }));
  const { servedBy } = await gatewayAsking({ url: rules.url, ...settings({ sendHttpHeaders: false }) });
  await servedBy();
  expect(rules.calls[0]?.headers).not.toHaveProperty('x-engine-user');
  expect(rules.calls[0]?.body.headers).toMatchObject({ 'X-Engine-User': 'test' });
});

test('receives user and query where requests are analysed', async () => {
  const names = productNames('Engine');
  const rules = await service(() => ({ routingGroup: 'etl' }));
  const { gateway } = await gatewayAsking(
    { url: rules.url, needsAnalysis: true },
    {
      analyzer: userAndQueryAnalyzer(
        { user: () => ({ user: 'alice', userInfo: { sub: 'a' } }) } as never,
        null,
        null,
        null,
        requestAnalysis({ names, maxBodySize: 1_000, clientsUseV2Format: false, cacheBytes: 0 }),
        capturingLogger([]),
      ),
    },
  );
  await submit(gateway.url, 'SELECT * FROM sales.orders', { headers: { 'X-Engine-Catalog': 'hive' } });
  expect(rules.calls[0]?.body).toMatchObject({
    EngineRequestUser: { user: 'alice', userInfo: '{"sub":"a"}' },
    EngineQueryProperties: {
      body: 'SELECT * FROM sales.orders',
      queryType: 'Query',
      resourceGroupQueryType: 'SELECT',
      tables: ['hive.sales.orders'],
      defaultCatalog: 'hive',
      defaultSchema: null,
      catalogs: ['hive'],
      schemas: ['sales'],
      catalogSchemas: ['hive.sales'],
      isNewQuerySubmission: true,
      isQueryParsingSuccessful: true,
      errorMessage: null,
    },
  });
});

test('its headers replace the client’s in any letter case, or are added', async () => {
  const rules = await service(() => ({
    routingGroup: 'etl',
    externalHeaders: {
      'x-engine-client-tags': 'batch',
      'X-Engine-Session': 'a=1',
      Host: 'evil',
      'Content-Length': '1',
    },
  }));
  const { gateway, etl } = await gatewayAsking({ url: rules.url });
  await submit(gateway.url, 'SELECT 1', { headers: { 'X-Engine-Client-Tags': 'mine' } });
  const sent = etl.requests[0]?.headers ?? {};
  expect(sent).toMatchObject({ 'x-engine-client-tags': 'batch', 'x-engine-session': 'a=1', 'content-length': '8' });
  expect(sent.host).toBe(new URL(etl.url).host);
  expect(JSON.parse(gateway.records[0]?.decision ?? '').external).toEqual({
    outcome: 'answered',
    routingGroup: 'etl',
    setHeaders: ['x-engine-client-tags', 'X-Engine-Session'],
  });
});

test('other paths that belong to no query are asked about, too', async () => {
  const rules = await service(() => ({ routingGroup: 'etl', externalHeaders: { 'X-Added': '1' } }));
  const { gateway, etl } = await gatewayAsking({ url: rules.url });
  expect((await send(gateway.url, '/v1/info')).status).toBe(200);
  expect(rules.calls[0]?.body).toMatchObject({ method: 'GET', requestURI: '/v1/info', queryString: null });
  expect(etl.requests[0]?.headers).toMatchObject({ 'x-added': '1' });
});

describe('errors', () => {
  const errors = ['no such project', 'ask the owner'];

  test('the default group, whatever header and group say', async () => {
    const rules = await service(() => ({ routingGroup: 'etl', errors }));
    const { gateway, servedBy } = await gatewayAsking({ url: rules.url });
    expect(await servedBy(header)).toBe('adhoc');
    expect(JSON.parse(gateway.records[0]?.decision ?? '')).toMatchObject({
      decidedBy: 'default',
      external: { outcome: 'errors', errors },
    });
  });

  test('an empty list as well, unless emptyErrors says otherwise', async () => {
    const rules = await service(() => ({ routingGroup: 'etl', errors: [] }));
    const strict = await gatewayAsking({ url: rules.url }, { settings: { propagateErrors: true } });
    expect(await strict.servedBy()).toBe('adhoc');
    const lenient = await gatewayAsking({ url: rules.url, ...settings({ emptyErrors: 'ignore' }) });
    expect(await lenient.servedBy()).toBe('etl');
  });

  test('propagateErrors reports the error to the client in its protocol, and forwards nothing', async () => {
    const rules = await service(() => ({ errors }));
    const { gateway, adhoc, etl } = await gatewayAsking({ url: rules.url }, { settings: { propagateErrors: true } });
    const answer = await submit(gateway.url, 'SELECT 1');
    expect(answer.error?.message).toBe(
      'The external rules service refused the request: no such project; ask the owner',
    );
    expect([...adhoc.requests, ...etl.requests]).toEqual([]);
  });

  test('propagateErrors answers 400 with the list, where statement errors go by HTTP', async () => {
    const rules = await service(() => ({ errors }));
    const more = { settings: { propagateErrors: true, statementErrors: 'http' } } as const;
    const { gateway } = await gatewayAsking({ url: rules.url }, more);
    const answer = await send(gateway.url, '/v1/statement', { method: 'POST', body: 'SELECT 1' });
    expect([answer.status, answer.headers['content-type'], JSON.parse(answer.text)]).toEqual([
      400,
      'application/json',
      errors,
    ]);
  });
});

describe('a service that does not do its work: header, then default group', () => {
  test.each<[string, (response: ServerResponse) => unknown, string]>([
    [
      'status 500',
      (response) => void response.writeHead(500).end('{"routingGroup":"adhoc"}'),
      'it answered status 500',
    ],
    [
      'status 201',
      (response) => void response.writeHead(201).end('{"routingGroup":"adhoc"}'),
      'it answered status 201',
    ],
    [
      'a redirect',
      (response) => void response.writeHead(302, { location: '/elsewhere' }).end(),
      'it answered status 302; redirects are not followed',
    ],
    ['no JSON', (response) => void response.writeHead(200).end('etl'), 'its answer is not JSON'],
    ['no group', () => ({ errors: null }), 'routingGroup does not name exactly one group'],
    ['a cut answer', (response) => void response.destroy(), 'it could not be asked: UND_ERR_SOCKET'],
    ['a hang', () => undefined, 'it did not answer within 300.00ms'],
    [
      'an answer that does not end',
      (response) => void response.writeHead(200).write('{"routingGroup":'),
      'it did not answer within 300.00ms',
    ],
    [
      'an endless answer',
      (response) => void response.writeHead(200).end(Buffer.alloc(70_000, 0x20)),
      'its answer is longer than 65536 bytes',
    ],
  ])('%s', async (_name, answer, reason) => {
    const rules = await service((_call, _request, response) => answer(response));
    const { gateway, servedBy } = await gatewayAsking({
      url: rules.url,
      requestTimeout: reason.startsWith('it did not answer') ? 300 : 10_000,
    });
    expect(await servedBy(header)).toBe('etl');
    expect(await servedBy()).toBe('adhoc');
    expect(gateway.log.find((line) => line.msg === 'the external rules service failed')).toMatchObject({ reason });
    expect(await counted(gateway, 'failed')).toBe(2);
    expect(JSON.parse(gateway.records[0]?.decision ?? '')).toMatchObject({
      decidedBy: 'header',
      external: { outcome: 'failed', reason },
    });
  });

  test('an answer that is not valid is not used, whatever is wrong with it', async () => {
    const group = '"routingGroup":"etl"';
    const oneGroup = 'routingGroup does not name exactly one group';
    const answers: readonly (readonly [answer: string, reason: string])[] = [
      ['', 'its answer is not JSON'],
      ...['"etl"', 'null', `[{${group}}]`].map((text) => [text, 'its answer is not a JSON object'] as const),
      ...['null', '""', '"  "', '["etl","adhoc"]', '7'].map(
        (value) => [`{"routingGroup":${value}}`, oneGroup] as const,
      ),
      ...['"no"', '[1]'].map(
        (value) => [`{${group},"errors":${value}}`, 'errors is neither null nor an array of texts'] as const,
      ),
      [`{${group},"externalHeaders":[]}`, 'externalHeaders is not an object'],
      [`{${group},"externalHeaders":{"A":null}}`, 'externalHeaders.A is not a text'],
      [
        `{${group},"externalHeaders":{"A":"b\\r\\nX-User: root"}}`,
        'externalHeaders.A holds characters that no header can',
      ],
      ...['A\\r\\nB', ''].map(
        (name) =>
          [
            `{${group},"externalHeaders":{"${name}":"c"}}`,
            'externalHeaders holds a name that cannot be a header name',
          ] as const,
      ),
      [`{"errors":[${'"e",'.repeat(5_000)}"e"]}`, 'its answer has more than 5000 values'],
      [`${'['.repeat(101)}${']'.repeat(101)}`, 'its answer is nested more than 100 levels deep'],
      [
        `{${group},"externalHeaders":{"A":"${'b'.repeat(65_400)}","B":"${'b'.repeat(200)}"}}`,
        'externalHeaders is longer than 65536 characters',
      ],
    ];
    let text = '';
    const rules = await service((_call, _request, response) => void response.writeHead(200).end(text));
    const lenient = { ...settings({ failureThreshold: 1_000 }), maxResponseContentLength: 1_000_000 };
    const { gateway, servedBy } = await gatewayAsking({ url: rules.url, ...lenient });
    for (const [answer, reason] of answers) {
      text = answer;
      expect(await servedBy()).toBe('adhoc');
      const { external } = JSON.parse(gateway.records.at(-1)?.decision ?? '');
      expect([answer.slice(0, 60), external]).toEqual([answer.slice(0, 60), { outcome: 'failed', reason }]);
    }
    // Connection headers of a valid one are left out.
    text = `{${group},"errors":null,"version":2,"externalHeaders":{"Upgrade":"h2c","Via":"1.1 x","X-Forwarded-Host":"evil"}}`;
    expect(await servedBy()).toBe('etl');
  });

  test('nobody listens', async () => {
    const { servedBy } = await gatewayAsking({ url: `http://127.0.0.1:${await freePort()}/` });
    expect(await servedBy(header)).toBe('etl');
  });

  test('after failures in a row it is left alone', async () => {
    const rules = await service((_call, _request, response) => void response.writeHead(503).end());
    const { gateway, servedBy } = await gatewayAsking({ url: rules.url, ...settings({ failureThreshold: 3 }) });
    for (let query = 0; query < 6; query++) expect(await servedBy()).toBe('adhoc');
    expect(rules.calls).toHaveLength(3);
    expect([await counted(gateway, 'failed'), await counted(gateway, 'skipped')]).toEqual([3, 3]);
    expect(await gateway.registry.metrics()).toContain('engine_gateway_external_rules_circuit_open 1');
    expect(JSON.parse(gateway.records[5]?.decision ?? '').external).toEqual({
      outcome: 'skipped',
      reason: 'it answered status 503',
    });
  });

  test('once it is well again, it decides again', async () => {
    let ill = true;
    const rules = await service((_call, _request, response) =>
      ill ? void response.writeHead(503).end() : { routingGroup: 'etl' },
    );
    const { gateway, servedBy } = await gatewayAsking({
      url: rules.url,
      ...settings({ failureThreshold: 1, retryAfter: 100 }),
    });
    expect(await servedBy()).toBe('adhoc');
    ill = false;
    await until(async () => (await servedBy()) === 'etl', 'the service decides');
    expect(gateway.log.map((line) => line.msg)).toContain('external rules service available again');
  });
});

test('a declarative deny is final, and the service is not asked', async () => {
  const denied: RuleDecision = {
    routingGroup: null,
    cluster: null,
    rule: null,
    denied: { rule: 'no-drops', message: 'not here' },
    rejected: null,
    onUnavailable: 'fallback',
    useHeader: false,
    trace: noTrace,
  };
  const rules: RuleSet = { needsAnalysis: false, decide: () => denied };
  const asked = await service(() => ({ routingGroup: 'etl' }));
  const { gateway } = await gatewayAsking({ url: asked.url }, { rules });
  expect((await submit(gateway.url, 'DROP TABLE a')).error?.message).toBe('not here');
  expect(asked.calls).toEqual([]);
});
