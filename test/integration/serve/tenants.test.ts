import { expect, test } from 'vitest';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { call, worldOf } from '../../support/world.ts';

const world = worldOf('test');
let gateway: GatewayProcess;

const document = (kind: string, namespace: string, name: string, spec: object) =>
  manifest(kind, name, spec, { namespace });
const read = async (path: string) => (await call(gateway, 'GET', path)).json;

/** Why a cluster is accepted, or not. */
async function acceptance(name: string): Promise<string | undefined> {
  const clusters = (await read('/api/clusters')) as readonly {
    readonly name: string;
    readonly resource: { readonly conditions: readonly { readonly type: string; readonly reason: string }[] };
  }[];
  const cluster = clusters.find((each) => each.name === name);
  return cluster?.resource.conditions.find(({ type }) => type === 'Accepted')?.reason;
}

/** What became of a rule. */
async function ruleState(name: string): Promise<string> {
  const { rules } = (await read('/api/rules')) as { rules: { name: string; status: string; message: string }[] };
  const rule = rules.find((each) => each.name === name);
  return `${rule?.status}: ${rule?.message}`;
}

/** The explanation of a query of a user and a source. */
const explain = async (user: string, source: string) =>
  (await call(gateway, 'POST', '/api/explain', { user, headers: { 'X-Engine-Source': source }, body: 'SELECT 1' }))
    .json as { routingGroup: string; rule: string | null; rules: { rule: string; error?: string }[] };

test('tenants in a directory: manifests without a namespace are the platform’s, others have what they are granted', async () => {
  const engines = await Promise.all(['etl-1', 'stray', 'adhoc-1'].map((name) => world.engine({ name })));
  const [etl, stray, adhoc] = engines.map(({ url }) => url);
  const bySource = (source: string) => ({
    condition: `request.getHeader("X-Engine-Source") == "${source}"`,
    actions: ['result.put("routingGroup", "etl")'],
  });
  const tenant = (name: string, group: string) =>
    manifest('EngineTenant', name, {
      namespaces: { names: [name] },
      routingGroups: [{ value: group }],
      decides: { users: [{ type: 'Prefix', value: `${name}-` }] },
    });
  const manifests = [
    tenant('a', 'etl'),
    tenant('b', 'adhoc'),
    document('EngineCluster', 'a', 'a-1', { proxyTo: etl, routingGroup: 'etl' }),
    document('EngineCluster', 'b', 'b-stray', { proxyTo: stray, routingGroup: 'etl' }),
    document('EngineCluster', 'b', 'b-1', { proxyTo: adhoc, routingGroup: 'adhoc' }),
    manifest('RoutingRule', 'ours', bySource('airflow')),
    document('RoutingRule', 'b', 'b-sneaky', bySource('sneaky')),
    document('RoutingRule', 'b', 'b-static', { condition: 'false', routeTo: { routingGroup: 'etl' } }),
    document('RoutingRule', 'b', 'b-back', { condition: 'true', routeTo: { routingGroup: 'adhoc' } }),
  ];
  await world.declare(...manifests);
  gateway = await world.start({ resources: { source: 'directory', directory: world.folder } });
  await expect.poll(() => acceptance('b-stray')).toBe('RoutingGroupNotGranted');
  await expect.poll(() => acceptance('a-1')).toBe('Accepted');
  await expect.poll(() => ruleState('b-static')).toMatch(/^NotAccepted: .*the routing group etl is not granted/);
  const names = async () => ((await read('/gateway/backend/all')) as { name: string }[]).map(({ name }) => name);
  expect(await names()).toEqual(['a-1', 'b-1']);
  await expect.poll(() => explain('a-ann', 'airflow')).toMatchObject({ routingGroup: 'etl', rule: 'ours' });
  // The tenant of the user decides after the platform, only to its groups.
  expect(await explain('b-bob', 'airflow')).toMatchObject({ routingGroup: 'adhoc', rule: 'b-back' });
  const refused = await explain('b-bob', 'sneaky');
  expect(refused.rules.find(({ rule }) => rule === 'b-sneaky')).toMatchObject({
    ...{ stage: 'tenant', tenant: 'b', outcome: 'failed' },
    error: expect.stringContaining('added to spec.routingGroups of the EngineTenant b'),
  });
  expect((await explain('a-ann', 'sneaky')).rules.find(({ rule }) => rule === 'b-sneaky')).toMatchObject({
    ...{ outcome: 'skipped', error: 'the tenant a decides this query' },
  });
  // A query that is really sent counts, and is logged.
  await fetch(`${gateway.url}/v1/statement`, {
    method: 'POST',
    headers: { 'X-Engine-User': 'b-bob', 'X-Engine-Source': 'sneaky' },
    body: 'SELECT 1',
  });
  await gateway.logged(({ msg, rule }) => msg === 'rule failed' && rule === 'b-sneaky');
  expect(await (await fetch(`${gateway.url}/metrics`)).text()).toMatch(
    /rule_failures_total\{[^}]*"b-sneaky"[^}]*\} [1-9]/,
  );
  // Another tenant for the same user: neither decides.
  const decides = { users: [{ value: 'b-bob' }] };
  await world.declare(...manifests, manifest('EngineTenant', 'c', { namespaces: { names: ['c'] }, decides }));
  await expect.poll(() => explain('b-bob', 'airflow')).toMatchObject({ routingGroup: 'etl', rule: 'ours' });
  expect(await (await fetch(`${gateway.url}/metrics`)).text()).toMatch(/tenant_conflicts_total [1-9]/);
});
