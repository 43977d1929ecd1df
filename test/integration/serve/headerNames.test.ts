import { writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { until } from '../../support/gateway.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { addCluster, call, worldOf } from '../../support/world.ts';

const world = worldOf('test');
let gateway: GatewayProcess;

const rule = (name: string, condition: string) =>
  `---\nname: ${name}\ncondition: '${condition}'\nactions: ['result.put("routingGroup", "${name}")']\n`;

const rules = [
  rule('user', 'request.getHeader("X-Engine-User") == "user" && trinoRequestUser.userExistsAndEquals("user")'),
  rule('trino-user', 'request.getHeader("x-trino-user") == "trino-user"'),
  rule('computed', 'request.getHeader("X-Trino-" + "Source") == "computed"'),
  rule('list', 'Collections.list(request.getHeaders("X-Engine-Source")).contains("list")'),
  rule('query', 'trinoQueryProperties.tablesContains("a.b.c") || engineQueryProperties.getCatalogs().contains("q")'),
];

const start = async (productName: string, more: object = {}) => {
  const file = world.path('rules.yaml');
  await writeFile(file, rules.join(''));
  gateway = await world.start({
    protocol: { productName },
    resources: { source: 'database' },
    requestAnalyzerConfig: { analyzeRequest: true },
    routingRules: { rulesEngineEnabled: true, rulesConfigPath: file },
    ...more,
  });
};

const post = (path: string, body: unknown) => call(gateway, 'POST', path, body);

test.each(['Engine', 'Trino', 'Acme'])(
  'rules of product %s read both names, as do the explanation and the paths of resource groups',
  async (product) => {
    await start(product);
    const groupOf = async (headers: Record<string, string>, body = 'SELECT 1') =>
      (await post('/api/explain', { headers, body })).json;
    const sent: readonly (readonly [string, Record<string, string>, string?])[] = ['X-Engine-', 'X-Trino-'].flatMap(
      (prefix) => [
        ['user', { [`${prefix}User`]: 'user' }] as const,
        ['trino-user', { [`${prefix}User`]: 'trino-user' }] as const,
        ['computed', { [`${prefix}Source`]: 'computed' }] as const,
        ['list', { [`${prefix}Source`]: 'list' }] as const,
        ['query', { [`${prefix}Catalog`]: 'a', [`${prefix}Schema`]: 'b' }, 'SELECT * FROM c'] as const,
        ['query', { [`${prefix}Catalog`]: 'q', [`${prefix}Schema`]: 'b' }, 'SELECT * FROM c'] as const,
        ['adhoc', { [`${prefix}User`]: 'other' }] as const,
      ],
    );
    for (const [group, headers, body] of sent) {
      expect(await groupOf(headers, body), JSON.stringify(headers)).toMatchObject({ routingGroup: group });
    }
    expect((await groupOf({ 'X-Engine-User': 'a', 'X-Trino-User': 'b' })).message).toContain(
      'The headers X-Engine-User and X-Trino-User have different values; send one of them.',
    );
    const group = { softMemoryLimit: '10%', maxQueued: 1, hardConcurrencyLimit: 1 };
    for (const segment of ['engine', 'trino']) {
      const created = await post(`/${segment}/resourcegroup/create`, { ...group, name: segment });
      expect(created).toMatchObject({ status: 200, json: { name: segment } });
      const read = await call(gateway, 'GET', `/${segment}/resourcegroup/read`);
      expect(read.json).toContainEqual(expect.objectContaining({ name: segment }));
    }
  },
);

test.each([
  ['Engine', undefined, ['x-engine-', 'x-trino-']],
  ['Trino', undefined, ['x-trino-']],
  ['Engine', 'Trino', ['x-trino-']],
  ['Trino', 'Engine', ['x-engine-']],
] as const)('health checks of product %s with clusterHeaders %s send %j', async (product, clusterHeaders, prefixes) => {
  const engineProduct = clusterHeaders ?? product;
  const engine = await world.engine({ name: 'a', productName: engineProduct, record: true });
  await start(product, {
    protocol: { productName: product, ...(clusterHeaders === undefined ? {} : { clusterHeaders }) },
    clusterStatsConfiguration: { monitorType: 'JDBC' },
    backendState: { username: 'checker' },
    monitor: { taskDelay: '1s' },
  });
  await addCluster(gateway, 'a', engine.url);
  const state = async () => (await call(gateway, 'GET', '/api/public/backends/a/state')).text;
  await until(async () => (await state()).includes('"HEALTHY"'), 'the cluster to be healthy', 30_000);
  const check = engine.requests.find(({ method }) => method === 'POST');
  const names = Object.keys(check?.headers ?? {}).filter((name) => /^x-(?:engine|trino)-/.test(name));
  expect(names.sort()).toEqual(
    prefixes.flatMap((prefix) => ['catalog', 'source', 'user'].map((suffix) => prefix + suffix)),
  );
});
