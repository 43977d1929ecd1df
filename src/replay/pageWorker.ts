/** Worker thread of `PageThread`: reads pages of results, and rests as long as it works. */
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort } from 'node:worker_threads';
import { isRecord } from '../model/record.ts';
import { type ResultColumn, type ResultDigest, ResultFold } from './resultFold.ts';

/** A page of a result. */
export interface PageTask {
  /** Number of the result. */
  readonly result: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** The error of a query, as the statement protocol has it. */
export interface StatementError {
  readonly name: string;
  readonly message: string;
}

/** State of a query and its result, as a page reports it. */
export interface PageSummary {
  readonly queryId: string | null;
  readonly nextUri: string | null;
  readonly columns: readonly ResultColumn[] | null;
  /** Rows so far. */
  readonly rows: number;
  readonly cpuMillis: number | null;
  readonly error: StatementError | null;
  /** Of the whole result, on its last page; null if it has none. */
  readonly digest: ResultDigest | null;
}

/** `mistake`: it is no page. */
export type PageReply = PageSummary | { readonly mistake: string };

/** Results in memory: an abandoned one stays until newer ones replace it. */
const MAX_RESULTS = 128;
const MAX_MESSAGE = 2_000;

const port = parentPort;
if (port === null) throw new Error('pageWorker runs in a worker thread only');
const folds = new Map<number, ResultFold>();

port.on('message', async ({ result, bytes }: PageTask) => {
  const begun = performance.now();
  let reply: PageReply;
  try {
    reply = summaryOf(result, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString());
  } catch (error) {
    reply = { mistake: error instanceof Error ? error.message : String(error) };
  }
  if (!('nextUri' in reply) || reply.nextUri === null) folds.delete(result);
  // Half of a processor at most: clients' queries come first.
  await sleep(performance.now() - begun);
  port.postMessage(reply);
});

/** @throws SyntaxError if the text is no page */
function summaryOf(result: number, text: string): PageSummary {
  const page = parsed(text);
  const { id, nextUri = null, columns: described, data, stats, error } = page;
  const columns = Array.isArray(described) ? described.filter(isRecord).map(columnOf) : null;
  if (columns !== null && !folds.has(result)) folds.set(result, new ResultFold(columns));
  if (folds.size > MAX_RESULTS) folds.delete(Math.min(...folds.keys()));
  const fold = folds.get(result);
  if (Array.isArray(data)) fold?.add(data as (readonly unknown[])[]);
  const cpu = isRecord(stats) ? stats.cpuTimeMillis : null;
  const isLast = nextUri === null && !isRecord(error);
  return {
    queryId: typeof id === 'string' ? id.slice(0, 256) : null,
    nextUri: nextUri === null ? null : String(nextUri),
    ...{ columns, rows: fold?.rows ?? 0, cpuMillis: Number.isFinite(cpu) ? (cpu as number) : null },
    error: isRecord(error) ? errorOf(error) : null,
    digest: isLast ? (fold?.digest() ?? null) : null,
  };
}

/** Parses a page; whole numbers that a double cannot hold stay texts. */
function parsed(text: string): Record<string, unknown> {
  const exact = (_name: string, value: unknown, context?: { readonly source?: string }) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '')
      ? context?.source
      : value;
  const page: unknown = /\d{16}/.test(text) ? JSON.parse(text, exact) : JSON.parse(text);
  if (!isRecord(page)) throw new SyntaxError('the page is not a JSON object');
  return page;
}

function columnOf({ name, type }: Record<string, unknown>): ResultColumn {
  return { name: String(name), type: String(type) };
}

function errorOf({ errorName = 'UNKNOWN', message = '' }: Record<string, unknown>): StatementError {
  return { name: String(errorName).slice(0, 128), message: String(message).slice(0, MAX_MESSAGE) };
}
