import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { AuditEntry } from './audit.ts';
import type { AuditRepository } from './auditRepository.ts';

/** Limit of the queue, in characters of entries. */
const MAX_WAITING_CHARACTERS = 8_000_000;
const BATCH = 50;
/** Time before the next try while the database is unavailable, in milliseconds. */
const RETRY_MS = 1_000;
/** After so many entries of this process it looks whether there are too many. */
const TRIM_AFTER = 500;

/**
 * Writes entries of the audit in the background, in their order. While the database is unavailable they wait in memory, up to a
 * bound: beyond it, and where the process ends before the database is back, only the log has them.
 */
export class AuditWriter {
  readonly #repository: AuditRepository;
  readonly #maxEntries: number;
  readonly #logger: Logger;
  readonly #waiting: AuditEntry[] = [];
  readonly #stop = new AbortController();
  #characters = 0;
  #writing: Promise<void> | null = null;
  #sinceTrim = 0;
  #dropped = 0;

  /** @param maxEntries `audit.maxEntries` */
  constructor(repository: AuditRepository, maxEntries: number, logger: Logger) {
    this.#repository = repository;
    this.#maxEntries = maxEntries;
    this.#logger = logger;
  }

  /** Takes an entry. Never throws, never waits. */
  add(entry: AuditEntry): void {
    const size = sizeOf(entry);
    if (this.#characters + size > MAX_WAITING_CHARACTERS) {
      if (this.#dropped === 0) this.#logger.warn('audit buffer full; further entries are in the log only');
      this.#dropped += 1;
      return;
    }
    this.#waiting.push(entry);
    this.#characters += size;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = null;
    });
  }

  async close(timeoutMs: number): Promise<void> {
    await Promise.race([this.#writing, sleep(timeoutMs, undefined, { ref: false })]);
    this.#stop.abort();
    await this.#writing;
    if (this.#waiting.length === 0) return;
    this.#logger.warn({ entries: this.#waiting.length }, 'audit entries lost; they are in the log');
  }

  async #writeAll(): Promise<void> {
    const { signal } = this.#stop;
    let isFailing = false;
    while (this.#waiting.length > 0 && !signal.aborted) {
      const batch = this.#waiting.slice(0, BATCH);
      try {
        await this.#repository.insert(batch);
        this.#waiting.splice(0, batch.length);
        for (const entry of batch) this.#characters -= sizeOf(entry);
        if (isFailing || this.#dropped > 0) this.#logger.info({ dropped: this.#dropped }, 'audit writes restored');
        isFailing = false;
        this.#dropped = 0;
        // Keeps a client that changes things again and again from filling the table until the retention runs.
        this.#sinceTrim += batch.length;
        if (this.#sinceTrim >= TRIM_AFTER) await this.#repository.deleteBeyond(this.#maxEntries);
        this.#sinceTrim %= TRIM_AFTER;
      } catch (error) {
        if (!isFailing) this.#logger.warn({ err: error }, 'failed to write audit; entries buffered');
        isFailing = true;
        await sleep(RETRY_MS, undefined, { signal, ref: false }).catch(() => undefined);
      }
    }
  }
}

function sizeOf({ before, after, object, call }: AuditEntry): number {
  return 1_000 + (before?.length ?? 0) + (after?.length ?? 0) + object.length + (call?.length ?? 0);
}
