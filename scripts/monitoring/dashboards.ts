import { builtDashboard, type DashboardDraft, type LabelVariable, type Panel, type Query } from './dashboard.ts';
import { controllerNames } from './kindNames.ts';

/** Selects the chosen installations; every query has it. */
const JOB = 'job=~"$job"';
const job: LabelVariable = {
  name: 'job',
  label: 'Installation',
  query: 'label_values(engine_gateway_build_info, job)',
};

const number = (title: string, unit: string, expr: string, description?: string): Panel => ({
  title,
  kind: 'number',
  unit,
  queries: [[expr, '']],
  ...(description === undefined ? {} : { description }),
});
const lines = (title: string, unit: string, ...queries: readonly Query[]): Panel => ({
  title,
  kind: 'lines',
  unit,
  queries,
});
const stacked = (title: string, unit: string, ...queries: readonly Query[]): Panel => ({
  title,
  kind: 'stacked',
  unit,
  queries,
});

/** Growth a second of a counter, summed by labels; `more` selects further labels. */
const rate = (counter: string, by: string, more = ''): string =>
  `sum by (${by}) (rate(${counter}{${JOB}${more}}[$__rate_interval]))`;
/** Quantiles 0.5, 0.95 and 0.99 of a histogram. */
const quantiles = (histogram: string, more = ''): readonly Query[] =>
  ['0.5', '0.95', '0.99'].map((quantile) => [
    `histogram_quantile(${quantile}, sum by (le) (rate(${histogram}_bucket{${JOB}${more}}[$__rate_interval])))`,
    `p${Number(quantile) * 100}`,
  ]);
/** The quantile 0.99 of a histogram by a label. */
const p99 = (histogram: string, by: string, more = ''): Query => [
  `histogram_quantile(0.99, sum by (${by}, le) (rate(${histogram}_bucket{${JOB}${more}}[$__rate_interval])))`,
  `{{${by}}}`,
];
/** Restricts metrics that every program has to gateways. */
const OF_GATEWAY = 'and on (job, instance) engine_gateway_build_info';

const overview: DashboardDraft = {
  name: 'overview',
  title: 'Overview',
  description: 'Is the gateway well, and are queries served?',
  variables: [job],
  rows: [
    {
      title: 'State',
      panels: [
        number('Replicas', 'short', `count(engine_gateway_build_info{${JOB}})`),
        number('Leaders', 'short', `sum(engine_gateway_leader{${JOB}})`, 'One for each installation.'),
        number(
          'Healthy clusters',
          'short',
          `sum(max by (cluster) (engine_gateway_cluster_status{${JOB},status="HEALTHY"}))`,
        ),
        number(
          'Clusters down',
          'short',
          `sum(max by (cluster) (engine_gateway_cluster_status{${JOB},status="UNHEALTHY"} * ignoring (status) engine_gateway_cluster_active))`,
          'Active clusters that are unhealthy.',
        ),
        number('Database', 'short', `min(engine_gateway_database_available{${JOB}})`, '1: every replica can read it.'),
        number(
          'Resource source',
          'short',
          `min(engine_gateway_resource_source_available{${JOB}})`,
          '1: every replica can read it.',
        ),
      ],
    },
    {
      title: 'Queries',
      panels: [
        lines('Queries a second', 'reqps', [rate('engine_gateway_statement_submissions_total', 'job'), '{{job}}']),
        stacked('Requests by kind', 'reqps', [rate('engine_gateway_requests_total', 'kind'), '{{kind}}']),
        stacked('Answers by status', 'reqps', [rate('engine_gateway_requests_total', 'status'), '{{status}}']),
        lines(
          'Time until a query is accepted',
          's',
          ...quantiles('engine_gateway_request_duration_seconds', ',kind="submission"'),
        ),
        lines('Time of follow-ups', 's', ...quantiles('engine_gateway_request_duration_seconds', ',kind="follow_up"')),
        lines('Refusals by reason', 'reqps', [rate('engine_gateway_refusals_total', 'reason'), '{{reason}}']),
      ],
    },
    {
      title: 'Clusters',
      panels: [
        stacked('Submissions by routing group', 'reqps', [
          rate('engine_gateway_cluster_request_duration_seconds_count', 'routing_group', ',kind="submission"'),
          '{{routing_group}}',
        ]),
        lines('Requests that clusters failed', 'reqps', [
          rate('engine_gateway_cluster_errors_total', 'cluster, type'),
          '{{cluster}} {{type}}',
        ]),
        lines('Submissions sent to another cluster', 'reqps', [
          rate('engine_gateway_submission_retries_total', 'cluster'),
          'after {{cluster}}',
        ]),
      ],
    },
    {
      title: 'History',
      panels: [
        stacked('Queries not yet in the database', 'short', [
          `sum by (place) (engine_gateway_history_depth{${JOB}})`,
          '{{place}}',
        ]),
        lines(
          'Queries written and lost a second',
          'ops',
          [rate('engine_gateway_history_written_total', 'job'), 'written'],
          [rate('engine_gateway_history_lost_total', 'reason'), 'lost: {{reason}}'],
        ),
        lines('Time to write a batch', 's', ...quantiles('engine_gateway_history_batch_seconds')),
      ],
    },
  ],
};

const GROUP = ',routing_group=~"$routing_group"';
const CLUSTER = `${GROUP},cluster=~"$cluster"`;
/** Restricts metrics without the group to clusters of the chosen groups. */
const OF_GROUP = `and on (job, instance, cluster) engine_gateway_cluster_active{${JOB}${CLUSTER}}`;

const clusters: DashboardDraft = {
  name: 'clusters',
  title: 'Clusters and groups',
  description: 'One routing group, or one cluster: choose them above.',
  variables: [
    job,
    {
      name: 'routing_group',
      label: 'Routing group',
      query: 'label_values(engine_gateway_cluster_active{job=~"$job"}, routing_group)',
    },
    {
      name: 'cluster',
      label: 'Cluster',
      query: 'label_values(engine_gateway_cluster_active{job=~"$job",routing_group=~"$routing_group"}, cluster)',
    },
  ],
  rows: [
    {
      title: 'State',
      panels: [
        number('Clusters', 'short', `count(max by (cluster) (engine_gateway_cluster_active{${JOB}${CLUSTER}}))`),
        number('Active', 'short', `sum(max by (cluster) (engine_gateway_cluster_active{${JOB}${CLUSTER}}))`),
        number(
          'Healthy',
          'short',
          `sum(max by (cluster) (engine_gateway_cluster_status{${JOB}${CLUSTER},status="HEALTHY"}))`,
        ),
        number(
          'Requests in flight',
          'short',
          `sum(engine_gateway_cluster_requests_in_flight{${JOB},cluster=~"$cluster"} ${OF_GROUP})`,
        ),
        number(
          'Queries that run',
          'short',
          `sum(max by (cluster) (engine_gateway_cluster_queries{${JOB},cluster=~"$cluster",state="running"} ${OF_GROUP}))`,
          'As the last health checks counted them, where they count.',
        ),
        number(
          'Queries that wait',
          'short',
          `sum(max by (cluster) (engine_gateway_cluster_queries{${JOB},cluster=~"$cluster",state="queued"} ${OF_GROUP}))`,
          'As the last health checks counted them, where they count.',
        ),
      ],
    },
    {
      title: 'Requests',
      panels: [
        stacked('Submissions by cluster', 'reqps', [
          rate('engine_gateway_cluster_request_duration_seconds_count', 'cluster', `${CLUSTER},kind="submission"`),
          '{{cluster}}',
        ]),
        lines(
          'Time until a query is accepted, p99',
          's',
          p99('engine_gateway_cluster_request_duration_seconds', 'cluster', `${CLUSTER},kind="submission"`),
        ),
        lines(
          'Time of follow-ups, p99',
          's',
          p99('engine_gateway_cluster_request_duration_seconds', 'cluster', `${CLUSTER},kind="follow_up"`),
        ),
        lines(
          'Time until a query is accepted, all chosen clusters',
          's',
          ...quantiles('engine_gateway_cluster_request_duration_seconds', `${CLUSTER},kind="submission"`),
        ),
        stacked('Requests in flight by cluster', 'short', [
          `sum by (cluster) (engine_gateway_cluster_requests_in_flight{${JOB},cluster=~"$cluster"} ${OF_GROUP})`,
          '{{cluster}}',
        ]),
        lines('Requests that clusters failed', 'reqps', [
          rate('engine_gateway_cluster_errors_total', 'cluster, type', ',cluster=~"$cluster"'),
          '{{cluster}} {{type}}',
        ]),
      ],
    },
    {
      title: 'Health',
      panels: [
        lines('Health of each cluster', 'short', [
          `min by (cluster) (engine_gateway_cluster_status{${JOB}${CLUSTER},status="HEALTHY"})`,
          '{{cluster}}',
        ]),
        lines('Health checks by what they found', 'ops', [
          rate('engine_gateway_health_checks_total', 'cluster, found', ',cluster=~"$cluster"'),
          '{{cluster}} {{found}}',
        ]),
        lines('Taken out by real requests', 'ops', [
          rate('engine_gateway_cluster_taken_out_total', 'cluster, cause', ',cluster=~"$cluster"'),
          '{{cluster}} {{cause}}',
        ]),
        lines('Age of the last health check', 's', [
          `max by (cluster) (time() - engine_gateway_cluster_last_check_timestamp_seconds{${JOB},cluster=~"$cluster"} ${OF_GROUP})`,
          '{{cluster}}',
        ]),
        lines('Queries by state', 'short', [
          `sum by (state) (max by (cluster, state) (engine_gateway_cluster_queries{${JOB},cluster=~"$cluster"} ${OF_GROUP}))`,
          '{{state}}',
        ]),
        lines(
          'Time of health checks, of all clusters',
          's',
          ...quantiles('engine_gateway_health_check_duration_seconds'),
        ),
      ],
    },
  ],
};

const OWN = `,controller=~"${controllerNames}"`;
const OWN_QUEUE = `,name=~"${controllerNames}"`;

const operator: DashboardDraft = {
  name: 'operator',
  title: 'Operator',
  description: 'Resources, reconciles, statuses, the API server.',
  variables: [job],
  rows: [
    {
      title: 'Resources',
      panels: [
        number('Clusters declared', 'short', `max(engine_gateway_engine_clusters{${JOB}})`),
        number('Rules declared', 'short', `max(engine_gateway_routing_rules{${JOB}})`),
        number('Rules rejected', 'short', `sum(max by (origin) (engine_gateway_rules_rejected{${JOB}}))`),
        number('Held deletions', 'short', `sum(max by (kind) (engine_gateway_held_deletions{${JOB}}))`),
        number('Unreadable documents', 'short', `max(engine_gateway_resource_source_problems{${JOB}})`),
        number('Leaders', 'short', `sum(leader_election_master_status{${JOB},name="engine-gateway"})`),
      ],
    },
    {
      title: 'Conditions',
      panels: [
        lines('Resources that are not ready', 'short', [
          `max by (kind) (engine_gateway_resource_conditions{${JOB},condition="Ready",status="False"})`,
          '{{kind}}',
        ]),
        lines('Resources by condition that is False', 'short', [
          `max by (kind, condition) (engine_gateway_resource_conditions{${JOB},status="False"})`,
          '{{kind}} {{condition}}',
        ]),
        lines('Time since the last event of the source', 's', [
          `max by (instance) (engine_gateway_resource_source_last_event_age_seconds{${JOB}})`,
          '{{instance}}',
        ]),
      ],
    },
    {
      title: 'Reconciles',
      panels: [
        lines('Reconciles by result', 'ops', [
          rate('controller_runtime_reconcile_total', 'controller, result', OWN),
          '{{controller}} {{result}}',
        ]),
        lines('Time of reconciles, p99', 's', p99('controller_runtime_reconcile_time_seconds', 'controller', OWN)),
        lines('Reconciles that failed', 'ops', [
          rate('controller_runtime_reconcile_errors_total', 'controller', OWN),
          '{{controller}}',
        ]),
        lines('Queue', 'short', [`sum by (name) (workqueue_depth{${JOB}${OWN_QUEUE}})`, '{{name}}']),
        lines('Time in the queue, p99', 's', p99('workqueue_queue_duration_seconds', 'name', OWN_QUEUE)),
        lines(
          'Added and repeated',
          'ops',
          [rate('workqueue_adds_total', 'name', OWN_QUEUE), '{{name}} added'],
          [rate('workqueue_retries_total', 'name', OWN_QUEUE), '{{name}} repeated'],
        ),
      ],
    },
    {
      title: 'API server and statuses',
      panels: [
        lines('Calls of the API server by code', 'reqps', [
          `sum by (method, code) (rate(rest_client_requests_total{${JOB}}[$__rate_interval]) ${OF_GATEWAY})`,
          '{{method}} {{code}}',
        ]),
        lines('Statuses written', 'ops', [rate('engine_gateway_status_writes_total', 'result'), '{{result}}']),
        lines(
          'Conditions that changed, tables made',
          'ops',
          [rate('engine_gateway_status_transitions_total', 'job'), 'conditions'],
          [rate('engine_gateway_routing_table_refreshes_total', 'job'), 'routing tables'],
        ),
      ],
    },
  ],
};

const process: DashboardDraft = {
  name: 'process',
  title: 'Process',
  description: 'What the replicas use of their machines, and what of their limits.',
  variables: [
    job,
    {
      name: 'instance',
      label: 'Replica',
      query: 'label_values(engine_gateway_build_info{job=~"$job"}, instance)',
    },
  ],
  rows: [
    {
      title: 'Processor and event loop',
      panels: [
        lines('Processor time', 'percentunit', [
          `rate(process_cpu_seconds_total{${JOB},instance=~"$instance"}[$__rate_interval]) ${OF_GATEWAY}`,
          '{{instance}}',
        ]),
        lines('Delay of the event loop, p99', 's', [
          `nodejs_eventloop_lag_p99_seconds{${JOB},instance=~"$instance"} ${OF_GATEWAY}`,
          '{{instance}}',
        ]),
        lines('Share of time in garbage collection', 'percentunit', [
          `sum by (instance, kind) (rate(nodejs_gc_duration_seconds_sum{${JOB},instance=~"$instance"}[$__rate_interval]) ${OF_GATEWAY})`,
          '{{instance}} {{kind}}',
        ]),
      ],
    },
    {
      title: 'Memory and files',
      panels: [
        lines('Resident memory', 'bytes', [
          `process_resident_memory_bytes{${JOB},instance=~"$instance"} ${OF_GATEWAY}`,
          '{{instance}}',
        ]),
        lines(
          'Heap and buffers',
          'bytes',
          [`nodejs_heap_size_used_bytes{${JOB},instance=~"$instance"} ${OF_GATEWAY}`, '{{instance}} heap'],
          [`nodejs_external_memory_bytes{${JOB},instance=~"$instance"} ${OF_GATEWAY}`, '{{instance}} buffers'],
        ),
        lines('Memory of requests', 'percentunit', [
          `engine_gateway_request_memory_bytes{${JOB},instance=~"$instance"} / engine_gateway_request_memory_limit_bytes`,
          '{{instance}}',
        ]),
        lines('Open files', 'short', [`process_open_fds{${JOB},instance=~"$instance"} ${OF_GATEWAY}`, '{{instance}}']),
        lines('Connections over HTTP/2', 'short', [
          `engine_gateway_http2_connections{${JOB},instance=~"$instance"}`,
          '{{instance}}',
        ]),
        lines('Days until certificates end', 'short', [
          `(engine_gateway_tls_certificate_expiry_timestamp_seconds{${JOB},instance=~"$instance"} - time()) / 86400`,
          '{{instance}} {{use}}',
        ]),
      ],
    },
    {
      title: 'Life',
      panels: [
        lines('Uptime', 's', [
          `time() - process_start_time_seconds{${JOB},instance=~"$instance"} ${OF_GATEWAY}`,
          '{{instance}}',
        ]),
        lines('Version', 'short', [
          `count by (version) (engine_gateway_build_info{${JOB},instance=~"$instance"})`,
          '{{version}}',
        ]),
        lines('Calls of the API', 'reqps', [
          rate('engine_gateway_api_requests_total', 'status', ',instance=~"$instance"'),
          '{{status}}',
        ]),
      ],
    },
  ],
};

/** All dashboards, in the form that Grafana imports, by the name of their file. */
export const dashboards: ReadonlyMap<string, string> = new Map(
  [overview, clusters, operator, process].map((draft) => [
    `engine-gateway-${draft.name}.json`,
    `${JSON.stringify(builtDashboard(draft), null, 2)}\n`,
  ]),
);
