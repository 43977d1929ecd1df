import { type TProperties, Type } from 'typebox';
import {
  count,
  flagField,
  integerField,
  list,
  nullable,
  objectOf,
  objects,
  oneOf,
  type ResponseBody,
  reference,
  textField,
  textOrNull,
  time,
} from '../schemas.ts';

const counted = <Labels extends TProperties>(labels: Labels) =>
  Type.Array(Type.Object({ ...labels, count: count('Since the process started.') }));

export const Overview = Type.Object(
  {
    version: Type.String(),
    startedAt: textField('Start of the process that answers, RFC 3339. It counts since then.'),
    notReadyBecause: textOrNull('Null: it takes requests.'),
    components: objects('The lines of /readyz?verbose.', {
      name: textField('e.g. database, resource source, leader, history buffer.'),
      ok: Type.Boolean(),
      message: Type.String(),
    }),
    leader: flagField('This process writes statuses and projections.'),
    source: Type.Object({
      available: flagField('The resource source (API server, directory, database) can be read.'),
      lastEventAgeSeconds: nullable(
        Type.Integer(),
        'Whole seconds since its last sign of life, in steps of ten; null before the first.',
      ),
      problems: count('Documents that cannot be read.'),
    }),
    clusters: Type.Object({
      total: count('Registered clusters.'),
      active: count('Those that take new queries.'),
      inactive: count('Those that are deactivated.'),
      byStatus: Type.Record(Type.String(), Type.Integer(), {
        description: 'Clusters by the status of their last health check.',
      }),
      queued: count('Queued queries, as far as health checks count them.'),
      running: count('Running queries, as far as health checks count them.'),
      inFlight: count('Requests on their way to a cluster.'),
    }),
    traffic: Type.Object({
      submissions: count('Queries submitted since the process started.'),
      requests: counted({ kind: Type.String(), status: textField('Class of the status: 2xx.') }),
      refusals: counted({ reason: Type.String() }),
      clusterErrors: counted({ cluster: Type.String(), type: Type.String() }),
      retries: counted({ cluster: Type.String() }),
    }),
    history: Type.Object({
      memory: count('Queries that wait in memory.'),
      disk: count('Queries that wait on disk.'),
      written: count('Queries written since the process started.'),
      lost: count('Queries that are in no history.'),
    }),
  },
  { $id: 'Overview', description: 'The state of the gateway at a glance, of the process that answers.' },
);
export type Overview = ResponseBody<typeof Overview>;

const milliseconds = (description: string) => integerField(`${description}, milliseconds since 1970.`);
const asOf = time('When it was computed; an answer may be some seconds old.');
const keptHours = integerField('How long queries are kept: `dataStore.queryHistoryHoursRetention`.');

const names = (description: string) => list(Type.String(), `${description} Up to 20.`);
/** Kinds of problems in the order in which a user on call looks at them. */
export const problemKinds = [
  ...(['DatabaseUnavailable', 'SourceUnavailable', 'GroupUnavailable', 'ErrorRate', 'ClusterUnhealthy'] as const),
  ...(['StatementQuarantined', 'QueriesRetried'] as const),
  ...(['QueueGrowing', 'RulesFileRejected', 'RuleRejected', 'RuleUnresolved', 'ClusterRejected', 'NoLeader'] as const),
  ...(['ExternalRulesUnavailable', 'DeletionsHeld', 'HistoryWaiting', 'SourceMistakes'] as const),
];
const ProblemKind = oneOf(problemKinds, 'See docs/rest-api.md#problems.');
const Severity = oneOf(
  ['critical', 'warning'],
  'critical: queries are refused or fail, or the gateway lacks what it needs.',
);

export const OverviewProblem = objectOf(
  { $id: 'OverviewProblem', description: 'Something that is wrong now.' },
  {
    kind: ProblemKind,
    severity: Severity,
    object: objectOf(
      { description: 'What it is about.' },
      {
        kind: oneOf(['cluster', 'routingGroup', 'rule', 'rulesFile', 'queue', 'statement', 'gateway']),
        name: textField('Registry name, name of the group or rule, digest, path, or name of the component.'),
      },
    ),
    reason: textField('Sentence for people.'),
    since: textOrNull('RFC 3339; null where it is not known.'),
    groups: names('Routing groups that it affects.'),
    groupCount: count('All of them.'),
    rules: names('Rules that lead to what it affects, for callers who may list rules.'),
    ruleCount: count('All of them.'),
  },
);
export type OverviewProblem = ResponseBody<typeof OverviewProblem>;

export const ProblemList = Type.Object({
  asOf,
  verdict: oneOf(['ok', 'warning', 'critical'], 'The worst severity; ok where there is no problem.'),
  total: count('All problems, also those that are not listed.'),
  counts: objects('Problems by kind, in order of the list.', { kind: ProblemKind, total: Type.Integer() }),
  problems: list(reference(OverviewProblem), 'Critical ones first; at most 20 of a kind.'),
});
export type ProblemList = ResponseBody<typeof ProblemList>;

export const QuerySeries = Type.Object({
  asOf,
  from: milliseconds('Start of the first interval'),
  to: milliseconds('End of the last interval, which is not over yet'),
  intervalMs: integerField('Length of an interval in milliseconds, whole minutes.'),
  keptHours,
  total: count('Queries in the range.'),
  clusters: objects('Most queries first.', {
    cluster: textField('Registry name, or the URL of queries that no name is known of.'),
    color: Type.Integer({
      minimum: 0,
      description:
        'Number of its colour in charts, 0 to 11, whatever the range. Of up to 12 registered clusters each has another one.',
    }),
    total: Type.Integer(),
    counts: nullable(
      list(Type.Integer(), 'Queries by interval, in order; all lines are equally long.'),
      'Null: the cluster has no line of its own (`lines`), and is counted in `others`.',
    ),
  }),
  others: nullable(
    Type.Array(Type.Integer()),
    'Queries by interval of all clusters without a line of their own; null: each has one.',
  ),
});
export type QuerySeries = ResponseBody<typeof QuerySeries>;

const percentiles = (description: string) =>
  objectOf(
    { description: `${description} Milliseconds, within 4.5 %; null where no query said it.` },
    { p50: nullable(Type.Integer()), p95: nullable(Type.Integer()) },
  );

export const RateSeries = Type.Object({
  asOf,
  from: milliseconds('Start of the first interval'),
  to: milliseconds('End of the last interval, which is not over yet'),
  intervalMs: integerField('Length of an interval in milliseconds, whole minutes.'),
  keptHours,
  intervals: objects('All of the range, in order.', {
    start: milliseconds('Start of the interval'),
    queries: count('Submissions, also those that still run.'),
    ended: count('Of them those that ended, or that the gateway refused or denied.'),
    failures: count("FAILED or LOST, without users' errors."),
    userErrors: count('FAILED with USER_ERROR.'),
    refused: count('REFUSED by the gateway.'),
    elapsedMillis: percentiles('From creation to end.'),
    queuedMillis: percentiles("In the engine's and the gateway's queue together."),
  }),
  errors: objects('Errors of the range, most frequent first; at most 10.', {
    state: textField('FAILED, LOST, REFUSED or DENIED.'),
    errorName: textOrNull(),
    errorType: textOrNull(),
    queries: Type.Integer(),
  }),
});
export type RateSeries = ResponseBody<typeof RateSeries>;
