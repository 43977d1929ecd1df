import { stringify } from 'yaml';
import { clusters, controllerNames, kindNames, plurals, rules, statuses } from './kindNames.ts';

/** How soon somebody has to look: at once, in working hours. */
export type Severity = 'critical' | 'warning';

/** An alert with its part of docs/alerts.md. */
export interface Alert {
  readonly name: string;
  readonly group: string;
  readonly severity: Severity;
  /** PromQL; labels that stay name what is concerned. */
  readonly expr: string;
  /** How long the expression must hold, as Prometheus writes durations. */
  readonly for: string;
  /** One line; may name labels of the expression as `{{ $labels.cluster }}`. */
  readonly summary: string;
  /** What it means for clients. */
  readonly meaning: string;
  /** What to look at and what to do, a step each, in Markdown. */
  readonly runbook: readonly string[];
}

/** Labels by which installations differ; without Kubernetes `namespace` is empty. */
const BY = 'namespace, job';
/** Restricts metrics that every Node.js program has to gateways. */
const OF_GATEWAY = 'and on (namespace, job, instance) engine_gateway_build_info';
/** Restricts metrics that every operator has to this one. */
const OWN_CONTROLLERS = `controller=~"${controllerNames}"`;

/** Queries that failed (docs/metrics.md#failed-queries). */
const FAILED_QUERIES = 'engine_gateway_queries_ended_total{state=~"failed|lost|refused"}';

/** Whether a counter whose series begin with the first event has grown: `increase` does not see that first one. */
const grown = (by: string, counter: string): string =>
  `sum by (${by}) (increase(${counter}[15m])) > 0 or sum by (${by}) (${counter} unless ${counter} offset 15m) > 0`;

/** All alerts, in the order of docs/alerts.md. */
export const alerts: readonly Alert[] = [
  {
    name: 'EngineGatewayDown',
    group: 'replicas',
    severity: 'critical',
    expr: `count by (${BY}) (max_over_time(engine_gateway_build_info[6h])) unless count by (${BY}) (engine_gateway_build_info)`,
    for: '1m',
    summary: 'No replica of the gateway {{ $labels.job }} can be scraped.',
    meaning:
      'Clients are most likely not served at all. The alert ends six hours after the last replica was seen, also when the gateway was removed on purpose.',
    runbook: [
      'Look at the pods or processes: `kubectl get pods`, their events, the last lines of their log. A gateway that cannot start says why in its last line.',
      'Replicas that run and are not scraped: see that Prometheus reaches `/metrics` (network policy, ServiceMonitor, `server.adminPort`).',
      'After a change of configuration or version, go back to the one before.',
    ],
  },
  {
    name: 'EngineGatewayReplicaDown',
    group: 'replicas',
    severity: 'warning',
    expr: `(up == 0) and on (namespace, job, instance) max_over_time(engine_gateway_build_info[1h])`,
    for: '2m',
    summary: 'The replica {{ $labels.instance }} does not answer scrapes.',
    meaning:
      'It was killed, hangs, or cannot be reached. Its queries go on through the other replicas, which know the owner of every query; those in the middle of a request ask again.',
    runbook: [
      'See whether the process runs, and whether `/livez` answers.',
      'One that was killed for memory: see [EngineGatewayMemory](#enginegatewaymemory).',
      'One that hangs: its leadership goes to another replica; restart it.',
    ],
  },
  {
    name: 'EngineGatewayRestarts',
    group: 'replicas',
    severity: 'warning',
    expr: `changes(process_start_time_seconds[30m]) > 2 ${OF_GATEWAY}`,
    for: '0m',
    summary: 'The replica {{ $labels.instance }} was restarted {{ $value }} times within 30 minutes.',
    meaning: 'Each restart breaks requests on their way through it, and loses at most 200 ms of history.',
    runbook: [
      'Read the log of the earlier container: `kubectl logs --previous`. The exit code 137 is the memory limit or a probe.',
      'A liveness probe that fails while the gateway works: see [EngineGatewayEventLoopDelay](#enginegatewayeventloopdelay).',
    ],
  },
  {
    name: 'EngineGatewayConfigurationNotApplied',
    group: 'replicas',
    severity: 'warning',
    expr: `max by (${BY}, reason) (engine_gateway_configuration_unapplied) > 0`,
    for: '10m',
    summary:
      'A change of the configuration of {{ $labels.job }} is not active ({{ $labels.reason }}: {{ $value }} mistakes or keys).',
    meaning:
      'Replicas run with an earlier configuration than their files have. With `rejected` a replica that restarts does not start; with `restart` replicas behave differently after their next restart.',
    runbook: [
      '`/readyz?verbose` of a replica, line `configuration`, names the file, line and key of mistakes, and the keys that need a restart.',
      '`rejected`: read the messages in the log (`changed configuration refused`) or from `engine-gateway config --config FILE`, and correct the files. Nothing of the change is active until then.',
      '`restart`: restart the replicas one after the other (`kubectl rollout restart`), or take the change back.',
    ],
  },
  {
    name: 'EngineGatewayEventLoopDelay',
    group: 'replicas',
    severity: 'warning',
    expr: `nodejs_eventloop_lag_p99_seconds > 0.25 ${OF_GATEWAY}`,
    for: '5m',
    summary: 'The event loop of {{ $labels.instance }} is late by {{ $value | humanizeDuration }} (p99).',
    meaning: 'Every request waits that much longer at each of its steps.',
    runbook: [
      'Compare with the processor time in the dashboard *Engine Gateway / Process*: near 1, the replica has more than it can do; add replicas.',
      'Little processor time: the node is overcommitted, or the container is throttled by a CPU limit (the manifests set none).',
      'A rule that takes long shows in its explanation (`POST /api/explain`); hostile requests in [when things break](reliability.md#hostile-and-slow-clients).',
    ],
  },
  {
    name: 'EngineGatewayMemory',
    group: 'replicas',
    severity: 'warning',
    expr: `process_resident_memory_bytes / on (namespace, job, instance) engine_gateway_memory_limit_bytes > 0.9`,
    for: '10m',
    summary: 'The replica {{ $labels.instance }} holds {{ $value | humanizePercentage }} of its memory limit.',
    meaning: 'It is killed when it reaches the limit.',
    runbook: [
      'See what holds it in the dashboard *Engine Gateway / Process*: the heap, buffers (`nodejs_external_memory_bytes`), bodies of requests.',
      'Lower `server.requestMemory`, `server.maxConnections` or `server.maxHttp2Connections`, or raise the limit of the container; see [serving](serving.md#limits).',
    ],
  },
  {
    name: 'EngineGatewayOpenFiles',
    group: 'replicas',
    severity: 'warning',
    expr: `process_open_fds / process_max_fds > 0.8 ${OF_GATEWAY}`,
    for: '10m',
    summary:
      'The replica {{ $labels.instance }} has {{ $value | humanizePercentage }} of the open files that it may have.',
    meaning: 'Without files, neither clients nor clusters can be connected.',
    runbook: ['Raise the limit (`ulimit -n`, `LimitNOFILE`), or lower `server.maxConnections`.'],
  },
  {
    name: 'EngineGatewayErrors',
    group: 'requests',
    severity: 'critical',
    expr: `sum by (${BY}) (rate(engine_gateway_requests_total{kind=~"submission|follow_up",status="5xx"}[5m]))
  / sum by (${BY}) (rate(engine_gateway_requests_total{kind=~"submission|follow_up"}[5m])) > 0.05`,
    for: '5m',
    summary: '{{ $value | humanizePercentage }} of the requests for queries are answered 5xx.',
    meaning: 'Clients of the protocol ask again; others see errors.',
    runbook: [
      'Refusals by reason (`engine_gateway_refusals_total`) say what the gateway lacks; [the reasons](routing.md#refusals).',
      'Errors of clusters by type (`engine_gateway_cluster_errors_total`) say which cluster fails, and how.',
      'The log line of a query, and `GET /api/queries/{id}`, say where it went and why.',
    ],
  },
  {
    name: 'EngineGatewayRefusals',
    group: 'requests',
    severity: 'warning',
    expr: `sum by (${BY}, reason) (rate(engine_gateway_refusals_total{reason=~"no_cluster|overloaded|owner_gone|ownership_conflict|undecided_query|undecided_transaction|external_errors|rule_failed"}[5m])) > 0.1`,
    for: '5m',
    summary: 'Requests are refused with {{ $labels.reason }}, {{ $value | humanize }} a second.',
    meaning: 'Clients see the refusal with its message. Refusals that are a matter of the client are not counted here.',
    runbook: [
      'The message says which group or cluster is concerned, and [refusals](routing.md#refusals) what each reason means; with `logging.level: debug` it is in the log.',
      '`POST /api/explain` with the query shows why no cluster takes it.',
    ],
  },
  {
    name: 'EngineGatewayQueriesFail',
    group: 'requests',
    severity: 'warning',
    expr: `sum by (${BY}) (rate(${FAILED_QUERIES}[5m])) / sum by (${BY}) (rate(engine_gateway_queries_ended_total[5m])) > 0.05
  and sum by (${BY}) (increase(${FAILED_QUERIES}[5m])) >= 5`,
    for: '5m',
    summary: '{{ $value | humanizePercentage }} of the queries that end fail, are lost or are refused.',
    meaning: 'Users see errors that are not their own. [Errors of users](metrics.md#failed-queries) are not counted.',
    runbook: [
      'The dashboard of the user interface names the clusters and routing groups, and the most frequent errors; each leads to its queries.',
      'Types of errors (`engine_gateway_query_failures_total`) show whether clusters lack resources or are broken.',
    ],
  },
  {
    name: 'EngineGatewaySlowSubmissions',
    group: 'requests',
    severity: 'warning',
    expr: `histogram_quantile(0.99, sum by (${BY}, routing_group, le) (rate(engine_gateway_cluster_request_duration_seconds_bucket{kind="submission"}[5m]))) > 10`,
    for: '10m',
    summary: 'Clusters of {{ $labels.routing_group }} take {{ $value | humanizeDuration }} to accept a query (p99).',
    meaning: 'Clients wait before their query is even queued.',
    runbook: [
      'The dashboard *Engine Gateway / Clusters and groups* shows which cluster it is; its coordinator is busy or collects garbage.',
      'Where all are slow, look at [EngineGatewayEventLoopDelay](#enginegatewayeventloopdelay) and at the database.',
      'Add clusters to the group, or deactivate the slow one.',
    ],
  },
  {
    name: 'EngineGatewayRequestMemoryFull',
    group: 'requests',
    severity: 'warning',
    expr: `sum by (${BY}) (rate(engine_gateway_request_bodies_refused_total{reason="request_memory"}[5m])) > 0`,
    for: '2m',
    summary: 'Requests are refused, as there is no memory for their bodies and heads.',
    meaning: 'Clients see 503 with `Retry-After`.',
    runbook: [
      'Find out who sends large or slow bodies: the load balancer’s log, `engine_gateway_request_memory_bytes` by replica.',
      'Raise `server.requestMemory` with the memory of the container, add replicas, or lower `server.maxBodySize`.',
    ],
  },
  {
    name: 'EngineGatewayHttp2Full',
    group: 'requests',
    severity: 'warning',
    expr: `sum by (${BY}) (rate(engine_gateway_http2_declined_total{reason="limit"}[5m])) > 0`,
    for: '10m',
    summary: 'Clients are not given HTTP/2, as many connections speak it as may.',
    meaning: 'They speak HTTP/1.1 instead, with more connections.',
    runbook: [
      'Raise `server.maxHttp2Connections` with the memory of the container, or add replicas; see [HTTP/2](serving.md#http2).',
    ],
  },
  {
    name: 'EngineGatewayHttp2Evictions',
    group: 'requests',
    severity: 'warning',
    expr: `sum by (${BY}) (rate(engine_gateway_http2_evicted_total[5m])) > 0`,
    for: '5m',
    summary: 'Connections over HTTP/2 are ended, as they have the most of too many requests at once.',
    meaning: 'Their clients see GOAWAY and connect again.',
    runbook: [
      'Find the client that opens so many requests. Where they are meant, add replicas; see [HTTP/2](serving.md#http2).',
    ],
  },
  {
    name: 'EngineGatewayRoutingGroupDown',
    group: 'clusters',
    severity: 'critical',
    expr: `(sum by (${BY}, routing_group) (engine_gateway_cluster_status{status="HEALTHY"} * ignoring (status) engine_gateway_cluster_active) == 0)
  and on (namespace, job, routing_group) (sum by (${BY}, routing_group) (engine_gateway_cluster_active) > 0)`,
    for: '1m',
    summary: 'No active cluster of the routing group {{ $labels.routing_group }} is healthy.',
    meaning: 'New queries of the group are refused with `no_cluster`, unless the group has a fallback.',
    runbook: [
      `The page *Backends*, or the condition \`Healthy\` (\`kubectl get ${clusters}\`), says what the health check of each cluster found.`,
      'Clusters that are well and cannot be reached: network policy, DNS, certificates, credentials of health checks ([health](health.md)).',
      'Move another cluster into the group, or activate one, until they are back.',
    ],
  },
  {
    name: 'EngineGatewayClusterDown',
    group: 'clusters',
    severity: 'warning',
    expr: `(max by (${BY}, cluster, routing_group) (engine_gateway_cluster_status{status="UNHEALTHY"}) == 1)
  and on (namespace, job, cluster) (max by (${BY}, cluster) (engine_gateway_cluster_active) == 1)`,
    for: '5m',
    summary: 'The active cluster {{ $labels.cluster }} ({{ $labels.routing_group }}) is unhealthy.',
    meaning: 'New queries go to the other clusters of the group. Queries that run on a cluster that died fail.',
    runbook: [
      'The condition `Healthy` and the page *Backends* say what the health check, or a real request, found.',
      'A cluster that is down on purpose: deactivate it, and the alert ends.',
      'Healthy by its own account: see the path from the gateway to it, and [health](health.md) for what the check asks.',
    ],
  },
  {
    name: 'EngineGatewayClusterFlapping',
    group: 'clusters',
    severity: 'warning',
    expr: `sum by (${BY}, cluster) (increase(engine_gateway_cluster_taken_out_total[30m])) > 5`,
    for: '0m',
    summary:
      'Real requests took the cluster {{ $labels.cluster }} out {{ $value | humanize }} times within 30 minutes.',
    meaning: 'Its health check finds it healthy, and its queries fail again and again.',
    runbook: [
      'The label `cause` of `engine_gateway_cluster_taken_out_total` says whether connections fail or answers are 5xx.',
      'The page *Backends* shows since when it is flapping; [ejection](health.md#ejection) limits what it costs.',
      'A check that asks more than `INFO_API` ([types of checks](health.md#types-of-checks)) sees what queries see.',
      'Deactivate the cluster until its cause is known.',
    ],
  },
  {
    name: 'EngineGatewayClusterErrors',
    group: 'clusters',
    severity: 'warning',
    expr: `sum by (${BY}, cluster, type) (rate(engine_gateway_cluster_errors_total[5m])) > 0.1`,
    for: '5m',
    summary: 'The cluster {{ $labels.cluster }} fails requests ({{ $labels.type }}), {{ $value | humanize }} a second.',
    meaning:
      'Submissions that it has not taken are sent to other clusters; those that it may have taken, and follow-ups, are answered 502 and asked again.',
    runbook: [
      '`connect`: it does not take connections; `reset`: it closes them, see idle times of load balancers before it; `timeout`: no answer within `routing.asyncTimeout`; `protocol`: what it answers is no HTTP.',
      'A cluster that answers health checks and hangs with queries: deactivate it.',
    ],
  },
  {
    name: 'EngineGatewayOwnershipConflict',
    group: 'clusters',
    severity: 'critical',
    expr: grown(`${BY}, cluster, owner`, 'engine_gateway_ownership_conflicts_total'),
    for: '0m',
    summary: 'The cluster {{ $labels.cluster }} answers with query ids of {{ $labels.owner }}.',
    meaning: 'The answers are refused, so that no results go astray. Two clusters share a suffix, or one is hostile.',
    runbook: [
      'Restart the coordinator of the cluster that came later: it takes a new suffix.',
      'A cluster that took over after another one was lost: see `routing.ownerTakeover` in [routing](routing.md#who-owns-a-query-id).',
      'Where it goes on, deactivate the cluster and find out who runs it.',
    ],
  },
  {
    name: 'EngineGatewayRuleFailures',
    group: 'rules',
    severity: 'warning',
    expr: grown(`${BY}, rule, origin`, 'engine_gateway_rule_failures_total'),
    for: '0m',
    summary: 'The rule {{ $labels.rule }} ({{ $labels.origin }}) fails for requests.',
    meaning: 'The rule is skipped for them, or they are refused, as `routingRules.onRuleError` says.',
    runbook: [
      'The condition `Failing` of the rule, and the log (`a rule failed`), have the message with field, line and column.',
      'Try a corrected rule with `POST /api/explain` or `engine-gateway evaluate`.',
    ],
  },
  {
    name: 'EngineGatewayRulesRejected',
    group: 'rules',
    severity: 'warning',
    expr: `max by (${BY}, origin) (engine_gateway_rules_rejected) > 0`,
    for: '5m',
    summary: '{{ $value }} rules ({{ $labels.origin }}) are not used as they are written.',
    meaning:
      'The last version that compiled stays in force, or none. With `onFileError: header` a file with mistakes routes by the header.',
    runbook: [
      `Resources: the condition \`Accepted\` says what is wrong (\`kubectl get ${rules}\`). File: the page *Rules*, or \`GET /api/rules\`.`,
      '`engine-gateway validate PATH` finds the same mistakes before they are applied.',
    ],
  },
  {
    name: 'EngineGatewayExternalRulesUnavailable',
    group: 'rules',
    severity: 'warning',
    expr: `max by (${BY}) (engine_gateway_external_rules_circuit_open) == 1`,
    for: '1m',
    summary: 'The external rules service is left alone after failures.',
    meaning: 'Header and default group decide meanwhile; one query every `retryAfter` tries the service.',
    runbook: [
      '`/readyz?verbose` has the last failure; `engine_gateway_external_rules_duration_seconds` says how slow the service was.',
      'Bring the service back; the gateway finds out itself ([external rules](rules.md#an-external-rules-service)).',
    ],
  },
  {
    name: 'EngineGatewayDatabaseUnavailable',
    group: 'database',
    severity: 'critical',
    expr: `min by (${BY}) (engine_gateway_database_available) == 0`,
    for: '1m',
    summary: 'A replica cannot read the database.',
    meaning:
      'Queries are served. History waits in memory and on disk; owners of new coordinators are not stored, so that a query may be unknown to another replica; REST writes and logins may fail.',
    runbook: [
      '`/readyz?verbose` has the error. See whether the database runs, takes connections, and has a free connection for each replica’s pool.',
      'Only some replicas: network policy, DNS, credentials that were changed.',
      'Before the disk of the spill directory is full: `engine_gateway_history_depth{place="disk"}`.',
    ],
  },
  {
    name: 'EngineGatewayHistorySpilling',
    group: 'database',
    severity: 'warning',
    expr: `sum by (${BY}) (engine_gateway_history_depth{place="disk"}) > 0`,
    for: '10m',
    summary: '{{ $value | humanize }} queries of the history wait on disk.',
    meaning:
      'The database is unavailable or too slow for the queries there are. Nothing is lost while the disk has room.',
    runbook: [
      'See [EngineGatewayDatabaseUnavailable](#enginegatewaydatabaseunavailable).',
      'Slow: `engine_gateway_history_batch_seconds`, locks and the disk of the database; shorten `dataStore.queryHistoryHoursRetention`.',
    ],
  },
  {
    name: 'EngineGatewayHistoryLost',
    group: 'database',
    severity: 'critical',
    expr: `sum by (${BY}, reason) (increase(engine_gateway_history_lost_total[15m])) > 0`,
    for: '0m',
    summary: '{{ $value | humanize }} queries are missing in the history ({{ $labels.reason }}).',
    meaning: 'Clients notice nothing. The history, and reports made of it, lack these queries for good.',
    runbook: [
      '`memory`: set `queryHistory.spillDirectory`; `disk`: make room there; `refused`: the log has the database’s error; `torn`: the disk of the spill directory.',
    ],
  },
  {
    name: 'EngineGatewaySourceUnavailable',
    group: 'operator',
    severity: 'warning',
    expr: `min by (${BY}) (engine_gateway_resource_source_available) == 0`,
    for: '5m',
    summary: 'The resource source (API server, directory or database) cannot be read.',
    meaning: 'Routing goes on by what is known. Changes of clusters and rules take no effect until it is back.',
    runbook: [
      '`/readyz?verbose` and the log (`the API server cannot be followed`) have the reason.',
      'The API server answers others: see the gateway’s service account and Role (403), the CRDs (404), the network policy.',
      'After a restore of etcd nothing is to be done: see [a restored etcd](reliability.md#a-restored-etcd).',
    ],
  },
  {
    name: 'EngineGatewaySourceProblems',
    group: 'operator',
    severity: 'warning',
    expr: `max by (${BY}) (engine_gateway_resource_source_problems) > 0`,
    for: '5m',
    summary: '{{ $value }} documents of the resource source cannot be read.',
    meaning: 'What they declare stays as it was last known.',
    runbook: [
      '`/readyz?verbose` names file and line. `engine-gateway validate PATH` finds them before they are deployed.',
    ],
  },
  {
    name: 'EngineGatewayDeletionsHeld',
    group: 'operator',
    severity: 'critical',
    expr: `max by (${BY}, kind) (engine_gateway_held_deletions) > 0`,
    for: '0m',
    summary: '{{ $value }} {{ $labels.kind }} resources were lost at once and stay routed until that is confirmed.',
    meaning: 'Clients notice nothing. After `resources.massDeletion.confirmAfter` (an hour) the loss is believed.',
    runbook: [
      'Find out what deleted them: a CRD, an empty restore, a GitOps tool that prunes. `GET /api/heldDeletions` names them.',
      'Not meant: declare them again, from Git or from `engine-gateway export`.',
      'Meant: `POST /api/heldDeletions/confirm`; see [mass deletions](reliability.md#a-source-that-loses-most-of-its-resources).',
    ],
  },
  {
    name: 'EngineGatewayNoLeader',
    group: 'operator',
    severity: 'warning',
    expr: `sum by (${BY}) (leader_election_master_status{name="engine-gateway"}) == 0`,
    for: '2m',
    summary: 'No replica of the gateway is the leader.',
    meaning: 'Queries are served. Statuses, and what no REST call projected into the database, are not written.',
    runbook: [
      'With Kubernetes: `kubectl get lease engine-gateway -o yaml` names the holder; the Role must allow leases.',
      'The database has to be available as well: its row fences what a leader writes.',
    ],
  },
  {
    name: 'EngineGatewayReconcileErrors',
    group: 'operator',
    severity: 'warning',
    expr: `sum by (${BY}, controller) (rate(controller_runtime_reconcile_errors_total{${OWN_CONTROLLERS}}[5m])) > 0`,
    for: '10m',
    summary: 'Reconciles of {{ $labels.controller }} resources fail.',
    meaning:
      'The table of each replica is right; the database’s copy, and statuses, are behind. They are repeated with back-off.',
    runbook: ['The log (`reconciling failed`) has key and error; most often the database is unavailable.'],
  },
  {
    name: 'EngineGatewayStatusWritesFail',
    group: 'operator',
    severity: 'warning',
    expr: `sum by (${BY}) (rate(engine_gateway_status_writes_total{result="failed"}[5m])) > 0`,
    for: '10m',
    summary: 'Statuses of resources cannot be written.',
    meaning: 'What `kubectl get` and GitOps tools show is old; routing is not concerned.',
    runbook: [
      `The log names each cause once in five minutes: 403 (the Role lacks ${statuses}), 422 (CRDs older than the gateway), 429 (the API server is overloaded).`,
      '`rest_client_requests_total` by code shows what the API server answers.',
    ],
  },
  {
    name: 'EngineGatewayResourcesNotReady',
    group: 'operator',
    severity: 'warning',
    expr: `max by (${BY}, kind) (engine_gateway_resource_conditions{kind=~"${kindNames}",condition="Ready",status="False"}) > 0`,
    for: '10m',
    summary: '{{ $value }} {{ $labels.kind }} resources are not ready.',
    meaning: 'They are not in force as they are declared.',
    runbook: [
      '`engine_gateway_unready_resource_conditions{condition="Ready"}` names them by `resource_namespace` and `resource_name`, with their other conditions.',
      `\`kubectl get ${plurals} -A\` shows them as well; the condition \`Ready\` says why, and what to do.`,
    ],
  },
  {
    name: 'EngineGatewayCertificateExpires',
    group: 'certificates',
    severity: 'warning',
    expr: `min by (${BY}, use) (engine_gateway_tls_certificate_expiry_timestamp_seconds) - time() < 7 * 86400`,
    for: '10m',
    summary: 'The certificate for {{ $labels.use }} ends in {{ $value | humanizeDuration }}.',
    meaning: 'Afterwards clients, clusters or the rules service refuse connections.',
    runbook: [
      'Renew it; changed files are taken without a restart ([certificates](serving.md#certificate-files)).',
      'With cert-manager: `kubectl describe certificate`. A renewed file that is not taken: [EngineGatewayCertificateRefused](#enginegatewaycertificaterefused).',
    ],
  },
  {
    name: 'EngineGatewayCertificateRefused',
    group: 'certificates',
    severity: 'warning',
    expr: `sum by (${BY}, use) (increase(engine_gateway_tls_reloads_total{result="refused"}[1h])) > 0`,
    for: '0m',
    summary: 'Changed certificate files for {{ $labels.use }} were refused.',
    meaning: 'The certificate before them stays in use until it ends.',
    runbook: [
      'The log says what is wrong: a key that does not fit, a chain that is incomplete, a file that is no PEM.',
    ],
  },
];

/** What can be seen in Prometheus of each thing that breaks; those without an alert concern nobody or somebody else. */
export const breakages: readonly (readonly [what: string, alertNames: readonly string[]])[] = [
  [
    '[a cluster](reliability.md#clusters) dies, hangs, stops or answers 503',
    [
      'EngineGatewayClusterDown',
      'EngineGatewayClusterErrors',
      'EngineGatewayClusterFlapping',
      'EngineGatewayRoutingGroupDown',
    ],
  ],
  [
    'a cluster is gone for good, and another one gives out ids with its suffix; [hostile clusters](reliability.md#hostile-clusters)',
    ['EngineGatewayOwnershipConflict'],
  ],
  ['a cluster’s address changes', []],
  [
    'the [database](reliability.md#database-api-server-disk-clock) is unavailable or hangs',
    ['EngineGatewayDatabaseUnavailable', 'EngineGatewayHistorySpilling', 'EngineGatewayReconcileErrors'],
  ],
  ['the disk for the waiting history is full', ['EngineGatewayHistoryLost']],
  [
    'the API server is unavailable; [etcd is restored](reliability.md#a-restored-etcd)',
    ['EngineGatewaySourceUnavailable', 'EngineGatewayStatusWritesFail', 'EngineGatewayNoLeader'],
  ],
  [
    'the CRD, or [most resources of a kind](reliability.md#a-source-that-loses-most-of-its-resources), are deleted at once',
    ['EngineGatewayDeletionsHeld'],
  ],
  ['the external rules service hangs', ['EngineGatewayExternalRulesUnavailable']],
  ['the time of day is set (alerts of the node watch clocks)', []],
  [
    'a [replica](reliability.md#replicas) is killed, hangs or is restarted',
    ['EngineGatewayReplicaDown', 'EngineGatewayDown', 'EngineGatewayRestarts'],
  ],
  ['a replica is stopped cleanly', []],
  [
    'a changed [configuration file](configuration.md) has mistakes, or keys that need a restart',
    ['EngineGatewayConfigurationNotApplied'],
  ],
  [
    'resources or rules with mistakes',
    [
      'EngineGatewayRulesRejected',
      'EngineGatewayRuleFailures',
      'EngineGatewayResourcesNotReady',
      'EngineGatewaySourceProblems',
    ],
  ],
  [
    '[hostile and slow clients](reliability.md#hostile-and-slow-clients)',
    [
      'EngineGatewayRequestMemoryFull',
      'EngineGatewayHttp2Full',
      'EngineGatewayHttp2Evictions',
      'EngineGatewayEventLoopDelay',
      'EngineGatewayMemory',
      'EngineGatewayOpenFiles',
    ],
  ],
  [
    'certificates that end, or are changed for bad ones',
    ['EngineGatewayCertificateExpires', 'EngineGatewayCertificateRefused'],
  ],
  [
    'whatever else clients notice',
    ['EngineGatewayErrors', 'EngineGatewayRefusals', 'EngineGatewayQueriesFail', 'EngineGatewaySlowSubmissions'],
  ],
];

/** Anchor of an alert's section in docs/alerts.md. */
const anchorOf = ({ name }: Alert): string => name.toLowerCase();

/** Groups as a rule file of Prometheus has them. */
function ruleGroups() {
  const names = [...new Set(alerts.map(({ group }) => group))];
  return names.map((group) => ({
    name: `engine-gateway-${group}`,
    rules: alerts
      .filter((alert) => alert.group === group)
      .map((alert) => ({
        alert: alert.name,
        expr: alert.expr,
        for: alert.for,
        labels: { severity: alert.severity },
        annotations: {
          summary: alert.summary,
          description: alert.meaning,
          runbook_url: `docs/alerts.md#${anchorOf(alert)}`,
        },
      })),
  }));
}

const header = '# Generated by "npm run generate" from scripts/monitoring/alerts.ts; do not edit.\n';
const yaml = (value: unknown): string => header + stringify(value, { lineWidth: 0 });

/** A rule file for Prometheus itself. */
export const alertRules = (): string => yaml({ groups: ruleGroups() });

/** The same for the Prometheus operator. */
export const prometheusRule = (): string =>
  yaml({
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: { name: 'engine-gateway', namespace: 'engine-gateway' },
    spec: { groups: ruleGroups() },
  });

/** docs/alerts.md. */
export function alertsPage(): string {
  const link = (name: string): string => `[${name}](#${name.toLowerCase()})`;
  const table = alerts.map((alert) => `| ${link(alert.name)} | ${alert.severity} | ${alert.for} | ${alert.meaning} |`);
  const rows = breakages.map(
    ([what, names]) => `| ${what} | ${names.map(link).join(', ') || 'none: nobody has to do anything'} |`,
  );
  return `${introduction}

## All alerts

| alert | severity | for | what it means |
|---|---|---|---|
${table.join('\n')}

## What breaks, and which alert says so

The rows of [when things break](reliability.md), and more.

| what breaks | alerts |
|---|---|
${rows.join('\n')}

${alerts.map(section).join('\n\n')}
`;
}

function section(alert: Alert): string {
  return `## ${alert.name}

Severity ${alert.severity}${alert.for === '0m' ? '' : `, after ${alert.for}`}. ${alert.meaning}

\`\`\`promql
${alert.expr}
\`\`\`

${alert.runbook.map((step) => `- ${step}`).join('\n')}`;
}

const introduction = `# Alerts

<!-- Generated by "npm run generate" from scripts/monitoring/alerts.ts; do not edit. -->

Rules for Prometheus, each with what to do when it fires. Severity *critical* asks for somebody at once, *warning* in working hours.

| where | how |
|---|---|
| chart | \`metrics.prometheusRule.enabled\`; \`labels\` are those that your Prometheus selects rules by, \`runbookUrl\` is where you publish this page, \`disabled\` names alerts that are left out, \`severities\` replaces severities |
| kustomize | the component \`manifests/components/monitoring\` |
| Prometheus without the operator | \`rule_files: [manifests/components/monitoring/alerts.yaml]\` |

The rules keep the labels \`namespace\` and \`job\`, so that several installations in one Prometheus stay apart; \`job\` must be the same for
all replicas of one installation, as a ServiceMonitor makes it. Times suit scrapes every 30 seconds and shorter intervals.

\`promtool check rules\` and a unit test for each alert, both ways, run in \`npm run test:observability\`; it and the suite of faults show
that expressions become true for their fault in a real Prometheus, the soak that no alert fires without one.`;
