import type { SqlDialect } from './dialect.ts';
import { durationBucket } from './durationBucket.ts';
import { cutToWidth } from './historyText.ts';
import { groupSet } from './queryGroups.ts';
import type { QueryOutcomeRecord, QueryState } from './queryOutcome.ts';

const WIDTH = 256;
const NARROW = 128;
const STATE = 16;
/** Longest message of an error that is kept. */
const MESSAGE = 2000;
/** Longest statement that is kept of a query that no cluster took. */
const TEXT = 65_536;

export type OutcomeValue = string | number | null;

/**
 * A column of `eg_query_outcomes`. `keep` states which value stays where there is a row: `outcome` that of the surer
 * row, `fact` that which is known, `latest` the higher one, `earliest` the lower one that is known.
 */
export interface OutcomeColumn {
  readonly name: string;
  readonly type: (types: SqlDialect['types']) => string;
  readonly keep: 'key' | 'outcome' | 'fact' | 'latest' | 'earliest';
  readonly of: (record: QueryOutcomeRecord) => OutcomeValue;
}

const text = (value: string | null, width: number) => (value === null ? null : cutToWidth(value, width));
/** Engines are not trusted to send whole numbers that databases take. */
const whole = (value: number | null): number | null =>
  value === null || !Number.isFinite(value)
    ? null
    : Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, Math.round(value)));

const varchar = (width: number) => () => `varchar(${width})`;
const bigint = () => 'bigint';
const int = () => 'int';
const longText = (types: SqlDialect['types']) => types.longText;

function column(
  name: string,
  type: OutcomeColumn['type'],
  keep: OutcomeColumn['keep'],
  of: OutcomeColumn['of'],
): OutcomeColumn {
  return { name, type, keep, of };
}

function queuedMillis({ queuedMillis, gatewayQueuedMillis }: QueryOutcomeRecord): number | null {
  return queuedMillis === null && gatewayQueuedMillis === null
    ? null
    : (queuedMillis ?? 0) + (gatewayQueuedMillis ?? 0);
}

/** In order; `certainty` is the last, as MySQL assigns columns one after the other. */
export const outcomeColumns: readonly OutcomeColumn[] = [
  column(
    'query_id',
    () => 'varchar(256) primary key',
    'key',
    (o) => cutToWidth(o.queryId, WIDTH),
  ),
  column(
    'created',
    () => 'bigint not null',
    'key',
    (o) => whole(o.created) ?? 0,
  ),
  column(
    'last_seen',
    () => 'bigint not null',
    'latest',
    (o) => whole(o.lastSeen) ?? 0,
  ),
  column(
    'refused',
    () => 'int not null',
    'key',
    (o) => (o.refused ? 1 : 0),
  ),
  column('cluster', varchar(WIDTH), 'fact', (o) => text(o.cluster, WIDTH)),
  column('routing_group', varchar(WIDTH), 'fact', (o) => text(o.routingGroup, WIDTH)),
  column('user_name', varchar(WIDTH), 'fact', (o) => text(o.user, WIDTH)),
  column('source', varchar(WIDTH), 'fact', (o) => text(o.source, WIDTH)),
  column('rule_name', varchar(WIDTH), 'fact', (o) => text(o.rule, WIDTH)),
  column('group_set', varchar(WIDTH), 'fact', (o) => groupSet(o.groups)),
  column('gateway_queued_ms', bigint, 'fact', (o) => whole(o.gatewayQueuedMillis)),
  column('first_row_ms', bigint, 'earliest', (o) => whole(o.firstRowMillis ?? null)),
  column('query_text', longText, 'fact', (o) => text(o.queryText, TEXT)),
  column('decision', longText, 'fact', (o) => ((o.decision?.length ?? 0) > TEXT ? null : text(o.decision, TEXT))),
  column(
    'state',
    () => `varchar(${STATE}) not null`,
    'outcome',
    (o) => o.state,
  ),
  column('error_name', varchar(NARROW), 'outcome', (o) => text(o.errorName, NARROW)),
  column('error_type', varchar(NARROW), 'outcome', (o) => text(o.errorType, NARROW)),
  column('error_code', bigint, 'outcome', (o) => whole(o.errorCode)),
  column('error_message', longText, 'outcome', (o) => text(o.errorMessage, MESSAGE)),
  column('elapsed_ms', bigint, 'outcome', (o) => whole(o.elapsedMillis)),
  column('elapsed_bucket', int, 'outcome', (o) => durationBucket(whole(o.elapsedMillis))),
  column('queued_ms', bigint, 'outcome', (o) => whole(o.queuedMillis)),
  column('queued_bucket', int, 'outcome', (o) => durationBucket(whole(queuedMillis(o)))),
  column('cpu_ms', bigint, 'outcome', (o) => whole(o.cpuMillis)),
  column('processed_rows', bigint, 'outcome', (o) => whole(o.processedRows)),
  column('processed_bytes', bigint, 'outcome', (o) => whole(o.processedBytes)),
  column('peak_memory_bytes', bigint, 'outcome', (o) => whole(o.peakMemoryBytes)),
  column('result_bytes', bigint, 'outcome', (o) => whole(o.resultBytes)),
  column('pages', bigint, 'outcome', (o) => whole(o.pages)),
  column(
    'certainty',
    () => 'int not null',
    'outcome',
    (o) => o.certainty,
  ),
];

/** A row as drivers give it: big integers may come as text. */
export type OutcomeRow = Readonly<Record<string, string | number | null>>;

export function outcomeOfRow(row: OutcomeRow): QueryOutcomeRecord {
  const number = (name: string) => (row[name] === null || row[name] === undefined ? null : Number(row[name]));
  const string = (name: string) => (row[name] === null || row[name] === undefined ? null : String(row[name]));
  return {
    queryId: string('query_id') ?? '',
    created: number('created') ?? 0,
    lastSeen: number('last_seen') ?? 0,
    refused: number('refused') === 1,
    cluster: string('cluster'),
    routingGroup: string('routing_group'),
    user: string('user_name'),
    source: string('source'),
    rule: string('rule_name'),
    gatewayQueuedMillis: number('gateway_queued_ms'),
    firstRowMillis: number('first_row_ms'),
    queryText: string('query_text'),
    decision: string('decision'),
    state: string('state') as QueryState,
    errorName: string('error_name'),
    errorType: string('error_type'),
    errorCode: number('error_code'),
    errorMessage: string('error_message'),
    elapsedMillis: number('elapsed_ms'),
    queuedMillis: number('queued_ms'),
    cpuMillis: number('cpu_ms'),
    processedRows: number('processed_rows'),
    processedBytes: number('processed_bytes'),
    peakMemoryBytes: number('peak_memory_bytes'),
    resultBytes: number('result_bytes'),
    pages: number('pages'),
    certainty: number('certainty') ?? 0,
  };
}
