import { type FSWatcher, watch } from 'node:fs';
import type { Logger } from 'pino';

/**
 * Watches a folder where the file system reports changes. Not all do (network file systems, exhausted limits): callers
 * that depend on changes poll the folder as well.
 * @param onEvent called when something in the folder may have changed. Must not throw.
 * @returns null when the folder cannot be watched
 */
export function watchFolder(folder: string, onEvent: () => void, logger: Logger): FSWatcher | null {
  try {
    const watcher = watch(folder, { persistent: false }, onEvent);
    watcher.on('error', (error) => logger.debug({ err: error, folder }, 'folder watch lost; polling'));
    return watcher;
  } catch (error) {
    logger.debug({ err: error, folder }, 'failed to watch folder; polling');
    return null;
  }
}
