import type { FSWatcher } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type ConfigChange, compareConfigs } from './change.ts';
import type { Environment } from './environment.ts';
import type { GatewayConfig } from './gatewayConfig.ts';
import { parseConfig, readText } from './loadConfig.ts';
import { watchFolder } from './watchFolder.ts';

/** Options of a watch of the configuration file. */
export interface ConfigWatchOptions {
  readonly path: string;
  readonly environment: Environment;
  /** The configuration that the program was started with. */
  readonly running: GatewayConfig;
  readonly logger: Logger;
  /** Called when live keys have changed, with the configuration that is running from now on. Must not throw. */
  readonly onChange: (change: ConfigChange) => void;
  /** Milliseconds between two looks at the file, for changes that the file system does not announce; 5000 by default. */
  readonly pollInterval?: number;
  /** Milliseconds that a changed file must stay as it is before it is read; 100 by default. */
  readonly settleTime?: number;
}

/** A running watch. */
export interface ConfigWatch {
  /** The configuration that is running: live keys as in the file, others as at start. */
  readonly current: GatewayConfig;
  /** Keys that differ in the file, but need a restart. */
  readonly restartNeeded: readonly string[];
  /** Ends the watch; no call of `onChange` comes afterwards. */
  close(): void;
}

/** Reads of a file that goes on changing before it is left to the next look. */
const SETTLE_ATTEMPTS = 20;

/**
 * Watches the configuration file: the folder's events (an editor's rename, the symlink swap of a mounted ConfigMap)
 * and a regular poll. A file with mistakes is logged and changes nothing; live keys of a valid one are applied,
 * other changed keys are logged as needing a restart.
 */
export function watchConfig(options: ConfigWatchOptions): ConfigWatch {
  return new Watch(options);
}

class Watch implements ConfigWatch {
  readonly #options: ConfigWatchOptions;
  readonly #watcher: FSWatcher | null;
  readonly #poll: NodeJS.Timeout;
  readonly #stop = new AbortController();
  #running: GatewayConfig;
  #restartNeeded: readonly string[] = [];
  /** The last processed text, so that each text is processed once. */
  #text: string | null = null;
  #readable = true;
  #checking = false;
  #again = false;

  constructor(options: ConfigWatchOptions) {
    this.#options = options;
    this.#running = options.running;
    this.#watcher = watchFolder(dirname(options.path), () => this.#check(), options.logger);
    this.#poll = setInterval(() => this.#check(), options.pollInterval ?? 5000).unref();
    this.#check();
  }

  get current(): GatewayConfig {
    return this.#running;
  }

  get restartNeeded(): readonly string[] {
    return this.#restartNeeded;
  }

  close(): void {
    this.#stop.abort();
    clearInterval(this.#poll);
    this.#watcher?.close();
  }

  /** Reads the file; events during the read cause one more read. */
  #check(): void {
    if (this.#stop.signal.aborted) return;
    this.#again = this.#checking;
    if (this.#checking) return;
    this.#checking = true;
    this.#look()
      .catch((error: unknown) => {
        if (!this.#stop.signal.aborted) this.#options.logger.error({ err: error }, 'configuration not looked at');
      })
      .finally(() => {
        this.#checking = false;
        if (this.#again) this.#check();
      });
  }

  async #look(): Promise<void> {
    const text = await this.#settled();
    if (text === null || text === this.#text || this.#stop.signal.aborted) return;
    this.#text = text;
    this.#take(text);
  }

  /** The file's text once it stays the same for the settle time; null while it cannot be read or goes on changing. */
  async #settled(): Promise<string | null> {
    let before = await this.#read();
    if (before === this.#text) return before;
    for (let attempt = 0; attempt < SETTLE_ATTEMPTS; attempt += 1) {
      await pause(this.#options.settleTime ?? 100, undefined, { signal: this.#stop.signal, ref: false });
      const now = await this.#read();
      if (now === before) return now;
      before = now;
    }
    return null;
  }

  async #read(): Promise<string | null> {
    const result = await readText(this.#options.path);
    const readable = 'text' in result;
    if (!readable && this.#readable) {
      this.#options.logger.warn(
        { file: this.#options.path },
        `configuration ${result.problem.message}; nothing changes`,
      );
    }
    this.#readable = readable;
    return readable ? result.text : null;
  }

  #take(text: string): void {
    const { path, environment, logger, onChange } = this.#options;
    const result = parseConfig(text, environment, this.#running.protocol.productName);
    if ('problems' in result) {
      for (const { line, field, message } of result.problems) {
        logger.error({ file: path, line, key: field }, `changed configuration refused: ${field} ${message}`.trim());
      }
      return;
    }
    const change = compareConfigs(this.#running, result.config);
    this.#tellRestart(change.restart);
    if (change.live.length === 0) return;
    this.#running = change.config;
    logger.info({ file: path, keys: change.live }, 'changed configuration taken');
    onChange(change);
  }

  #tellRestart(keys: readonly string[]): void {
    const { path, logger } = this.#options;
    const news = keys.filter((key) => !this.#restartNeeded.includes(key));
    this.#restartNeeded = keys;
    if (news.length > 0) logger.warn({ file: path, keys }, `changed configuration needs a restart: ${keys.join(', ')}`);
  }
}
