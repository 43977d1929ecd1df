import { Readable } from 'node:stream';
import type { ListedOutcome, QueryList, QueryListFilter, QueryListMark } from '../store/queryList.ts';
import { outcomeAnswer } from './answers/outcome.ts';

export const MAX_EXPORTED = 100_000;
const CHUNK = 500;
const TEXT = 10_000;

export function queryRow({ created, outcome, ...rest }: ListedOutcome) {
  return { ...rest, created: new Date(created).toISOString(), outcome: outcomeAnswer(outcome) };
}

/** Queries as JSON: an array, written as it is read. */
export function jsonExport(list: QueryList, filter: QueryListFilter): Readable {
  return Readable.from(json(list, filter));
}

/** Queries as CSV (RFC 4180), with a line of names. */
export function csvExport(list: QueryList, filter: QueryListFilter): Readable {
  return Readable.from(csv(list, filter));
}

async function* chunks(list: QueryList, filter: QueryListFilter): AsyncGenerator<readonly ListedOutcome[]> {
  let after: QueryListMark | null = null;
  for (let count = 0; count < MAX_EXPORTED; ) {
    const rows: readonly ListedOutcome[] = await list.find(filter, Math.min(CHUNK, MAX_EXPORTED - count), after, TEXT);
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows;
    count += rows.length;
    after = last;
  }
}

async function* json(list: QueryList, filter: QueryListFilter): AsyncGenerator<string> {
  let separator = '[';
  for await (const rows of chunks(list, filter)) {
    yield separator + rows.map((row) => JSON.stringify(queryRow(row))).join(',\n');
    separator = ',\n';
  }
  yield separator === '[' ? '[]\n' : ']\n';
}

const ofQuery = ['queryId', 'created', 'user', 'source', 'routingGroup', 'cluster'] as const;
const ofOutcome = [
  ...(['state', 'errorName', 'errorType', 'errorCode', 'errorMessage', 'elapsedMillis', 'queuedMillis'] as const),
  ...(['gatewayQueuedMillis', 'cpuMillis', 'processedRows', 'processedBytes', 'peakMemoryBytes'] as const),
  ...(['resultBytes', 'pages', 'lastSeen', 'firstRowMillis'] as const),
];

async function* csv(list: QueryList, filter: QueryListFilter): AsyncGenerator<string> {
  yield `${[...ofQuery, ...ofOutcome, 'rule', 'queryText'].join(',')}\r\n`;
  for await (const rows of chunks(list, filter)) {
    const lines = rows.map((row) => {
      const query = queryRow(row);
      const values = [
        ...ofQuery.map((name) => query[name]),
        ...ofOutcome.map((name) => query.outcome?.[name] ?? null),
        query.rule,
        query.queryText,
      ];
      return `${values.map(cell).join(',')}\r\n`;
    });
    yield lines.join('');
  }
}

/** A value of CSV. Texts that a spreadsheet would take for a formula begin with an apostrophe: users write them. */
function cell(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
