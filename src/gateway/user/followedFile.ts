import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';

/** How a file is followed. */
export interface FollowedFileOptions<T> {
  readonly path: string;
  /** What the file is to people, for the log: `file of user mappings`. */
  readonly subject: string;
  /**
   * Makes what the file says; null where that is nothing.
   * @throws Error saying why the file cannot be used
   */
  readonly open: () => Promise<T>;
  /** Milliseconds between two looks at the file. */
  readonly refreshTime: number;
  readonly logger: Logger;
}

/** What is in force of a file or a setting; another one after each change of the file. */
export interface Followed<T> {
  readonly current: T;
  stop(): void;
}

/**
 * Reads a file and follows it: a changed one is taken, one that cannot be used is reported once and leaves what was good last in
 * force.
 * @throws as `open`, where the file cannot be used at the start
 */
export async function followFile<T>(options: FollowedFileOptions<T>): Promise<Followed<T>> {
  // Read before it is opened: what changes in between is then a change.
  const text = await textOf(options.path);
  return new FollowedFile(options, await options.open(), text);
}

class FollowedFile<T> implements Followed<T> {
  readonly #options: FollowedFileOptions<T>;
  readonly #timer: NodeJS.Timeout;
  #current: T;
  /** What was looked at last, usable or not; null: it could not be read. */
  #text: string | null;
  #isLooking = false;

  constructor(options: FollowedFileOptions<T>, current: T, text: string | null) {
    this.#options = options;
    this.#current = current;
    this.#text = text;
    this.#timer = setInterval(() => void this.#look(), options.refreshTime).unref();
  }

  get current(): T {
    return this.#current;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const { path: file, subject, open, logger } = this.#options;
    try {
      const text = await textOf(file);
      if (text === this.#text) return;
      this.#text = text;
      this.#current = await open();
      logger.info({ file }, `changed ${subject} taken`);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      logger.error({ file, reason }, `changed ${subject} refused; the last good rules stay in force`);
    } finally {
      this.#isLooking = false;
    }
  }
}

/** Null where it cannot be read. */
async function textOf(path: string): Promise<string | null> {
  return await readFile(path, 'utf8').catch(() => null);
}
