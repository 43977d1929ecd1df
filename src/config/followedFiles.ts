import { isDeepStrictEqual } from 'node:util';

/** A value made of files; another one after each change of the files. */
export interface Followed<T> {
  readonly current: T;
  stop(): void;
}

/**
 * Follows a value made of files, which are read again at an interval. Contents are compared, not times: mounted Secrets
 * change by a swapped link. Contents that cannot be used are reported once, and the last good value stays.
 * @param report called after a change: with null, or with the reason why the files cannot be used. Must not throw
 * @throws as `read` and `use` do for the first contents
 */
export async function followFiles<T, C>(
  read: () => Promise<C>,
  use: (contents: C) => T | Promise<T>,
  report: (problem: string | null, current: T) => void,
  refreshTime: number,
): Promise<Followed<T>> {
  let used = await read();
  let current = await use(used);
  let problem: string | null = null;
  const look = async (): Promise<void> => {
    try {
      const contents = await read();
      if (!isDeepStrictEqual(contents, used)) {
        current = await use(contents);
        used = contents;
      } else if (problem === null) return;
      problem = null;
      report(null, current);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (reason !== problem) report(reason, current);
      problem = reason;
    }
  };
  let isReading = false;
  const timer = setInterval(async () => {
    if (isReading) return;
    isReading = true;
    await look();
    isReading = false;
  }, refreshTime).unref();
  return {
    get current() {
      return current;
    },
    stop: () => clearInterval(timer),
  };
}
