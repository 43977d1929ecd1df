import type { FSWatcher } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { type ConfigChange, compareConfigs } from './change.ts';
import type { Environment } from './environment.ts';
import type { GatewayConfig } from './gatewayConfig.ts';
import { type ConfigText, parseConfigTexts, readTexts } from './loadConfig.ts';
import type { ConfigProblem } from './problem.ts';
import { watchFolder } from './watchFolder.ts';

/** Options of a watch of the configuration files. */
export interface ConfigWatchOptions {
  /** Each laid over those before it. */
  readonly paths: readonly string[];
  readonly environment: Environment;
  /** The configuration that the program was started with. */
  readonly running: GatewayConfig;
  readonly logger: Logger;
  /** Called when live keys have changed, with the configuration that is running from now on. Must not throw. */
  readonly onChange: (change: ConfigChange) => void;
  /** Milliseconds between two looks at the files, for changes that the file system does not announce; 5000 by default. */
  readonly pollInterval?: number;
  /** Milliseconds that a changed file must stay as it is before it is read; 100 by default. */
  readonly settleTime?: number;
}

/** The part of the configuration files that is not active. */
export interface UnappliedConfig {
  /** Places of the mistakes for which the changed files are rejected as a whole; the log has the messages. */
  readonly rejected: readonly string[];
  /** Keys that differ in the files, but need a restart. */
  readonly restartNeeded: readonly string[];
}

/** A running watch. */
export interface ConfigWatch extends UnappliedConfig {
  /** The configuration that is running: live keys as in the file, others as at start. */
  readonly current: GatewayConfig;
  /** Ends the watch; no call of `onChange` comes afterwards. */
  close(): void;
}

/** Reads of a file that goes on changing before it is left to the next look. */
const SETTLE_ATTEMPTS = 20;

/**
 * Watches the configuration files: events of their folders (an editor's rename, the symlink swap of a mounted ConfigMap)
 * and a regular poll. A file with mistakes is logged and changes nothing; live keys of valid ones are applied,
 * other changed keys are logged as needing a restart.
 */
export function watchConfig(options: ConfigWatchOptions): ConfigWatch {
  return new Watch(options);
}

class Watch implements ConfigWatch {
  readonly #options: ConfigWatchOptions;
  readonly #watchers: readonly (FSWatcher | null)[];
  readonly #poll: NodeJS.Timeout;
  readonly #stop = new AbortController();
  #running: GatewayConfig;
  #restartNeeded: readonly string[] = [];
  /** The last processed texts, so that each is processed once. */
  #texts: readonly ConfigText[] | null = null;
  #mistakes: readonly string[] = [];
  /** The file that cannot be read. */
  #unreadable: string | null = null;
  #checking = false;
  #again = false;

  constructor(options: ConfigWatchOptions) {
    this.#options = options;
    this.#running = options.running;
    const folders = new Set(options.paths.map((path) => dirname(path)));
    this.#watchers = [...folders].map((folder) => watchFolder(folder, () => this.#check(), options.logger));
    this.#poll = setInterval(() => this.#check(), options.pollInterval ?? 5000).unref();
    this.#check();
  }

  get current(): GatewayConfig {
    return this.#running;
  }

  get rejected(): readonly string[] {
    return this.#unreadable === null ? this.#mistakes : [`${this.#unreadable} cannot be read`];
  }

  get restartNeeded(): readonly string[] {
    return this.#restartNeeded;
  }

  close(): void {
    this.#stop.abort();
    clearInterval(this.#poll);
    for (const watcher of this.#watchers) watcher?.close();
  }

  /** Reads the files; events during the read cause one more read. */
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
    const texts = await this.#settled();
    if (texts === null || isDeepStrictEqual(texts, this.#texts) || this.#stop.signal.aborted) return;
    this.#texts = texts;
    this.#take(texts);
  }

  /** The files once they stay the same for the settle time; null while one cannot be read or they go on changing. */
  async #settled(): Promise<readonly ConfigText[] | null> {
    let before = await this.#read();
    if (isDeepStrictEqual(before, this.#texts)) return before;
    for (let attempt = 0; attempt < SETTLE_ATTEMPTS; attempt += 1) {
      await pause(this.#options.settleTime ?? 100, undefined, { signal: this.#stop.signal, ref: false });
      const now = await this.#read();
      if (isDeepStrictEqual(now, before)) return now;
      before = now;
    }
    return null;
  }

  async #read(): Promise<readonly ConfigText[] | null> {
    const result = await readTexts(this.#options.paths);
    if ('texts' in result) {
      this.#unreadable = null;
      return result.texts;
    }
    const { file = '', message } = result.problem;
    if (this.#unreadable === null) this.#options.logger.warn({ file }, `configuration ${message}; nothing changes`);
    this.#unreadable = file;
    return null;
  }

  #take(texts: readonly ConfigText[]): void {
    const { paths, environment, logger, onChange } = this.#options;
    const result = parseConfigTexts(texts, environment, this.#running.protocol.productName);
    this.#mistakes = 'problems' in result ? result.problems.map((problem) => placeOf(problem, paths)) : [];
    if ('problems' in result) {
      for (const { file = paths[0], line, field, message } of result.problems) {
        logger.error({ file, line, key: field }, `changed configuration refused: ${field} ${message}`.trim());
      }
      return;
    }
    const change = compareConfigs(this.#running, result.config);
    this.#tellRestart(change.restart);
    if (change.live.length === 0) return;
    this.#running = change.config;
    logger.info({ files: paths, keys: change.live }, 'changed configuration taken');
    onChange(change);
  }

  #tellRestart(keys: readonly string[]): void {
    const { paths, logger } = this.#options;
    const news = keys.filter((key) => !this.#restartNeeded.includes(key));
    this.#restartNeeded = keys;
    if (news.length > 0) {
      logger.warn({ files: paths, keys }, `changed configuration needs a restart: ${keys.join(', ')}`);
    }
  }
}

/** The file, line and key of a mistake, without its message, which may repeat a value. */
function placeOf({ file = '', line, field }: ConfigProblem, [first = '']: readonly string[]): string {
  return `${file === '' ? first : file}${line === null ? '' : `:${line}`} ${field}`.trim();
}
