import { BodyBytes } from '../bodies/requestBodies.ts';

/** Content of the last page of a query: figures of `stats`, and `error` (docs/protocol.md#outcomes). Null: missing. */
export interface FinalPage {
  readonly elapsedMillis: number | null;
  readonly queuedMillis: number | null;
  readonly cpuMillis: number | null;
  readonly processedRows: number | null;
  readonly processedBytes: number | null;
  readonly peakMemoryBytes: number | null;
  readonly physicalInputBytes: number | null;
  readonly planningMillis: number | null;
  readonly analysisMillis: number | null;
  readonly spilledBytes: number | null;
  /** Null: the query succeeded. */
  readonly error: PageError | null;
}

/** The error of a page; its texts are as the cluster sent them, with a truncated message. */
export interface PageError {
  readonly name: string | null;
  readonly type: string | null;
  readonly code: number | null;
  readonly message: string | null;
}

/** Bytes of the start and of the end of a page that are kept: figures and error precede stack traces and follow rows. */
const KEPT_BYTES = 65_536;
const MAX_MESSAGE_LENGTH = 8_192;

export type Members = Readonly<Record<string, unknown>>;

/** Reads the last page of a query on its way to the client, within a bound of memory and time. */
export class FinalPageReader {
  readonly #start = new BodyBytes();
  /** The bytes before `#newer`. */
  #older = this.#start;
  #newer = new BodyBytes();

  /** @param start the first decoded piece: kept without a copy */
  constructor(start: Buffer | null = null) {
    if (start !== null) this.#add(start);
  }

  /** Adds a decoded piece of the page: a copy of what is kept of it. */
  push(bytes: Uint8Array): void {
    this.#add(Buffer.from(bytes));
  }

  #add(bytes: Buffer): void {
    if (this.#start.size < KEPT_BYTES) {
      this.#start.add(bytes.subarray(0, KEPT_BYTES));
      if (bytes.length <= KEPT_BYTES) return;
    }
    this.#newer.add(bytes.subarray(-KEPT_BYTES));
    if (this.#newer.size >= KEPT_BYTES) [this.#older, this.#newer] = [this.#newer, new BodyBytes()];
  }

  /** Returns the page's content; null if it is incomplete and has no error at its start, or if it cannot be read. */
  end(): FinalPage | null {
    const older = this.#older.joined();
    const end = this.#newer.size === 0 ? older : Buffer.concat([older, this.#newer.joined()]);
    const page = parsed(afterRows(end)) ?? parsed(end.toString()) ?? parsed(beforeStackTrace(this.#start.joined()));
    return page === null ? null : pageOf(page);
  }
}

/** The members that follow the rows of a page, in an engine's order; empty if they may stand elsewhere. */
function afterRows(end: Buffer): string {
  // Strings escape their quotes, so that no text looks like a member.
  const start = end.lastIndexOf('"stats":{', end.length, 'latin1');
  const hasErrorBefore = start > 0 && end.subarray(0, start).includes('"error":{', 0, 'latin1');
  return start < 0 || hasErrorBefore ? '' : `{${end.toString('utf8', start)}`;
}

/** The start of a page, ended before the stack trace of its error. */
function beforeStackTrace(start: Buffer): string {
  return `${start.toString('utf8', 0, Math.max(0, start.indexOf(',"failureInfo":')))}}}`;
}

function parsed(text: string): Members | null {
  if (text === '') return null;
  try {
    return membersOf(JSON.parse(text));
  } catch {
    return null;
  }
}

export function membersOf(value: unknown): Members | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : null;
}

function pageOf(page: Members): FinalPage {
  const stats = membersOf(page.stats) ?? {};
  const error = membersOf(page.error);
  return {
    elapsedMillis: numberOf(stats.elapsedTimeMillis),
    queuedMillis: numberOf(stats.queuedTimeMillis),
    cpuMillis: numberOf(stats.cpuTimeMillis),
    processedRows: numberOf(stats.processedRows),
    processedBytes: numberOf(stats.processedBytes),
    peakMemoryBytes: numberOf(stats.peakMemoryBytes),
    physicalInputBytes: numberOf(stats.physicalInputBytes),
    planningMillis: numberOf(stats.planningTimeMillis),
    analysisMillis: numberOf(stats.analysisTimeMillis),
    spilledBytes: numberOf(stats.spilledBytes),
    error: error === null ? null : errorOf(error),
  };
}

function errorOf({ errorName, errorType, errorCode, message }: Members): PageError {
  return { name: textOf(errorName), type: textOf(errorType), code: numberOf(errorCode), message: textOf(message) };
}

export function numberOf(value: unknown): number | null {
  return Number.isFinite(value) ? (value as number) : null;
}

/** The text up to its limit, without half a character at its end. */
export function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value.slice(0, MAX_MESSAGE_LENGTH).replace(/[\ud800-\udbff]$/, '') : null;
}
