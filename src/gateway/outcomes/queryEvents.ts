import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';
import type { ProductNames } from '../../model/names.ts';
import { coordinatorSuffix, isQueuedId } from '../../routing/statementProtocol.ts';
import { certainty, type QueryInput, type QueryOutcomeRecord } from '../../store/queryOutcome.ts';
import type { RecordWriter } from '../../store/recordWriter.ts';
import type { Store } from '../../store/store.ts';
import { emptyBody } from '../bodies/requestBodies.ts';
import { type Members, membersOf, numberOf, textOf } from './finalPage.ts';
import { errorColumns, statesOfErrors } from './queryOutcomes.ts';
import { RecordedStatements } from './recordedStatement.ts';

const MAX_OWNERS = 1_000;
const OWNER_MS = 60_000;
/** Difference of clocks up to which the start of a query is believed. */
const MAX_AHEAD_MS = 300_000;
/** Inputs of an event that are read, tables that are stored, and characters of the name of a table. */
const MAX_INPUTS = 10_000;
const MAX_TABLES = 64;
const MAX_TABLE = 400;

/** Records queries that events of Trino's HTTP event listener report (docs/query-events.md). */
export class QueryEvents {
  readonly #writer: Pick<RecordWriter<QueryOutcomeRecord>, 'add'>;
  readonly #coordinators: Pick<Store['coordinators'], 'get'>;
  readonly #clock: Clock;
  readonly #retentionMs: number;
  readonly #sourceKey: string;
  readonly #statements: RecordedStatements;
  /** Clusters of coordinators by the end of their ids; empty for none. */
  readonly #owners = new LRUCache<string, string>({ max: MAX_OWNERS, ttl: OWNER_MS });

  /** @param retentionHours `dataStore.queryHistoryHoursRetention` */
  constructor(
    writer: Pick<RecordWriter<QueryOutcomeRecord>, 'add' | 'fitText'>,
    coordinators: Pick<Store['coordinators'], 'get'>,
    names: ProductNames,
    clock: Clock,
    retentionHours: number,
  ) {
    this.#writer = writer;
    this.#coordinators = coordinators;
    this.#clock = clock;
    this.#retentionMs = retentionHours * 3_600_000;
    this.#sourceKey = names.headerKey('Source');
    this.#statements = new RecordedStatements(names, (text, bytes) => writer.fitText(text, bytes));
  }

  /**
   * Records the query of a `QueryCompletedEvent`; other events are ignored.
   * @param cluster the cluster that sent the event
   * @returns the reason that the event is not accepted; null if it is
   */
  async record(cluster: string, event: unknown): Promise<string | null> {
    const { metadata, statistics, context, ioMetadata, failureInfo, createTime, endTime } = membersOf(event) ?? {};
    const [query, stats, session] = [metadata, statistics, context].map(membersOf);
    if (query == null || stats == null || session == null || endTime === undefined) return null;
    const queryId = typeof query.queryId === 'string' ? query.queryId : '';
    const suffix = coordinatorSuffix(queryId);
    if (suffix === null || isQueuedId(queryId)) return 'metadata.queryId is not an id of a cluster.';
    const now = this.#clock.now();
    const [created, end] = [instant(createTime), instant(endTime)];
    if (created === null || end === null || created > now + MAX_AHEAD_MS || created < now - this.#retentionMs)
      return `createTime and endTime must be times within the last ${this.#retentionMs / 3_600_000} hours; compare the clocks.`;
    const owner = this.#owners.get(suffix) ?? (await this.#coordinators.get(suffix))?.cluster ?? '';
    this.#owners.set(suffix, owner);
    if (owner !== '' && owner !== cluster) return `${queryId} belongs to another cluster than ${cluster}.`;
    const failure = membersOf(failureInfo);
    const { code, name, type } = membersOf(failure?.errorCode) ?? {};
    const error =
      failure === null
        ? null
        : { name: textOf(name), type: textOf(type), code: numberOf(code), message: textOf(failure.failureMessage) };
    const [text, source] = [textIn(query, 'query') ?? '', textIn(session, 'source')];
    const fields = new Map(source === null ? [] : [[this.#sourceKey, [source]]]);
    this.#writer.add({
      ...{ queryId, created, lastSeen: Math.min(created, now), certainty: certainty.reported },
      state: statesOfErrors.get(error?.name ?? '') ?? (error === null ? 'FINISHED' : 'FAILED'),
      ...{ refused: false, bypassed: true, cluster, user: textIn(session, 'user'), source },
      ...{ routingGroup: null, rule: null, gatewayQueuedMillis: null, resultBytes: null, pages: null },
      ...errorColumns(error),
      ...figuresOf(stats, end - created),
      ...{ queryText: text, decision: null, inputs: inputsOf(membersOf(ioMetadata)?.inputs) },
      statement: this.#statements.of({ ...emptyBody, text: textIn(query, 'preparedQuery') ?? text }, fields),
    });
    return null;
  }
}

/** Figures of `statistics` as the last page of a query has them. @param elapsed of a query that failed before it began: it has 0 */
function figuresOf(stats: Members, elapsed: number) {
  const millis = (name: string) => {
    const seconds = numberOf(stats[name]);
    return seconds === null ? null : Math.round(seconds * 1000);
  };
  return {
    ...{
      elapsedMillis: millis('wallTime') || Math.max(0, elapsed),
      queuedMillis: millis('queuedTime'),
      cpuMillis: millis('cpuTime'),
    },
    ...{ planningMillis: millis('planningTime'), analysisMillis: millis('analysisTime') },
    processedRows: numberOf(stats.totalRows),
    processedBytes: numberOf(stats.totalBytes),
    peakMemoryBytes: numberOf(stats.peakUserMemoryBytes),
    physicalInputBytes: numberOf(stats.physicalInputBytes),
    spilledBytes: numberOf(stats.spilledBytes),
  };
}

/** Inputs by table as they are stored, the largest first; null for none. */
function inputsOf(inputs: unknown): string | null {
  const byTable = new Map<string, QueryInput>();
  for (const each of Array.isArray(inputs) ? inputs.slice(0, MAX_INPUTS) : []) {
    const input = membersOf(each) ?? {};
    const table = [input.catalogName, input.schema, input.table].join('.').slice(0, MAX_TABLE);
    const sum = (one: number | null | undefined, other: unknown) =>
      one == null ? numberOf(other) : one + (numberOf(other) ?? 0);
    const { rows, bytes } = byTable.get(table) ?? {};
    byTable.set(table, {
      ...{ table, rows: sum(rows, input.physicalInputRows), bytes: sum(bytes, input.physicalInputBytes) },
    });
  }
  const size = ({ rows, bytes }: QueryInput) => bytes || (rows ?? 0);
  const largest = [...byTable.values()].sort((a, b) => size(b) - size(a)).slice(0, MAX_TABLES);
  return largest.length === 0 ? null : JSON.stringify(largest);
}

const textIn = (members: Members, name: string): string | null => {
  const value = members[name];
  return typeof value === 'string' ? value : null;
};

/** Milliseconds since 1970 of a time in RFC 3339, or null. */
function instant(value: unknown): number | null {
  const time = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(time) ? null : time;
}
