import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { resourceKinds } from '../../src/kinds/registry.ts';
import { type Load, startLoad } from '../faults/load.ts';
import { certificateFolder, hasOpenssl } from '../support/certificates.ts';
import { ClusterProcess } from '../support/clusterProcess.ts';
import { type ControlPlane, controlPlaneAvailable } from '../support/controlPlane.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { type KubeRig, kubeRig, startPlane } from '../support/kubeRig.ts';
import { manifest } from '../support/manifest.ts';
import { hasPrometheus, type Prometheus, startPrometheus } from '../support/prometheus.ts';

/** A dashboard as its file has it, as far as it is read. */
interface DashboardFile {
  readonly uid: string;
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly type: string; readonly query?: string }[];
  };
  readonly panels: readonly {
    readonly type: string;
    readonly title: string;
    readonly targets?: readonly { readonly expr: string }[];
  }[];
}

/** What Grafana puts in place of variables: everything that is offered, and the time of the whole test. */
const filledIn = (expr: string): string =>
  expr.replaceAll('$__rate_interval', '5m').replaceAll(/\$(?:job|instance|routing_group|cluster)\b/g, '.*');

const folder = 'manifests/helm/engine-gateway/monitoring/dashboards';
const files = await Promise.all(
  (await readdir(folder)).sort().map(async (name) => {
    const text = await readFile(join(folder, name), 'utf8');
    return { name, dashboard: JSON.parse(text) as DashboardFile };
  }),
);
const panels = files.flatMap(({ name, dashboard }) =>
  dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ name, title, expr }))),
);

const available = hasPrometheus() && controlPlaneAvailable && hasOpenssl;
const cluster = (name: string, routingGroup: string, proxyTo: string, more: object = {}) =>
  manifest('EngineCluster', name, { proxyTo, routingGroup, ...more });
const rule = (name: string, condition: string, routingGroup = 'adhoc') =>
  manifest('RoutingRule', name, { condition, routeTo: { routingGroup } });

describe.skipIf(!available)('a gateway under load that Prometheus scrapes', () => {
  const certificates = certificateFolder();
  let plane: ControlPlane;
  let rig: KubeRig;
  let gateway: GatewayProcess;
  let prometheus: Prometheus;
  let load: Load;
  const clusters: ClusterProcess[] = [];
  const apply = (...resources: object[]) => rig.apply('kubectl', ...resources);
  const raised = (name: string) =>
    expect.poll(() => prometheus.raised(), { timeout: 60_000, interval: 500 }).toContain(name);

  beforeAll(async () => {
    plane = await startPlane();
    rig = await kubeRig(plane);
    clusters.push(...(await Promise.all(['a', 'b', 'c', 'd', 'e'].map((name) => ClusterProcess.start(name)))));
    const [a, b, c, d, e] = clusters.map(({ url }) => url) as [string, string, string, string, string];
    // Seldom checked and in no group of the load, so that a submission finds out that it was stopped: no follow-up does before.
    const seldom = { healthCheck: { interval: '60s' } };
    await apply(
      cluster('a', 'adhoc', a),
      cluster('b', 'adhoc', b),
      cluster('c', 'spare', c, seldom),
      cluster('d', 'etl', d),
      cluster('e', 'spare', e),
      rule('spare', 'request.getHeader("X-Engine-Source") == "spare"', 'spare'),
      rule('large', 'request.getHeader("X-Engine-Source") == "never"'),
    );
    gateway = await startGateway({
      resources: { source: 'kubernetes', kubeconfig: rig.kubeconfig },
      dataStore: { jdbcUrl: rig.jdbcUrl },
      clusterStatsConfiguration: { monitorType: 'METRICS' },
      backendState: { username: 'health' },
      monitor: { taskDelay: '1s' },
      serverConfig: {
        'http-server.https.enabled': true,
        'http-server.https.port': 0,
        'http-server.https.keystore.path': certificates.authority('ca').issue(['DNS:localhost'], 2).file,
      },
    });
    prometheus = await startPrometheus([gateway.url]);
    load = startLoad({ bases: [gateway.url], connections: 8, maxPause: 500 });
  });
  afterAll(async () => {
    await load?.stop();
    await prometheus?.stop();
    await gateway?.stop();
    await Promise.allSettled(clusters.map((each) => each.kill()));
    await rig?.stop();
    await plane?.stop();
    certificates.dispose();
  });

  test('each query of the dashboards has data', async () => {
    await load.progress(30);
    expect((await prometheus.raised()).filter((name) => name !== 'EngineGatewayCertificateExpires')).toEqual([]);
    await clusters[2]!.kill();
    // One in two is sent to the stopped one, until the first is.
    for (let count = 0; count < 30; count += 1) {
      const headers = { 'X-Engine-User': 'me', 'X-Engine-Source': 'spare' };
      const response = await fetch(`${gateway.url}/v1/statement`, { method: 'POST', headers, body: 'SELECT 1' });
      expect(response.status).toBe(200);
      await response.body?.cancel();
    }
    // Refused, as no cluster has the query.
    const unknown = '/v1/statement/executing/20260101_000000_00000_aaaaa/x/0';
    await fetch(`${gateway.url}${unknown}`, { headers: { 'X-Engine-User': 'me' } });
    await load.progress(60);
    const empty = async (): Promise<readonly object[]> => {
      const found = await Promise.all(
        panels.map(async (panel) => {
          const samples = await prometheus.query(filledIn(panel.expr));
          return samples.some(({ value }) => Number.isFinite(value)) ? [] : [panel];
        }),
      );
      return found.flat();
    };
    expect(panels.length).toBeGreaterThan(70);
    await expect.poll(empty, { timeout: 60_000, interval: 1_000 }).toEqual([]);
  });

  test('each variable of the dashboards has values', async () => {
    const empty: string[] = [];
    for (const { name, dashboard } of files) {
      for (const variable of dashboard.templating.list) {
        if (variable.type !== 'query') continue;
        const [, selector = '', label = ''] = /^label_values\((.*), (\w+)\)$/.exec(variable.query ?? '') ?? [];
        const samples = await prometheus.query(filledIn(selector));
        if (!samples.some(({ labels }) => labels[label])) empty.push(`${name}: ${variable.name}`);
      }
    }
    expect(empty).toEqual([]);
  });

  test('alerts are raised by what they are for, in the words of their labels', async () => {
    await raised('EngineGatewayCertificateExpires');
    await raised('EngineGatewayClusterDown');
    await clusters[3]!.kill();
    await raised('EngineGatewayRoutingGroupDown');
    await apply(rule('broken', 'no rule at all ('));
    await raised('EngineGatewayRulesRejected');
    await raised('EngineGatewayResourcesNotReady');
    await apply(rule('failing', 'request.getHeader("X-Engine-User").substring(1000) == "x"'));
    await raised('EngineGatewayRuleFailures');
    await rig.kubectl(['delete', 'engineclusters', '--all']);
    await raised('EngineGatewayDeletionsHeld');
    const fired = await prometheus.fired();
    const held = fired.find(({ labels }) => labels.alertname === 'EngineGatewayDeletionsHeld');
    expect(held?.labels).toMatchObject({ job: 'engine-gateway', kind: 'EngineCluster', severity: 'critical' });
  });

  test('no replica that can be scraped is noticed as well', async () => {
    await load.stop();
    await gateway.stop('SIGKILL');
    await raised('EngineGatewayReplicaDown');
    await raised('EngineGatewayDown');
  });
});

test('the dashboards have names and places of their own', () => {
  expect(files.map(({ dashboard }) => dashboard.uid)).toEqual([
    'engine-gateway-clusters',
    'engine-gateway-operator',
    'engine-gateway-overview',
    'engine-gateway-process',
  ]);
  for (const { dashboard } of files) {
    const titles = dashboard.panels.filter(({ type }) => type !== 'row').map(({ title }) => title);
    expect(new Set(titles).size, dashboard.uid).toBe(titles.length);
  }
});

test('panels of controllers and work queues select those of all kinds', () => {
  const selected = panels.flatMap(({ expr }) => /\b(?:controller|name)=~"([^"]+)"/.exec(expr)?.[1] ?? []);
  expect(new Set(selected)).toEqual(new Set([resourceKinds.all.map(({ singular }) => singular).join('|')]));
});
