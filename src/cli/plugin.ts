import { text as readAll } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import type { ClusterState, Drain } from '../api/clusters.ts';
import type { ProblemList } from '../api/responses/overview.ts';
import type { QueryPage, QueueList, RunningQueryList } from '../api/responses/queries.ts';
import type { Explanation } from '../api/responses/routing.ts';
import type { RolloutDetails } from '../api/rollouts.ts';
import { parseDuration } from '../config/units.ts';
import { GatewayError } from '../model/errors.ts';
import { ruleLines } from './evaluate.ts';
import type { GatewayCall } from './gatewayClient.ts';
import { type CliIo, type CommandLine, command, exitCodes, fail } from './io.ts';

type Options = readonly (readonly [flags: string, description: string, initial?: string])[];

const HEADER = '--header <name=value>';
/** Options of all commands. */
export const connection: Options = [
  ['--kubeconfig <file>', 'kubeconfig; KUBECONFIG or ~/.kube/config by default'],
  ['--context <name>', 'context of the kubeconfig'],
  ['-n, --namespace <name>', 'namespace; that of the context by default'],
  ['--service <namespace/name>', "the gateway's Service, with :PORT unless it is http; found by its labels by default"],
  ['--server <url>', "address of the gateway's REST API, in place of the API server's service proxy"],
  ['--token-file <file>', 'token for the gateway; name and password are ENGINE_GATEWAY_USER, ENGINE_GATEWAY_PASSWORD'],
  ['-o, --output <format>', 'json: the response of the REST API'],
];

/** Connects to the gateway. Loaded on demand, so that --help need not load the Kubernetes client. */
export async function connect(options: CommandLine, io: CliIo): Promise<GatewayCall> {
  const { connectGateway } = await import('./gatewayClient.ts');
  return await connectGateway(options, io);
}

/** Prints a value as JSON, or its text. */
function print({ output }: CommandLine, io: CliIo, value: object, text: string): number {
  if (output !== undefined && output !== 'json')
    fail(io, `error: -o: write json, or leave it out, not ${output}`, exitCodes.usage);
  io.stdout.write(output === 'json' ? `${JSON.stringify(value, null, 2)}\n` : text);
  return exitCodes.success;
}

type Row = readonly (string | null | undefined)[];

/** Columns as kubectl prints them. Users write statements: control characters do not get to the terminal. */
function table(header: string, rows: readonly Row[]): string {
  const lines = [header.split(' '), ...rows].map((row) =>
    row.map((cell) => (cell ?? '').replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim()),
  );
  const widths = lines[0]?.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0))) ?? [];
  const padded = lines.map((line) => line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('   '));
  return padded.map((line) => `${line.trimEnd()}\n`).join('');
}

/** Values of arguments `name=value`. */
function pairs(values: readonly string[], io: CliIo): Readonly<Record<string, string>> {
  return Object.fromEntries(
    values.map((each) => {
      const [, name = '', value = ''] = /^([^=\s]+)=(.*)$/s.exec(each) ?? [];
      return name === '' ? fail(io, `error: write NAME=VALUE, not ${each}`, exitCodes.usage) : [name, value];
    }),
  );
}

/** Milliseconds of an option. */
export function durationOption(name: string, text: string, io: CliIo): number {
  const duration = parseDuration(text);
  return 'value' in duration ? duration.value : fail(io, `error: --${name} ${duration.wrong}`, exitCodes.usage);
}

const explainCommand = command<string>({
  name: 'explain',
  description: 'show where a statement would go, and why, without sending it',
  argument: ['<sql>', 'the statement; - for standard input'],
  options: [
    ['--user <name>', 'user who sends it'],
    ['--groups <names>', 'groups of the user, with commas'],
    ['--source <name>', 'source, as the client would send it'],
    ['--catalog <name>', 'default catalog'],
    ['--schema <name>', 'default schema'],
    [HEADER, 'a further header; may be repeated'],
    ...connection,
  ],
  repeated: [HEADER],
  async run(options, io, sql) {
    const { user, groups, source, catalog, schema, header = [] } = options;
    const named = Object.entries({ User: user, Source: source, Catalog: catalog, Schema: schema });
    const ofOptions = named.flatMap(([name, value]) => (value === undefined ? [] : [[`X-Engine-${name}`, value]]));
    const headers = { ...Object.fromEntries(ofOptions), ...pairs(header, io) };
    const body = sql === '-' ? await readAll(io.stdin as NodeJS.ReadStream) : sql;
    const call = await connect(options, io);
    const explanation = await call<Explanation>('POST', '/api/explain', {
      ...{ headers, body },
      ...(user === undefined ? {} : { user, mapUser: true }),
      ...(groups === undefined ? {} : { groups: groups.split(',') }),
    });
    const { message, steps, clusters, rules } = explanation;
    const lines = [
      ...[message, ...steps, ...ruleLines(rules)],
      ...clusters.map(
        ({ cluster, taken, reason }) => `  ${taken ? 'eligible  ' : 'ineligible'}  ${cluster}: ${reason}`,
      ),
    ];
    return print(options, io, explanation, `${lines.join('\n')}\n`);
  },
});

type QueryRow = (QueryPage | RunningQueryList | QueueList)['queries'][number];

const queriesCommand = command<readonly string[]>({
  name: 'queries',
  description: 'list queries, newest first; or those that run or wait now, oldest first',
  argument: ['[filter...]', 'parameters of the REST API: user=ann routingGroup=etl state=FAILED,DENIED limit=100'],
  options: [
    ['--running', 'queries that run now'],
    ['--queued', 'queries that wait in the queue of the gateway'],
    ['--since <duration>', 'only from this time on: 30m'],
    ...connection,
  ],
  async run(options, io, filters) {
    const { running, queued, since } = options;
    const from = since === undefined ? {} : { from: String(Date.now() - durationOption('since', since, io)) };
    const query = new URLSearchParams({ ...pairs(filters, io), ...from });
    const path = running === true ? '/api/queries/running' : queued === true ? '/api/queue' : '/api/queries';
    const call = await connect(options, io);
    const list = await call<{ readonly queries: readonly QueryRow[] }>('GET', `${path}?${query}`);
    const columns = 'ID STATE USER SOURCE GROUP CLUSTER SINCE SECONDS QUERY';
    return print(options, io, list, table(columns, list.queries.map(queryRow)));
  },
});

const SHOWN_TEXT = 80;

function queryRow(query: QueryRow): Row {
  const { user, source, routingGroup } = query;
  if ('waitedSeconds' in query) {
    const { id, state, since, waitedSeconds, reason } = query;
    return [id, state, user, source, routingGroup, '', since, String(waitedSeconds), reason];
  }
  const isRunning = 'ageSeconds' in query;
  const millis = isRunning ? query.ageSeconds * 1000 : (query.outcome?.elapsedMillis ?? null);
  return [
    ...[query.queryId, isRunning ? 'RUNNING' : (query.outcome?.state ?? 'RUNNING'), user, source, routingGroup],
    ...[query.cluster, isRunning ? query.since : query.created, millis === null ? '' : String(millis / 1000)],
    query.queryText?.slice(0, SHOWN_TEXT),
  ];
}

const DRAIN_POLL_MS = 1_000;

const drainCommand = command<string>({
  name: 'drain',
  description: 'deactivate a cluster and wait until no query runs on it',
  argument: ['<cluster>', 'registry name of the cluster'],
  options: [
    ['--timeout <duration>', 'time to wait; after it the cluster stays deactivated', '10m'],
    ['--undo', 'activate it again, and do not wait'],
    ...connection,
  ],
  async run(options, io, name) {
    const { timeout = '', undo = false } = options;
    const deadline = Date.now() + durationOption('timeout', timeout, io);
    const call = await connect(options, io);
    const path = `/api/clusters/${encodeURIComponent(name)}`;
    const cluster = await call<object>('PUT', `${path}/active`, { active: undo });
    if (undo) return print(options, io, cluster, `${name} takes new queries\n`);
    for (let shown = ''; ; ) {
      // A replica that ends is no reason to stop: another one responds next.
      const state = await call<Drain>('GET', `${path}/drain`).catch(unavailable);
      if (!(state instanceof GatewayError) && state.drained)
        return print(options, io, state, `${name} is drained: no query runs on it\n`);
      const text = state instanceof GatewayError ? state.message : `${name} ${drainText(state)}`;
      if (text !== shown) io.stderr.write(`${text}\n`);
      shown = text;
      if (Date.now() >= deadline) {
        const next = 'run the command again to wait longer, or with --undo to activate it';
        fail(io, `error: ${name} is not drained after ${timeout}; it stays deactivated: ${next}`);
      }
      await setTimeout(DRAIN_POLL_MS);
    }
  },
});

function drainText({ active, complete, runningQueries, oldestSince }: Drain): string {
  if (active) return 'is not deactivated yet';
  if (!complete) return 'may run further queries: the database is unavailable';
  if (oldestSince === null) return 'runs no known query; replicas compare what they know';
  return `runs ${runningQueries} ${runningQueries === 1 ? 'query' : 'queries'}, the oldest since ${oldestSince}`;
}

/** Returns an error of a gateway or API server that is unavailable. @throws others */
function unavailable(error: unknown): GatewayError {
  if (error instanceof GatewayError && error.code === 'EG_SOURCE_UNAVAILABLE') return error;
  throw error;
}

const statusCommand = command({
  name: 'status',
  description: 'show the clusters and the problems that the gateway sees now',
  options: connection,
  async run(options, io) {
    const call = await connect(options, io);
    const clusters = await call<readonly ClusterState[]>('GET', '/api/clusters');
    const { problems } = await call<ProblemList>('GET', '/api/overview/problems');
    const rows = clusters.map(({ name, routingGroup, active, status, running, queued, reason }) => [
      ...[name, routingGroup, active ? 'active' : 'inactive', status],
      ...[running?.toString(), queued?.toString(), status === 'HEALTHY' ? '' : reason],
    ]);
    const problemRows = problems.map(({ severity, kind, object, reason }) => [severity, kind, object.name, reason]);
    const text = [
      table('CLUSTER GROUP ACTIVE HEALTH RUNNING QUEUED MESSAGE', rows),
      problems.length === 0 ? 'no problems\n' : table('SEVERITY PROBLEM NAME REASON', problemRows),
    ];
    return print(options, io, { clusters, problems }, text.join('\n'));
  },
});

const ROLLOUT_POLL_MS = 1_000;

const rolloutCommand = command<readonly string[]>({
  name: 'rollout',
  description: 'show a rollout, or promote, pause, resume or roll it back',
  argument: ['<words...>', 'status and a name; or promote, pause, resume or rollback and a name'],
  options: [
    ['--wait', 'wait for its end; exit code 1 unless the candidate was promoted'],
    ['--timeout <duration>', 'longest wait', '24h'],
    ...connection,
  ],
  async run(options, io, [action = '', name]) {
    const { timeout = '', wait = false, namespace = 'default' } = options;
    if (name === undefined) fail(io, 'error: write an action and a name: rollout status NAME', exitCodes.usage);
    const deadline = Date.now() + durationOption('timeout', timeout, io);
    const call = await connect(options, io);
    const path = `/api/rollouts/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
    if (action !== 'status') await call('POST', `${path}/${encodeURIComponent(action)}`);
    for (let shown = ''; ; await setTimeout(ROLLOUT_POLL_MS)) {
      const rollout = await call<RolloutDetails>('GET', path).catch(unavailable);
      const progress = rollout instanceof GatewayError ? null : rollout.progress;
      const text = rollout instanceof GatewayError ? rollout.message : rolloutText(rollout);
      const isOver = /^(Promoted|Succeeded|RolledBack)$/.test(progress?.phase ?? '');
      if (!(rollout instanceof GatewayError) && (isOver || !wait)) {
        print(options, io, rollout, `${text}\n`);
        return wait && progress?.phase === 'RolledBack' ? exitCodes.failure : exitCodes.success;
      }
      if (text !== shown) io.stderr.write(`${text}\n`);
      shown = text;
      if (Date.now() >= deadline) fail(io, `error: the rollout has not ended after ${timeout}`);
    }
  },
});

function rolloutText({ message, inForce, progress }: RolloutDetails): string {
  if (!inForce || progress === null) return inForce ? 'the rollout has not begun' : message;
  const { phase, step, weight, message: text, verdicts } = progress;
  const verdict = phase === 'Progressing' ? verdicts[step - 1] : undefined;
  return `${phase}, step ${step}, ${weight} %: ${text}${verdict === undefined ? '' : `; ${verdict.message}`}`;
}

/** Commands of `kubectl engine-gateway` (docs/kubectl.md). */
export const pluginCommands = [explainCommand, queriesCommand, drainCommand, rolloutCommand, statusCommand];
