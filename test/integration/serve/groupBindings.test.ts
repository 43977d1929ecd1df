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

/** The group that a query of a source goes to, and the trace of its rules. */
const explain = async (source: string) =>
  (await call(gateway, 'POST', '/api/explain', { user: 'u', headers: { 'X-Engine-Source': source }, body: 'SELECT 1' }))
    .text;

test('a group that is bound to namespaces takes no clusters and no queries of others', async () => {
  const engines = await Promise.all(['etl-1', 'stray', 'adhoc-1'].map((name) => world.engine({ name })));
  const [etl, stray, adhoc] = engines.map(({ url }) => url);
  const bySource = (source: string) => ({
    condition: `request.getHeader("X-Engine-Source") == "${source}"`,
    actions: ['result.put("routingGroup", "etl")'],
  });
  await world.declare(
    document('EngineCluster', 'team-etl', 'etl-1', { proxyTo: etl, routingGroup: 'etl' }),
    document('EngineCluster', 'team-b', 'stray', { proxyTo: stray, routingGroup: 'etl' }),
    document('EngineCluster', 'team-b', 'adhoc-1', { proxyTo: adhoc, routingGroup: 'adhoc' }),
    document('RoutingRule', 'platform', 'ours', bySource('airflow')),
    document('RoutingRule', 'team-b', 'theirs', bySource('sneaky')),
    document('RoutingRule', 'team-b', 'static', { condition: 'false', routeTo: { routingGroup: 'etl' } }),
  );
  const groups = { etl: { join: ['team-etl'], route: ['team-etl', 'platform'] } };
  gateway = await world.start({ resources: { source: 'directory', directory: world.folder, groups } });
  await expect.poll(() => acceptance('stray')).toBe('GroupNotAllowed');
  await expect.poll(() => acceptance('etl-1')).toBe('Accepted');
  await expect.poll(() => ruleState('static')).toMatch(/^NotAccepted: .*namespace team-b may not route/);
  const names = async () => ((await read('/gateway/backend/all')) as { name: string }[]).map(({ name }) => name);
  expect(await names()).toEqual(['adhoc-1', 'etl-1']);
  await expect.poll(() => explain('airflow')).toContain('"routingGroup":"etl"');
  const refused = await explain('sneaky');
  expect(refused).toContain('"routingGroup":"adhoc"');
  expect(refused).toContain('namespace team-b may not route to the routing group etl');
  // A query that is really sent counts, and is logged.
  await fetch(`${gateway.url}/v1/statement`, {
    method: 'POST',
    headers: { 'X-Engine-User': 'u', 'X-Engine-Source': 'sneaky' },
    body: 'SELECT 1',
  });
  await gateway.logged(({ msg, rule }) => msg === 'rule failed' && rule === 'theirs');
  expect(await (await fetch(`${gateway.url}/metrics`)).text()).toMatch(
    /rule_failures_total\{[^}]*"theirs"[^}]*\} [1-9]/,
  );

  await gateway.stop();
  gateway = await world.start();
  await expect.poll(() => explain('sneaky')).toContain('"routingGroup":"etl"');
  await expect.poll(names).toEqual(['adhoc-1', 'etl-1', 'stray']);
  await expect.poll(() => ruleState('static')).toContain('Programmed');
});
