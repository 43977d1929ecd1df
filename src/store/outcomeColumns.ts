import { cutToWidth, storable } from './columns.ts';
import { durationBucket } from './durationBucket.ts';
import { groupSet } from './queryGroups.ts';
import type { QueryOutcomeRecord } from './queryOutcome.ts';

const WIDTH = 256;
const NARROW = 128;
const STATE = 16;
/** Longest message of an error that is kept. */
const MESSAGE = 2000;
/** Longest statement that is kept of a query that no cluster took. */
const TEXT = 65_536;

/** Value of the column for a query that was not sent through the gateway. */
export const BYPASSED = 2;

const statementWidths = { digest: 16, exactDigest: 16, tool: 32, model: WIDTH, dashboard: WIDTH } as const;

export type OutcomeValue = string | number | null;

/**
 * A column of `eg_query_outcomes`. `keep` states which value stays where there is a row: `outcome` that of the surer
 * row, `figure` the same of those that are known, `fact` that which is known, `latest` the higher one, `earliest` the lower one that is
 * known.
 */
export interface OutcomeColumn {
  readonly name: string;
  /** In SQL, with `text` for the type of long texts, which differs by dialect. */
  readonly type: string;
  readonly keep: 'key' | 'outcome' | 'figure' | 'fact' | 'latest' | 'earliest';
  readonly of: (record: QueryOutcomeRecord) => OutcomeValue;
  readonly field: keyof QueryOutcomeRecord | undefined;
}

const text = (value: string | null, width: number) => (value === null ? null : cutToWidth(value, width));
/** Engines are not trusted to send whole numbers that databases take. */
const whole = (value: number | null): number | null =>
  value === null || !Number.isFinite(value)
    ? null
    : Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, Math.round(value)));

type Field = keyof QueryOutcomeRecord;
type Keep = OutcomeColumn['keep'];

function column(name: string, type: string, keep: Keep, of: OutcomeColumn['of'], field?: Field) {
  return { name, type, keep, of, field };
}

function textColumn(name: string, field: Field, keep: Keep, width: number, type = `varchar(${width})`) {
  return column(name, type, keep, (record) => text(record[field] as string | null, width), field);
}

function numberColumn(name: string, field: Field, keep: Keep = 'figure') {
  return column(name, 'bigint', keep, (record) => whole((record[field] ?? null) as number | null), field);
}

/** A column of the statement. */
function statementColumn(name: string, field: keyof typeof statementWidths): OutcomeColumn {
  const width = statementWidths[field];
  const value = (o: QueryOutcomeRecord) => text(o.statement?.columns[field] ?? o[field] ?? null, width);
  return column(name, `varchar(${width})`, 'fact', value, field);
}

function queuedMillis({ queuedMillis, gatewayQueuedMillis }: QueryOutcomeRecord): number | null {
  return queuedMillis === null && gatewayQueuedMillis === null
    ? null
    : (queuedMillis ?? 0) + (gatewayQueuedMillis ?? 0);
}

/** Columns of the statement; `eg_query_decisions` has them, too. */
export const statementColumns: readonly OutcomeColumn[] = [
  statementColumn('digest', 'digest'),
  statementColumn('exact_digest', 'exactDigest'),
  statementColumn('tool', 'tool'),
  statementColumn('model', 'model'),
  statementColumn('dashboard', 'dashboard'),
];

/** Figures of the last page that engines report in addition to the first ones. */
export const inputColumns: readonly OutcomeColumn[] = [
  numberColumn('physical_input_bytes', 'physicalInputBytes'),
  numberColumn('planning_ms', 'planningMillis'),
  numberColumn('analysis_ms', 'analysisMillis'),
  numberColumn('spilled_bytes', 'spilledBytes'),
];

/** Input by table. */
const inputs = column('inputs', 'text', 'figure', (o) => (o.inputs == null ? null : storable(o.inputs)), 'inputs');

/** In order; `certainty` is the last, as MySQL assigns columns one after the other. */
export const outcomeColumns: readonly OutcomeColumn[] = [
  textColumn('query_id', 'queryId', 'key', WIDTH, 'varchar(256) primary key'),
  column('created', 'bigint not null', 'key', (o) => whole(o.created) ?? 0, 'created'),
  column('last_seen', 'bigint not null', 'latest', (o) => whole(o.lastSeen) ?? 0, 'lastSeen'),
  // 0 for a query that a cluster got from the gateway, whatever came before.
  column('refused', 'int not null', 'earliest', (o) => (o.bypassed ? BYPASSED : o.refused ? 1 : 0), 'refused'),
  textColumn('cluster', 'cluster', 'fact', WIDTH),
  textColumn('routing_group', 'routingGroup', 'fact', WIDTH),
  textColumn('user_name', 'user', 'fact', WIDTH),
  textColumn('source', 'source', 'fact', WIDTH),
  textColumn('rule_name', 'rule', 'fact', WIDTH),
  column('group_set', `varchar(${WIDTH})`, 'fact', (o) => groupSet(o.groups)),
  numberColumn('gateway_queued_ms', 'gatewayQueuedMillis', 'fact'),
  numberColumn('first_row_ms', 'firstRowMillis', 'earliest'),
  ...statementColumns,
  textColumn('query_text', 'queryText', 'fact', TEXT, 'text'),
  column(
    'decision',
    'text',
    'fact',
    (o) => ((o.decision?.length ?? 0) > TEXT ? null : text(o.decision, TEXT)),
    'decision',
  ),
  column('state', `varchar(${STATE}) not null`, 'outcome', (o) => o.state, 'state'),
  textColumn('error_name', 'errorName', 'outcome', NARROW),
  textColumn('error_type', 'errorType', 'outcome', NARROW),
  numberColumn('error_code', 'errorCode', 'outcome'),
  textColumn('error_message', 'errorMessage', 'outcome', MESSAGE, 'text'),
  numberColumn('elapsed_ms', 'elapsedMillis'),
  column('elapsed_bucket', 'int', 'figure', (o) => durationBucket(whole(o.elapsedMillis))),
  numberColumn('queued_ms', 'queuedMillis'),
  column('queued_bucket', 'int', 'figure', (o) => durationBucket(whole(queuedMillis(o)))),
  numberColumn('cpu_ms', 'cpuMillis'),
  numberColumn('processed_rows', 'processedRows'),
  numberColumn('processed_bytes', 'processedBytes'),
  numberColumn('peak_memory_bytes', 'peakMemoryBytes'),
  ...inputColumns,
  inputs,
  numberColumn('result_bytes', 'resultBytes', 'outcome'),
  numberColumn('pages', 'pages', 'outcome'),
  column('certainty', 'int not null', 'outcome', (o) => o.certainty, 'certainty'),
];

export type OutcomeRow = Readonly<Record<string, string | number | null>>;

export function outcomeOfRow(row: OutcomeRow): QueryOutcomeRecord {
  const fields = outcomeColumns.flatMap(({ name, field }) => (field === undefined ? [] : [[field, row[name] ?? null]]));
  return {
    ...(Object.fromEntries(fields) as QueryOutcomeRecord),
    ...{ created: Number(row.created ?? 0), lastSeen: Number(row.last_seen ?? 0) },
    ...{ refused: row.refused === 1, certainty: Number(row.certainty ?? 0) },
    ...(row.refused === BYPASSED && { bypassed: true }),
  };
}
