import { isDeepStrictEqual } from 'node:util';

/** A value made of files; another one after each change of the files. */
export interface Followed<T> {
  readonly current: T;
  stop(): void;
}

/**
 * A value made of files that are read again at an interval. Contents are compared, not times: mounted Secrets change by a
 * swapped link. Contents that cannot be used are reported once, and the last good value stays.
 */
export class FollowedFiles<T, C> implements Followed<T> {
  readonly #read: () => Promise<C>;
  readonly #use: (contents: C) => T | Promise<T>;
  readonly #report: (problem: string | null, current: T) => void;
  readonly #timer: NodeJS.Timeout;
  #contents: C;
  #current: T;
  #problem: string | null = null;
  #isReading = false;

  private constructor(
    read: () => Promise<C>,
    use: (contents: C) => T | Promise<T>,
    report: (problem: string | null, current: T) => void,
    refreshTime: number,
    contents: C,
    current: T,
  ) {
    this.#read = read;
    this.#use = use;
    this.#report = report;
    this.#contents = contents;
    this.#current = current;
    this.#timer = setInterval(() => void this.#look(), refreshTime).unref();
  }

  /**
   * Reads the files and follows them.
   * @param report called after a change: with null, or with the reason why the files cannot be used. Must not throw
   * @throws as `read` and `use` do for the first contents
   */
  static async open<T, C>(
    read: () => Promise<C>,
    use: (contents: C) => T | Promise<T>,
    report: (problem: string | null, current: T) => void,
    refreshTime: number,
  ): Promise<FollowedFiles<T, C>> {
    const contents = await read();
    return new FollowedFiles(read, use, report, refreshTime, contents, await use(contents));
  }

  get current(): T {
    return this.#current;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      const contents = await this.#read();
      const isSame = isDeepStrictEqual(contents, this.#contents);
      if (isSame && this.#problem === null) return;
      if (!isSame) {
        this.#current = await this.#use(contents);
        this.#contents = contents;
      }
      this.#problem = null;
      this.#report(null, this.#current);
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      if (problem !== this.#problem) this.#report(problem, this.#current);
      this.#problem = problem;
    } finally {
      this.#isReading = false;
    }
  }
}
