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

type Members = Readonly<Record<string, unknown>>;

/** Reads the last page of a query on its way to the client, within a bound of memory and time. */
export class FinalPageReader {
  readonly #start = new BodyBytes();
  /** The bytes before `#newer`. */
  #older = this.#start;
  #newer = new BodyBytes();

  /** Adds a decoded piece of the page: a copy of what is kept of it. */
  push(bytes: Uint8Array): void {
    if (this.#start.size < KEPT_BYTES) {
      this.#start.add(Buffer.from(bytes.subarray(0, KEPT_BYTES)));
      if (bytes.length <= KEPT_BYTES) return;
    }
    this.#newer.add(Buffer.from(bytes.subarray(-KEPT_BYTES)));
    if (this.#newer.size >= KEPT_BYTES) [this.#older, this.#newer] = [this.#newer, new BodyBytes()];
  }

  /** Returns the page's content; null if it is incomplete and has no error at its start, or if it cannot be read. */
  end(): FinalPage | null {
    const end = Buffer.concat([this.#older.joined(), this.#newer.joined()]).toString();
    const page = parsed(end) ?? parsed(beforeStackTrace(this.#start.joined().toString())) ?? parsed(afterRows(end));
    return page === null ? null : pageOf(page);
  }
}

/** The start of a page, ended before the stack trace of its error. */
function beforeStackTrace(start: string): string {
  return `${start.slice(0, Math.max(0, start.indexOf(',"failureInfo":')))}}}`;
}

/** The members that follow the rows of a page. */
function afterRows(tail: string): string {
  return `{${tail.slice(Math.max(0, tail.lastIndexOf('"stats":{')))}`;
}

function parsed(text: string): Members | null {
  try {
    return objectOf(JSON.parse(text));
  } catch {
    return null;
  }
}

function objectOf(value: unknown): Members | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : null;
}

function pageOf(page: Members): FinalPage {
  const stats = objectOf(page.stats) ?? {};
  const error = objectOf(page.error);
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

function numberOf(value: unknown): number | null {
  return Number.isFinite(value) ? (value as number) : null;
}

/** The text up to its limit, without half a character at its end. */
function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value.slice(0, MAX_MESSAGE_LENGTH).replace(/[\ud800-\udbff]$/, '') : null;
}
