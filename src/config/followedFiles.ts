import { type FSWatcher, watch } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';

/** A value made of files; another one after each change of the files. */
export interface FileWatch<T> {
  readonly current: T;
  stop(): void;
}

/** Files that can be read before their interval is over. */
export interface RefreshableFileWatch<T> extends FileWatch<T> {
  /** Reads the files now. Never rejects. */
  refresh(): Promise<void>;
}

/** Time after which files that are not complete are read again. */
const RETRY_MS = 100;

/**
 * Follows a value made of files, which are read again at an interval. Contents are compared, not times: mounted Secrets
 * change by a swapped link. Contents that cannot be used are reported once, and the last good value stays.
 * @param use makes the value; undefined for contents that are perhaps not complete yet. `age` is the time in
 *   milliseconds since these contents were first seen
 * @param report called after a change: with null, or with the reason why the files cannot be used. Must not throw
 * @param watching watches the files, so that a change is seen before the interval is over
 * @throws as `read` and `use` do for the first contents
 */
export async function followFiles<T, C>(
  read: () => Promise<C>,
  use: (contents: C, age: number) => T | undefined | Promise<T | undefined>,
  report: (problem: string | null, current: T) => void,
  refreshTime: number,
  watching: (onEvent: () => void) => FSWatcher | null = () => null,
): Promise<RefreshableFileWatch<T>> {
  let used: { readonly contents: C; readonly value: T } | undefined;
  let candidate: { readonly contents: C; readonly at: number } | undefined;
  const take = async (): Promise<'same' | 'changed' | 'incomplete'> => {
    const contents = await read();
    const isSame = used !== undefined && isDeepStrictEqual(contents, used.contents);
    if (isSame || !isDeepStrictEqual(contents, candidate?.contents)) candidate = { contents, at: performance.now() };
    if (isSame) return 'same';
    const value = await use(contents, performance.now() - (candidate?.at ?? 0));
    if (value === undefined) return 'incomplete';
    used = { contents, value };
    return 'changed';
  };
  while ((await take()) === 'incomplete') await sleep(RETRY_MS);
  const current = (): T => (used as { readonly value: T }).value;
  let problem: string | null = null;
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  const refreshOnce = async (): Promise<void> => {
    isQueued = false;
    clearTimeout(timer);
    const taken = await take().catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))));
    const reason = taken instanceof Error ? taken.message : taken === 'incomplete' ? problem : null;
    if (isStopped) return;
    if (taken === 'changed' || reason !== problem) report(reason, current());
    problem = reason;
    timer = setTimeout(refresh, taken === 'incomplete' ? RETRY_MS : refreshTime).unref();
  };
  let turn = Promise.resolve();
  let isQueued = false;
  /** Events that come while the files are read lead to one more reading. */
  const refresh = (): Promise<void> => {
    if (!isQueued && !isStopped) turn = turn.then(refreshOnce);
    isQueued = true;
    return turn;
  };
  const watcher = watching(refresh);
  // A change between the first reading and the begin of the watch has no event.
  timer = setTimeout(refresh, watcher === null ? refreshTime : 0).unref();
  return {
    get current() {
      return current();
    },
    refresh,
    stop() {
      isStopped = true;
      clearTimeout(timer);
      watcher?.close();
    },
  };
}

/**
 * Watches a folder where the file system reports changes. Not all do (network file systems, exhausted limits): callers
 * that depend on changes poll the folder as well.
 * @param onEvent called when something in the folder may have changed, with its name where that is known. Must not throw.
 * @returns null when the folder cannot be watched
 */
export function watchFolder(folder: string, onEvent: (name: string | null) => void, logger: Logger): FSWatcher | null {
  try {
    const watcher = watch(folder, { persistent: false }, (_, name) => onEvent(name));
    watcher.on('error', (error) => logger.debug({ err: error, folder }, 'folder watch lost; polling'));
    return watcher;
  } catch (error) {
    logger.debug({ err: error, folder }, 'failed to watch folder; polling');
    return null;
  }
}
