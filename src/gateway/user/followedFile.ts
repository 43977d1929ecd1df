import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';

export interface FollowedFileOptions<T> {
  readonly path: string;
  /** Description of the file for the log: `file of user mappings`. */
  readonly subject: string;
  /**
   * Parses the file; null if it is empty.
   * @throws Error with the reason that the file cannot be used
   */
  readonly open: () => Promise<T>;
  /** Milliseconds between two reads of the file. */
  readonly refreshTime: number;
  readonly logger: Logger;
}

/** The active content of a file or a setting; replaced after each change of the file. */
export interface Followed<T> {
  readonly current: T;
  stop(): void;
}

/**
 * Reads a file and follows it: a change is applied; an unusable file is reported once and leaves the last good content
 * active.
 * @throws as `open`, if the file cannot be used at the start
 */
export async function followFile<T>(options: FollowedFileOptions<T>): Promise<Followed<T>> {
  // Read before it is opened, so that a change in between is detected.
  const text = await textOf(options.path);
  return new FollowedFile(options, await options.open(), text);
}

class FollowedFile<T> implements Followed<T> {
  readonly #options: FollowedFileOptions<T>;
  readonly #timer: NodeJS.Timeout;
  #current: T;
  /** The latest text, valid or not; null: unreadable. */
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

/** Null if unreadable. */
async function textOf(path: string): Promise<string | null> {
  return await readFile(path, 'utf8').catch(() => null);
}
