import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { AuditRepository, NewAuditEntry } from './auditRepository.ts';

/** Limit of what waits, in characters of entries. */
const MAX_WAITING_CHARACTERS = 8_000_000;
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
  readonly #stop = new AbortController();
  #writing: Promise<void> = Promise.resolve();
  #characters = 0;
  #written = 0;
  #lost = 0;

  /** @param maxEntries `audit.maxEntries` */
  constructor(repository: AuditRepository, maxEntries: number, logger: Logger) {
    this.#repository = repository;
    this.#maxEntries = maxEntries;
    this.#logger = logger;
  }

  /** Takes an entry. Never throws, never waits. */
  add(entry: NewAuditEntry): void {
    const size = 1_000 + (entry.before?.length ?? 0) + (entry.after?.length ?? 0);
    if (this.#characters + size > MAX_WAITING_CHARACTERS) {
      if (this.#lost === 0) this.#logger.warn('audit buffer full; further entries are in the log only');
      this.#lost += 1;
      return;
    }
    this.#characters += size;
    this.#writing = this.#writing.then(async () => {
      await this.#write(entry);
      this.#characters -= size;
    });
  }

  async close(timeoutMs: number): Promise<void> {
    await Promise.race([this.#writing, sleep(timeoutMs, undefined, { ref: false })]);
    this.#stop.abort();
    await this.#writing;
    if (this.#lost > 0) this.#logger.warn({ entries: this.#lost }, 'audit entries lost; they are in the log');
  }

  async #write(entry: NewAuditEntry): Promise<void> {
    const { signal } = this.#stop;
    for (let isFailing = false; !signal.aborted; isFailing = true) {
      try {
        await this.#repository.insert(entry);
        this.#written += 1;
        // Keeps a client that changes things again and again from filling the table until the retention runs.
        if (this.#written % TRIM_AFTER === 0) await this.#repository.deleteBeyond(this.#maxEntries);
        if (isFailing) this.#logger.info('audit writes restored');
        return;
      } catch (error) {
        if (!isFailing) this.#logger.warn({ err: error }, 'failed to write audit; entries buffered');
        await sleep(RETRY_MS, undefined, { signal, ref: false }).catch(() => undefined);
      }
    }
    this.#lost += 1;
  }
}
