import path from 'node:path';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { RE2JS } from 're2js';
import type { Clock } from '../model/clock.ts';
import { settlesWithin } from '../model/timeLimit.ts';
import { asciiOf, batches, cutToBytes } from './columns.ts';
import { DatabaseFailure } from './failures.ts';
import { type HistoryMetrics, historyMetrics } from './historyMetrics.ts';
import type { StatementFacts } from './queryOutcome.ts';
import { Spill } from './spill.ts';

/** A query, or how it ended. */
export interface WrittenRecord {
  readonly queryId: string;
  readonly created: number;
  readonly queryText: string | null;
  readonly errorMessage?: string | null;
  readonly groups?: readonly string[];
  readonly statement?: StatementFacts;
}

/** Settings of the writers (`queryHistory`, `dataStore.queryHistoryEnabled`). */
export interface HistorySettings {
  readonly enabled: boolean;
  /** Longest query text, bytes of UTF-8. */
  readonly maxTextSize: number;
  /** Regular expressions (RE2) whose matches become `***`. */
  readonly redact: readonly string[];
  readonly bufferSize: number;
  readonly flushIntervalMs: number;
}

export interface RecordWriterOptions {
  readonly settings: HistorySettings;
  /** That of the history; outcomes are in a folder in it. */
  readonly spillDirectory: string;
  /** Bound of this process's spill files, bytes; default 1 GB. */
  readonly maxSpillBytes?: number;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly clock: Clock;
}

/** Bytes of messages, and of statements of outcomes. */
const MAX_OUTCOME_TEXT_BYTES = 262_144;
/** Bytes beyond the kept text in which a match of `redact` may end. */
const REDACT_MARGIN = 65_536;
const MAX_BATCH_RECORDS = 500;
/** Characters of text in a batch, and in memory. */
const MAX_BATCH_CHARACTERS = 1_000_000;
const MAX_MEMORY_CHARACTERS = 64_000_000;
const MAX_BACK_OFF_MS = 5000;
const LOSS_LOG_MS = 10_000;
/** Outcomes wait so many times as long as queries of the history: of more replicas each batch has fewer of them. */
const OUTCOME_INTERVALS = 3;

/**
 * Takes records of queries off the request path and writes them in batches; what the database cannot take waits on disk, and files
 * that an ended process left are written first (docs/database.md#query-history).
 */
export class RecordWriter<R extends WrittenRecord> {
  private readonly options: RecordWriterOptions;
  private readonly insertBatch: (records: readonly R[]) => Promise<void>;
  private readonly isOfOutcomes: boolean;
  private readonly what: string;
  private readonly intervalMs: number;
  private readonly redactors: readonly RE2JS[];
  private readonly metrics: HistoryMetrics;
  private readonly spill: Spill<R>;
  private queue: R[] = [];
  private characters = 0;
  private readonly byId = new Map<string, R>();
  private timer: NodeJS.Timeout | null = null;
  private running: Promise<void> | null = null;
  private ended = false;
  private closed = false;
  private backOffMs = 0;
  private retryAt = 0;
  private unloggedLoss = 0;
  private lossLoggedAt = Number.NEGATIVE_INFINITY;

  constructor(
    of: 'history' | 'outcomes',
    insertBatch: (records: readonly R[]) => Promise<void>,
    options: RecordWriterOptions,
  ) {
    this.options = options;
    this.insertBatch = insertBatch;
    this.isOfOutcomes = of === 'outcomes';
    this.intervalMs = options.settings.flushIntervalMs * (this.isOfOutcomes ? OUTCOME_INTERVALS : 1);
    this.what = this.isOfOutcomes ? 'history of outcomes' : 'history';
    this.redactors = options.settings.redact.map((pattern) => RE2JS.compile(pattern));
    const directory = this.isOfOutcomes ? path.join(options.spillDirectory, 'outcomes') : options.spillDirectory;
    this.spill = new Spill(directory, options.maxSpillBytes ?? 1024 ** 3, isRecord<R>);
    this.metrics = historyMetrics(options.registry, () => this.depth(), of);
    try {
      const adopted = this.spill.adopt();
      if (adopted > 0) {
        options.logger.info(`${this.what} of a process that ended is written now`);
        this.schedule(0);
      }
    } catch (error) {
      options.logger.error({ err: error, directory }, `${this.what} on disk cannot be read`);
    }
  }

  /** Never throws, never waits. */
  add(whole: R): void {
    const settings = this.options.settings;
    if (!settings.enabled || this.closed) return;
    if (this.queue.length >= 2 * settings.bufferSize || this.characters > 2 * MAX_MEMORY_CHARACTERS) {
      this.lose(1, 'memory');
      return;
    }
    const record = this.fit(whole);
    this.queue.push(record);
    this.characters += weight(record);
    this.byId.set(record.queryId, record);
    if (this.queue.length >= settings.bufferSize || this.characters > MAX_MEMORY_CHARACTERS) this.spillQueue();
    else if (this.queue.length >= MAX_BATCH_RECORDS && this.backOffMs === 0) this.schedule(0);
    this.schedule(this.intervalMs);
  }

  /** A record that may not be in the database yet; null when not buffered. */
  findBuffered(queryId: string): R | null {
    return this.byId.get(queryId) ?? null;
  }

  /**
   * Resolves once a record that was added is in the database, or on disk as the database is unavailable; at the latest after
   * the time. Never rejects.
   */
  async whenWritten(queryId: string, timeoutMs: number): Promise<void> {
    if (!this.byId.has(queryId)) return;
    // A turn that runs may have taken its last batch already. All who wait then share the next one.
    const turn = (this.running ?? Promise.resolve()).then(() => (this.byId.has(queryId) ? this.turn() : undefined));
    await settlesWithin(turn, timeoutMs);
  }

  /** Records in memory and spilled to disk, not yet in the database. */
  depth(): { readonly memory: number; readonly spilled: number } {
    return { memory: this.byId.size, spilled: this.spill.records };
  }

  /** Writes what is there; resolves when all is written, rejects after the time (what is left is spilled). */
  async flush(timeoutMs: number): Promise<void> {
    const deadline = this.options.clock.monotonic() + timeoutMs;
    if (this.running !== null) await settlesWithin(this.running, timeoutMs);
    this.retryAt = 0;
    while (this.queue.length > 0 || this.spill.records > 0 || this.running !== null) {
      const left = deadline - this.options.clock.monotonic();
      const failed = left <= 0 || !(await settlesWithin(this.turn(), left)) || this.backOffMs > 0;
      if (!failed) continue;
      this.spillAtOnce();
      throw new Error(`the ${this.what} could not be written in time; what is left is on disk`);
    }
  }

  async close(timeoutMs: number): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    try {
      await this.flush(timeoutMs);
    } catch (error) {
      this.options.logger.warn(
        { depth: this.depth(), reason: String(error) },
        `${this.what} is left on disk for the next start`,
      );
    }
    await settlesWithin(this.running ?? Promise.resolve(), 1000);
    this.spillAtOnce();
    this.ended = true;
    this.spill.close();
  }

  private fit(record: R): R {
    const { queryText, errorMessage } = record;
    const { maxTextSize } = this.options.settings;
    const most = this.isOfOutcomes ? Math.min(maxTextSize, MAX_OUTCOME_TEXT_BYTES) : maxTextSize;
    const text = queryText === null ? null : this.fitText(queryText, most);
    const message = errorMessage == null ? errorMessage : this.fitText(errorMessage, MAX_OUTCOME_TEXT_BYTES);
    if (text !== null) record.statement?.noteStored?.(text);
    if (text === queryText && message === errorMessage) return record;
    return { ...record, queryText: text, ...(message === undefined ? {} : { errorMessage: message }) };
  }

  /** Redacts a text and cuts it to a number of bytes. */
  fitText(text: string, bytes: number): string {
    if (this.redactors.length === 0) return text.length * 3 <= bytes ? text : cutToBytes(text, bytes);
    // Before the cut: half a secret at the end would not match any more.
    let redacted = cutToBytes(text, bytes + REDACT_MARGIN);
    for (const redactor of this.redactors) redacted = redactor.matcher(redacted).replaceAll('***');
    return cutToBytes(redacted, bytes);
  }

  private schedule(delayMs: number): void {
    if (this.closed || (this.timer !== null && delayMs > 0) || (delayMs === 0 && this.running !== null)) return;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timer = null;
      void this.turn();
    }, delayMs);
    this.timer.unref();
  }

  /** One turn: writes what is there, or puts it on disk while the database is unavailable. Never rejects. */
  private turn(): Promise<void> {
    this.running ??= this.write()
      .catch((error: unknown) => this.options.logger.error({ err: error }, `writing the ${this.what} failed`))
      .finally(() => {
        this.running = null;
        if (this.queue.length + this.spill.files.length > 0) this.schedule(this.intervalMs);
      });
    return this.running;
  }

  private async write(): Promise<void> {
    const { clock, logger } = this.options;
    if (clock.monotonic() < this.retryAt) {
      this.spillQueue();
      return;
    }
    try {
      while (this.queue.length > 0) {
        const { queue, characters } = this;
        const isOne = queue.length <= MAX_BATCH_RECORDS && characters <= MAX_BATCH_CHARACTERS;
        const [batch = []] = isOne ? [queue.slice()] : batches(queue, MAX_BATCH_CHARACTERS, sizeInBatch);
        await this.insert(batch);
        // Unless all of it was put on disk in the meantime: what is stored twice is there once.
        if (this.queue === queue) {
          queue.splice(0, batch.length);
          this.characters -= isOne ? characters : batch.reduce((sum, record) => sum + weight(record), 0);
        }
        this.forget(batch);
      }
      while (this.queue.length === 0 && this.spill.files.length > 0) {
        this.lose(await this.spill.replayOne((records) => this.writeAll(records)), 'torn');
      }
      if (this.backOffMs > 0) logger.info(`${this.what} is written again`);
      this.backOffMs = 0;
    } catch (error) {
      if (this.backOffMs === 0) {
        const reason = error instanceof Error ? error.message : String(error);
        logger.warn({ reason }, `${this.what} cannot be written and waits on disk`);
      }
      this.backOffMs = Math.min(Math.max(this.backOffMs * 2, 500), MAX_BACK_OFF_MS);
      this.retryAt = clock.monotonic() + this.backOffMs;
      this.spillQueue();
    }
  }

  private async writeAll(records: readonly R[]): Promise<void> {
    for (const batch of batches(records, MAX_BATCH_CHARACTERS, sizeInBatch)) await this.insert(batch);
  }

  /** Inserts; a record that the database rejects is found by halving, tried in ASCII, and given up. */
  private async insert(batch: readonly R[]): Promise<void> {
    const end = this.metrics.batch.startTimer();
    try {
      await this.insertBatch(batch);
      end();
      this.metrics.written.inc(batch.length);
    } catch (error) {
      if (!(error instanceof DatabaseFailure) || error.kind !== 'data') throw error;
      const [only] = batch;
      if (batch.length > 1 || only === undefined) {
        const middle = batch.length >> 1;
        await this.insert(batch.slice(0, middle));
        await this.insert(batch.slice(middle));
        return;
      }
      try {
        await this.insertBatch([plain(only)]);
        this.metrics.written.inc();
      } catch (second) {
        if (!(second instanceof DatabaseFailure) || second.kind !== 'data') throw second;
        this.options.logger.warn(
          { queryId: only.queryId, code: second.code },
          `database rejected a query of the ${this.what}`,
        );
        this.lose(1, 'refused');
      }
    }
  }

  private spillQueue(): void {
    if (this.ended || this.queue.length === 0) return;
    const records = this.queue;
    this.queue = [];
    this.characters = 0;
    try {
      const losses = this.spill.append(records);
      this.metrics.spilled.inc(records.length - losses);
      this.lose(losses, 'disk');
      this.forget(records);
    } catch (error) {
      // The disk rejects: memory keeps them up to its bound.
      this.options.logger.error({ err: error }, `${this.what} cannot be put on disk`);
      const { bufferSize } = this.options.settings;
      this.lose(Math.max(0, records.length - bufferSize), 'disk');
      this.forget(records.slice(bufferSize));
      this.queue = records.slice(0, bufferSize);
      this.characters = this.queue.reduce((sum, record) => sum + weight(record), 0);
    }
    this.schedule(this.intervalMs);
  }

  private spillAtOnce(): void {
    this.spillQueue();
    this.lose(this.queue.length, 'disk');
    this.forget(this.queue);
    this.queue = [];
  }

  private forget(records: readonly R[]): void {
    for (const record of records) {
      if (this.byId.get(record.queryId) === record) this.byId.delete(record.queryId);
    }
  }

  private lose(count: number, reason: 'memory' | 'disk' | 'refused' | 'torn'): void {
    if (count === 0) return;
    this.metrics.losses.inc({ reason }, count);
    this.unloggedLoss += count;
    const now = this.options.clock.monotonic();
    if (now - this.lossLoggedAt < LOSS_LOG_MS) return;
    this.lossLoggedAt = now;
    this.options.logger.error({ lost: this.unloggedLoss, reason }, `queries are missing in the ${this.what}`);
    this.unloggedLoss = 0;
  }
}

/** About what it takes. */
function weight(record: WrittenRecord): number {
  let characters = 300;
  for (const value of Object.values(record)) {
    if (typeof value === 'string') characters += value.length;
    else if (Array.isArray(value)) for (const name of value) characters += name.length;
  }
  return characters;
}

/** Bounds the records of a batch, too. */
function sizeInBatch(record: WrittenRecord): number {
  return Math.max(weight(record), MAX_BATCH_CHARACTERS / MAX_BATCH_RECORDS);
}

function isRecord<R extends WrittenRecord>(value: unknown): value is R {
  const { queryId, created } = value as Partial<WrittenRecord>;
  return typeof queryId === 'string' && typeof created === 'number';
}

/** The record in ASCII: the last resort for a table whose character set does not have a character. */
function plain<R extends WrittenRecord>(record: R): R {
  return JSON.parse(JSON.stringify(record), (_name, value) => (typeof value === 'string' ? asciiOf(value) : value));
}
