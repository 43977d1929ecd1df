import type { FSWatcher } from 'node:fs';
import type { Logger } from 'pino';
import { watchFolder } from '../../../config/watchFolder.ts';

/** Watchers of a directory and of those below it. Their owner polls as well. */
export class DirectoryWatchers {
  readonly #onEvent: () => void;
  readonly #logger: Logger;
  readonly #watchers = new Map<string, FSWatcher>();

  /** @param onEvent called when something in a directory may have changed. Must not throw. */
  constructor(onEvent: () => void, logger: Logger) {
    this.#onEvent = onEvent;
    this.#logger = logger;
  }

  follow(directories: readonly string[]): void {
    for (const [path, watcher] of this.#watchers) if (!directories.includes(path)) this.#drop(path, watcher);
    for (const path of directories) if (!this.#watchers.has(path)) this.#watch(path);
  }

  stop(): void {
    for (const [path, watcher] of this.#watchers) this.#drop(path, watcher);
  }

  #watch(path: string): void {
    const watcher = watchFolder(path, this.#onEvent, this.#logger);
    if (watcher === null) return;
    // One that failed is created again by the next `follow`.
    watcher.on('error', () => this.#drop(path, watcher));
    this.#watchers.set(path, watcher);
  }

  #drop(path: string, watcher: FSWatcher): void {
    watcher.close();
    this.#watchers.delete(path);
  }
}
