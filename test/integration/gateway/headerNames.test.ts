/** Clients that name the headers of the engine protocol X-Engine-* or X-Trino-*, and clusters that read one or both. */
import { afterEach, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { type ClusterHeaderChoice, productNames } from '../../../src/model/names.ts';
import {
  closeAll,
  closing,
  clusterAt,
  defaultExternalRules,
  startGateway,
  startServer,
  type TestGatewayOptions,
} from '../../support/gateway.ts';
import { send, valuesOf } from '../../support/rawHttp.ts';
import { runQuery } from '../../support/statementClient.ts';

afterEach(closeAll);

/** A cluster that keeps the header lines of requests, behind a gateway. */
async function setting(answer: readonly string[] = [], more: Partial<TestGatewayOptions> = {}) {
  const seen: (readonly string[])[] = [];
  const cluster = await startServer((request, response) => {
    seen.push(request.rawHeaders);
    response
      .writeHead(200, ['Content-Type', 'application/json', ...answer])
      .end('{"id":"20260101_000000_00000_aaaaa"}');
  });
  const gateway = await startGateway({ clusters: [clusterAt('a', cluster.url)], ...more });
  const post = (headers: readonly string[]) =>
    send(gateway.url, '/v1/statement', { method: 'POST', headers, body: 'SELECT 1' });
  return { post, seen, gateway };
}

/** Values that a cluster got of a header, by the product of its name. */
const valuesAt = (lines: readonly string[] | undefined, suffix: string) =>
  Object.fromEntries(
    ['Engine', 'Trino', 'Acme'].flatMap((product) => {
      const values = valuesOf(lines ?? [], `x-${product}-${suffix}`.toLowerCase());
      return values.length === 0 ? [] : [[product, values]];
    }),
  );

const suffixes = [
  ...['User', 'Original-User', 'Routing-Group', 'Source', 'Catalog', 'Schema', 'Client-Info', 'Client-Tags'],
  ...['Prepared-Statement', 'Session', 'Role', 'Resource-Estimate', 'Extra-Credential', 'Trace-Token', 'Anything'],
];

describe('requests', () => {
  const senders: readonly (readonly [string, (suffix: string) => readonly string[]])[] = [
    ['X-Engine-', (suffix) => [`X-Engine-${suffix}`, 'a=b']],
    ['x-trino-', (suffix) => [`x-trino-${suffix.toLowerCase()}`, 'a=b']],
    ['both', (suffix) => [`X-Engine-${suffix}`, 'a=b', `X-Trino-${suffix}`, 'a=b']],
    ['X-Engine-, in Connection', (suffix) => [`X-Engine-${suffix}`, 'a=b', 'Connection', `X-Engine-${suffix}`]],
    [
      'X-Trino-, other name in Connection',
      (suffix) => [`X-Trino-${suffix}`, 'a=b', 'Connection', `X-Engine-${suffix}`],
    ],
  ];
  const targets: readonly (readonly [string, ClusterHeaderChoice | null, readonly string[]])[] = [
    ['Engine', null, ['Engine', 'Trino']],
    ['Trino', null, ['Trino']],
    ['Acme', null, ['Engine', 'Trino', 'Acme']],
    ['Engine', 'Trino', ['Trino']],
    ['Trino', 'Engine', ['Engine']],
    ['Trino', 'Both', ['Engine', 'Trino']],
  ];
  test.each(targets)('of product %s with clusterHeaders %s reach clusters as %j', async (product, choice, expected) => {
    const { post, seen } = await setting([], { names: productNames(product, choice) });
    for (const [sender, linesOf] of senders) {
      for (const suffix of suffixes) {
        expect((await post(linesOf(suffix))).status).toBe(200);
        const wanted = Object.fromEntries(expected.map((name) => [name, ['a=b']]));
        expect(valuesAt(seen.at(-1), suffix), `${sender} ${suffix}`).toEqual(wanted);
      }
    }
  });

  test('repeated lines stay; of equal ones under two names one stays', async () => {
    const { post, seen } = await setting();
    const lines = ['X-Trino-Session', 'a=1', 'X-Trino-Session', 'b=2'];
    await post(lines);
    await post([...lines, 'X-Engine-Session', 'a=1', 'X-Engine-Session', 'b=2', 'X-Engine-Source', 's']);
    for (const each of seen) {
      expect(valuesAt(each, 'Session')).toEqual({ Engine: ['a=1', 'b=2'], Trino: ['a=1', 'b=2'] });
    }
    expect(valuesAt(seen[1], 'Source')).toEqual({ Engine: ['s'], Trino: ['s'] });
  });

  test.each([
    ['values', ['X-Engine-User', 'ann', 'X-Trino-User', 'ben'], 'headers X-Engine-User and X-Trino-User'],
    ['an empty one', ['X-Engine-User', 'ann', 'X-Trino-User', ''], 'headers X-Engine-User and X-Trino-User'],
    ['lines', ['X-Trino-Session', 'a=1', 'x-engine-session', 'a=1', 'X-Trino-Session', 'b=2'], 'X-Trino-Session'],
    ['cookies', ['Cookie', 'Engine-UI-Token=a; Trino-UI-Token=b'], 'cookies Engine-UI-Token and Trino-UI-Token'],
    ['an empty token', ['Cookie', '__Secure-Trino-ID-Token=', 'Cookie', '__Secure-Engine-ID-Token=b'], '-ID-Token'],
  ])('with different %s under two names are 400, and reach no cluster', async (_name, lines, message) => {
    const { post, seen } = await setting();
    const answer = await post(lines);
    expect(answer.status).toBe(400);
    expect(answer.text).toContain(message);
    expect(answer.text).toContain('have different values; send one of them');
    expect(seen).toEqual([]);
  });

  test('cookies of the engine reach clusters under the same names', async () => {
    const { post, seen } = await setting([], { names: productNames('Engine', 'Trino') });
    await post(['Cookie', 'a=1; Engine-UI-Token=t; Trino-UI-Token=t; __Secure-Engine-ID-Token=i; b=2']);
    expect(valuesOf(seen[0] ?? [], 'cookie')).toEqual(['a=1; Trino-UI-Token=t; __Secure-Trino-ID-Token=i; b=2']);
  });

  test('of X-Trino- names give user and source to the history', async () => {
    const { gateway } = await setting();
    await send(gateway.url, '/v1/statement', {
      method: 'POST',
      headers: ['X-Trino-User', 'ann', 'X-Trino-Source', 's'],
    });
    expect(gateway.records.map(({ user, source }) => [user, source])).toEqual([['ann', 's']]);
  });
});

describe('responses', () => {
  const trino = ['X-Trino-Set-Session', 'a=1', 'X-Trino-Set-Session', 'b=2'];
  const engine = ['X-Engine-Set-Session', 'a=1', 'X-Engine-Set-Session', 'b=2'];
  const [a, b] = [
    ['X-Engine-Source', 's'],
    ['x-trino-source', 's'],
  ] as const;
  test.each<[string, readonly string[], readonly string[], readonly string[]]>([
    ['X-Engine-', a, trino, ['Engine']],
    ['X-Engine-', a, engine, ['Engine']],
    ['X-Engine-', a, [...trino, ...engine], ['Engine']],
    ['x-trino-', b, trino, ['Trino']],
    ['x-trino-', b, engine, ['Trino']],
    ['x-trino-', b, [...engine, ...trino], ['Trino']],
    ['both', [...a, ...b], trino, ['Engine', 'Trino']],
    ['no header', [], trino, ['Trino']],
    ['no header', [], engine, ['Engine']],
  ])('to a client with %s have its names', async (_name, sent, answer, expected) => {
    const { post } = await setting(answer);
    const { rawHeaders } = await post(sent);
    expect(valuesAt(rawHeaders, 'Set-Session')).toEqual(
      Object.fromEntries(expected.map((product) => [product, ['a=1', 'b=2']])),
    );
  });

  test('that begin a transaction bind it, whatever the names of cluster and client', async () => {
    const id = '3f2b8c1e-0000-4000-8000-000000000001';
    const { post, seen, gateway } = await setting(['X-Trino-Started-Transaction-Id', id]);
    const other = await startServer((_request, response) => void response.writeHead(500).end());
    const { rawHeaders } = await post(['X-Engine-User', 'ann']);
    expect(valuesAt(rawHeaders, 'Started-Transaction-Id')).toEqual({ Engine: [id] });
    // The cluster of the transaction takes no new queries.
    const [cluster] = [...gateway.table.current.clusters.values()];
    if (cluster === undefined) throw new Error('there is no cluster');
    gateway.table.setInputs({ clusters: [{ ...cluster, active: false }, clusterAt('b', other.url)], rules: null });
    gateway.setHealthy('b');
    expect((await post(['X-Trino-User', 'ann', 'X-Trino-Transaction-Id', id])).status).toBe(200);
    expect(valuesAt(seen[1], 'Transaction-Id')).toEqual({ Engine: [id], Trino: [id] });
  });
});

test('an external rules service gets the names of clusters; what it sets and excludes covers both', async () => {
  const calls: Record<string, unknown>[] = [];
  const service = await startServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      calls.push(JSON.parse(Buffer.concat(chunks).toString()).headers);
      const externalHeaders = { 'X-Trino-Client-Tags': 'x', 'X-Engine-Client-Tags': 'y', 'X-Trino-Source': 'z' };
      response.end(JSON.stringify({ routingGroup: 'adhoc', externalHeaders }));
    });
  });
  const settings = { ...defaultExternalRules.settings, excludeHeaders: ['X-Engine-Source', 'x-trino-user'] };
  const { post, seen } = await setting([], {
    names: productNames('Engine', 'Trino'),
    externalRules: { url: service.url, settings },
  });
  await post(['X-Engine-User', 'ann', 'X-Trino-Source', 's', 'X-Engine-Catalog', 'c', 'X-Engine-Client-Tags', 't']);
  expect(calls).toHaveLength(1);
  const names = Object.keys(calls[0] ?? {}).filter((name) => /^x-/i.test(name));
  expect(names.sort()).toEqual(['X-Trino-Catalog', 'X-Trino-Client-Tags']);
  expect(valuesAt(seen[0], 'Client-Tags')).toEqual({ Trino: ['y'] });
  expect(valuesAt(seen[0], 'Source')).toEqual({ Trino: ['s'] });
});

test.each([
  ['Engine', 'Trino'],
  ['Trino', 'Engine'],
])('a client of %s before an engine of %s gets rows', async (productName, engineProduct) => {
  const engine = closing(await startSimulatedEngine({ name: 'a', productName: engineProduct }));
  const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
  const { rows, error } = await runQuery(gateway.url, 'SELECT 1', { productName, user: 'ann' });
  expect(error).toBeUndefined();
  expect(rows).toEqual([[1]]);
});
