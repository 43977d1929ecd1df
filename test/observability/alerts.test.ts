import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { resourceKinds } from '../../src/kinds/registry.ts';
import { hasPrometheus, promtool, shippedAlerts } from '../support/prometheus.ts';

/** Values of series by their name and own labels, in promtool's notation: one every 30 seconds. */
type Series = Readonly<Record<string, string>>;

const MINUTES = 40;
const COUNT = MINUTES * 2;
/** The same value all the time. */
const steady = (value: number): string => `${value}x${COUNT}`;
/** Zero, and from the half of the time on another value. */
const late = (value: number): string => `0x${COUNT / 2 - 1} ${value}x${COUNT / 2}`;
/** A counter that grows by so much every 30 seconds. */
const growing = (by: number): string => `0+${by}x${COUNT}`;
/** A counter whose first value comes two minutes before the end. */
const begun = `_x${COUNT - 5} 1x5`;

const running: Series = { engine_gateway_build_info: steady(1) };
const twoClusters = (a: number, b: number, active = 1): Series => ({
  'engine_gateway_cluster_status{cluster="a",routing_group="adhoc",status="HEALTHY"}': steady(a),
  'engine_gateway_cluster_status{cluster="b",routing_group="adhoc",status="HEALTHY"}': steady(b),
  'engine_gateway_cluster_status{cluster="a",routing_group="adhoc",status="UNHEALTHY"}': steady(1 - a),
  'engine_gateway_cluster_status{cluster="b",routing_group="adhoc",status="UNHEALTHY"}': steady(1 - b),
  'engine_gateway_cluster_active{cluster="a",routing_group="adhoc"}': steady(active),
  'engine_gateway_cluster_active{cluster="b",routing_group="adhoc"}': steady(active),
});
const submissions = (good: number, bad: number): Series => ({
  'engine_gateway_requests_total{kind="submission",method="POST",status="2xx"}': growing(good),
  'engine_gateway_requests_total{kind="submission",method="POST",status="5xx"}': growing(bad),
});
const durations = (upTo1: number, upTo30: number): Series => ({
  'engine_gateway_cluster_request_duration_seconds_bucket{cluster="a",routing_group="adhoc",kind="submission",le="1"}':
    growing(upTo1),
  'engine_gateway_cluster_request_duration_seconds_bucket{cluster="a",routing_group="adhoc",kind="submission",le="30"}':
    growing(upTo30),
  'engine_gateway_cluster_request_duration_seconds_bucket{cluster="a",routing_group="adhoc",kind="submission",le="+Inf"}':
    growing(upTo30),
});

/** For each alert what raises it, what else fires with it, and what comes near and does not raise it. */
const cases: readonly (readonly [alert: string, fires: Series, quiet: Series, also?: readonly string[]])[] = [
  [
    'EngineGatewayDown',
    { engine_gateway_build_info: `1x${COUNT - 20} stale` },
    { engine_gateway_build_info: `1x${COUNT - 20} _x5 1x15` },
  ],
  [
    'EngineGatewayReplicaDown',
    { engine_gateway_build_info: `1x${COUNT - 20} _x20`, up: `1x${COUNT - 20} 0x20` },
    { ...running, up: `1x${COUNT - 2} 0x2` },
    ['EngineGatewayDown'],
  ],
  [
    'EngineGatewayRestarts',
    { ...running, process_start_time_seconds: `1x${COUNT - 12} 2x4 3x4 4x4` },
    { ...running, process_start_time_seconds: `1x${COUNT - 12} 2x6 3x6` },
  ],
  [
    'EngineGatewayEventLoopDelay',
    { ...running, nodejs_eventloop_lag_p99_seconds: late(0.5) },
    { ...running, nodejs_eventloop_lag_p99_seconds: `0.5x${COUNT - 5} 0.1x5` },
  ],
  [
    'EngineGatewayMemory',
    { process_resident_memory_bytes: steady(95), engine_gateway_memory_limit_bytes: steady(100) },
    { process_resident_memory_bytes: steady(85), engine_gateway_memory_limit_bytes: steady(100) },
  ],
  [
    'EngineGatewayOpenFiles',
    { ...running, process_open_fds: steady(900), process_max_fds: steady(1000) },
    { ...running, process_open_fds: steady(700), process_max_fds: steady(1000) },
  ],
  ['EngineGatewayErrors', submissions(90, 10), submissions(97, 3)],
  [
    'EngineGatewayRefusals',
    { 'engine_gateway_refusals_total{reason="no_cluster"}': growing(6) },
    {
      'engine_gateway_refusals_total{reason="denied"}': growing(600),
      'engine_gateway_refusals_total{reason="no_cluster"}': growing(1),
    },
  ],
  [
    'EngineGatewayQueriesFail',
    {
      'engine_gateway_queries_ended_total{state="failed"}': growing(6),
      'engine_gateway_queries_ended_total{state="finished"}': growing(60),
    },
    {
      'engine_gateway_queries_ended_total{state="user_error"}': growing(60),
      'engine_gateway_queries_ended_total{state="lost"}': growing(2),
      'engine_gateway_queries_ended_total{state="finished"}': growing(60),
    },
  ],
  [
    'EngineGatewayStatementQuarantined',
    { engine_gateway_quarantines_total: `0x${COUNT - 20} 1x20` },
    { engine_gateway_quarantines_total: steady(7) },
  ],
  [
    'EngineGatewayRetryStorm',
    {
      'engine_gateway_queries_ended_total{state="finished"}': growing(20),
      'engine_gateway_queries_ended_total{state="retried"}': growing(2),
    },
    {
      'engine_gateway_queries_ended_total{state="finished"}': growing(2),
      'engine_gateway_queries_ended_total{state="retried"}': `0+0.5x${COUNT}`,
    },
  ],
  ['EngineGatewaySlowSubmissions', durations(10, 100), durations(100, 100)],
  [
    'EngineGatewayRequestMemoryFull',
    { 'engine_gateway_request_bodies_refused_total{reason="request_memory"}': growing(1) },
    { 'engine_gateway_request_bodies_refused_total{reason="request_memory"}': `5x${COUNT}` },
  ],
  [
    'EngineGatewayHttp2Full',
    { 'engine_gateway_http2_declined_total{reason="limit"}': growing(1) },
    { 'engine_gateway_http2_declined_total{reason="client"}': growing(9) },
  ],
  [
    'EngineGatewayHttp2Evictions',
    { engine_gateway_http2_evicted_total: growing(1) },
    { engine_gateway_http2_evicted_total: `5x${COUNT}` },
  ],
  ['EngineGatewayRoutingGroupDown', twoClusters(0, 0), twoClusters(0, 0, 0), ['EngineGatewayClusterDown']],
  ['EngineGatewayClusterDown', twoClusters(1, 0), twoClusters(1, 0, 0)],
  [
    'EngineGatewayClusterFlapping',
    { 'engine_gateway_cluster_taken_out_total{cluster="a",cause="connection"}': growing(1) },
    { 'engine_gateway_cluster_taken_out_total{cluster="a",cause="connection"}': `0x${COUNT - 4} 1 2 3 4` },
  ],
  [
    'EngineGatewayClusterErrors',
    { 'engine_gateway_cluster_errors_total{cluster="a",type="timeout"}': growing(5) },
    { 'engine_gateway_cluster_errors_total{cluster="a",type="timeout"}': growing(2) },
  ],
  [
    'EngineGatewayOwnershipConflict',
    { 'engine_gateway_ownership_conflicts_total{cluster="a",owner="b"}': begun },
    { 'engine_gateway_ownership_conflicts_total{cluster="a",owner="b"}': steady(7) },
  ],
  [
    'EngineGatewayRuleFailures',
    { 'engine_gateway_rule_failures_total{rule="r",origin="file"}': begun },
    { 'engine_gateway_rule_failures_total{rule="r",origin="file"}': steady(7) },
  ],
  [
    'EngineGatewayRulesRejected',
    { 'engine_gateway_rules_rejected{origin="resource"}': late(2) },
    { 'engine_gateway_rules_rejected{origin="resource"}': `0x${COUNT - 4} 2x4` },
  ],
  [
    'EngineGatewayExternalRulesUnavailable',
    { engine_gateway_external_rules_circuit_open: late(1) },
    { engine_gateway_external_rules_circuit_open: `0x${COUNT - 2} 1x1` },
  ],
  [
    'EngineGatewayDatabaseUnavailable',
    { engine_gateway_database_available: `1x${COUNT - 10} 0x10` },
    { engine_gateway_database_available: `1x${COUNT - 10} 0x5 1x5` },
  ],
  [
    'EngineGatewayHistorySpilling',
    { 'engine_gateway_history_depth{place="disk"}': late(50) },
    {
      'engine_gateway_history_depth{place="disk"}': steady(0),
      'engine_gateway_history_depth{place="memory"}': steady(50),
    },
  ],
  [
    'EngineGatewayHistoryLost',
    { 'engine_gateway_history_lost_total{reason="disk"}': `0x${COUNT - 4} 3x4` },
    { 'engine_gateway_history_lost_total{reason="disk"}': `0x4 3x${COUNT - 4}` },
  ],
  [
    'EngineGatewaySourceUnavailable',
    { engine_gateway_resource_source_available: `1x${COUNT - 20} 0x20` },
    { engine_gateway_resource_source_available: `1x${COUNT - 6} 0x6` },
  ],
  [
    'EngineGatewaySourceProblems',
    { engine_gateway_resource_source_problems: late(1) },
    { engine_gateway_resource_source_problems: steady(0) },
  ],
  [
    'EngineGatewayDeletionsHeld',
    { 'engine_gateway_held_deletions{kind="EngineCluster"}': `0x${COUNT - 1} 9` },
    { 'engine_gateway_held_deletions{kind="EngineCluster"}': `9x${COUNT - 1} 0` },
  ],
  [
    'EngineGatewayNoLeader',
    { 'leader_election_master_status{name="engine-gateway"}': `1x${COUNT - 20} 0x20` },
    {
      'leader_election_master_status{name="engine-gateway"}': steady(1),
      'leader_election_master_status{name="another-operator"}': steady(0),
    },
  ],
  [
    'EngineGatewayReconcileErrors',
    { 'controller_runtime_reconcile_errors_total{controller="enginecluster"}': growing(1) },
    { 'controller_runtime_reconcile_errors_total{controller="deployment"}': growing(9) },
  ],
  [
    'EngineGatewayStatusWritesFail',
    { 'engine_gateway_status_writes_total{result="failed"}': growing(1) },
    { 'engine_gateway_status_writes_total{result="written"}': growing(9) },
  ],
  [
    'EngineGatewayResourcesNotReady',
    { 'engine_gateway_resource_conditions{kind="EngineCluster",condition="Ready",status="False"}': late(1) },
    { 'engine_gateway_resource_conditions{kind="EngineCluster",condition="Active",status="False"}': late(1) },
  ],
  // The time of promtool's tests begins at 1970.
  [
    'EngineGatewayCertificateExpires',
    { 'engine_gateway_tls_certificate_expiry_timestamp_seconds{use="clients"}': steady(3 * 86_400) },
    { 'engine_gateway_tls_certificate_expiry_timestamp_seconds{use="clients"}': steady(30 * 86_400) },
  ],
  [
    'EngineGatewayCertificateRefused',
    { 'engine_gateway_tls_reloads_total{use="clients",result="refused"}': `0x${COUNT - 4} 1x4` },
    { 'engine_gateway_tls_reloads_total{use="clients",result="taken"}': `0x${COUNT - 4} 1x4` },
  ],
];

/** Names and labels as a ServiceMonitor gives them. */
const OF_TARGET = 'namespace="gw",job="engine-gateway",instance="10.0.0.1:8080"';

function inputSeries(series: Series) {
  return Object.entries(series).map(([name, values]) => ({
    series: name.includes('{') ? name.replace('}', `,${OF_TARGET}}`) : `${name}{${OF_TARGET}}`,
    values,
  }));
}

/** A unit test of promtool: exactly these alerts fire at the end. */
function ruleTest(series: Series, firing: readonly string[]) {
  return {
    interval: '30s',
    input_series: inputSeries(series),
    promql_expr_test: [
      {
        expr: 'group by (alertname, namespace) (ALERTS{alertstate="firing"})',
        eval_time: `${MINUTES}m`,
        exp_samples: [...firing].sort().map((name) => ({ labels: `{alertname="${name}",namespace="gw"}`, value: 1 })),
      },
    ],
  };
}

describe.skipIf(!hasPrometheus())('the alerts', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'eg-alerts-'));
    await writeFile(join(folder, 'alerts.yaml'), stringify(shippedAlerts));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));
  const check = async (...tests: readonly object[]): Promise<void> => {
    const file = join(folder, 'tests.yaml');
    await writeFile(file, stringify({ rule_files: ['alerts.yaml'], evaluation_interval: '1m', tests }));
    await promtool('test', 'rules', file);
  };

  test('are rules that Prometheus takes', async () => {
    await promtool('check', 'rules', join(folder, 'alerts.yaml'));
  });

  const both = cases.map(([name, fires, quiet, also = []]) => ({ name, fires, quiet, also }));
  test.each(both)('$name fires, and does not when something comes near', async ({ name, fires, quiet, also }) => {
    await check(ruleTest(fires, [name, ...also]), ruleTest(quiet, []));
  });
});

const alerts = shippedAlerts.groups.flatMap(({ rules }) => rules);

test('each alert has a case here and a runbook, and is named for what breaks', async () => {
  const names = alerts.map(({ alert }) => alert);
  expect(new Set(names).size).toBe(names.length);
  expect(cases.map(([name]) => name)).toEqual(names);
  const page = await readFile('docs/alerts.md', 'utf8');
  const [introduction = '', ...sections] = page.split(/^## /m);
  const [table = '', breakages = '', ...runbooks] = sections;
  expect(introduction).toContain('# Alerts');
  expect(table.split('\n').filter((line) => line.startsWith('| ['))).toEqual(
    alerts.map(
      ({ alert, for: duration, labels, annotations }) =>
        `| [${alert}](#${alert.toLowerCase()}) | ${labels.severity} | ${duration} | ${annotations.description} |`,
    ),
  );
  const linked = [...breakages.matchAll(/\]\(#(\w+)\)/g)].map(([, anchor]) => anchor);
  expect([...new Set(linked)].sort()).toEqual(names.map((name) => name.toLowerCase()).sort());
  expect(runbooks).toHaveLength(alerts.length);
  for (const [index, { alert, expr, for: duration, labels, annotations }] of alerts.entries()) {
    const after = duration === '0m' ? '' : `, after ${duration}`;
    const head = `Severity ${labels.severity}${after}. ${annotations.description}`;
    expect(runbooks[index]).toContain(`${alert}\n\n${head}\n\n\`\`\`promql\n${expr}\n\`\`\`\n\n- `);
    expect(annotations.runbook_url).toBe(`docs/alerts.md#${alert.toLowerCase()}`);
  }
});

test('alerts for controllers and conditions select those of all kinds', () => {
  const exprOf = (name: string) => alerts.find(({ alert }) => alert === name)?.expr;
  const controllers = resourceKinds.all.map(({ singular }) => singular).join('|');
  expect(exprOf('EngineGatewayReconcileErrors')).toContain(`controller=~"${controllers}"`);
  const kinds = resourceKinds.all.map(({ kind }) => kind).join('|');
  expect(exprOf('EngineGatewayResourcesNotReady')).toContain(`kind=~"${kinds}"`);
});
