import type { FSWatcher } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Logger } from 'pino';
import { watchFolder } from '../../../config/watchFolder.ts';
import type { Clock } from '../../../model/clock.ts';
import type { RulesFile, RulesFileProblem } from '../../../rules/ruleCompiler.ts';

export interface RulesFileWatchOptions {
  /** `routingRules.rulesConfigPath`. */
  readonly path: string;
  /** `routingRules.defaultPriority`. */
  readonly defaultPriority: number | undefined;
  /** `routingRules.rulesRefreshPeriod` in milliseconds, as it is now. */
  readonly refreshPeriod: number;
  /** Mistakes and warnings of a text, for the log and to detect a file that is being written. */
  readonly check: (file: RulesFile) => Promise<readonly RulesFileProblem[]>;
  /** Called when `current` is another one. Must not throw. */
  readonly onChange: () => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A file that changed within this time may be half written: it is read again before it counts as broken. */
const SETTLE_MS = 1000;
const RETRY_MS = 100;
/** Longest rules file in bytes. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_LOGGED = 20;
/** In the order in which they are logged. */
const EFFECTS = ['fileNotLoaded', 'ruleLeftOut', 'warning'] as const;

/**
 * The rules file, read again every refresh period and whenever its folder states that something changed (an editor's
 * rename, the symlink swap of a mounted ConfigMap).
 */
export class RulesFileWatch {
  readonly #options: RulesFileWatchOptions;
  current: RulesFile;
  #watcher: FSWatcher | null = null;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | null = null;
  #again = false;
  #stopped = false;
  /** Monotonic time at which what is there now was first seen and doubted; null while nothing is doubted. */
  #doubtedSince: { readonly text: string | null; readonly at: number } | null = null;

  constructor(options: RulesFileWatchOptions) {
    this.#options = options;
    const { path, defaultPriority } = options;
    this.current = { path, defaultPriority, text: null, error: 'not read yet' };
  }

  /** Reads the file for the first time and begins to follow it. Resolves when `current` is what there is. */
  async start(): Promise<void> {
    const { path, logger } = this.#options;
    this.#watcher = watchFolder(dirname(path), () => this.#lookInBackground(), logger);
    do {
      await this.look();
      if (this.#doubtedSince === null) break;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    } while (!this.#stopped);
    this.#schedule();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#watcher?.close();
  }

  /** Reads the file now; events that come meanwhile lead to one more look. */
  async look(): Promise<void> {
    this.#again = true;
    this.#looking ??= this.#lookUntilQuiet().finally(() => {
      this.#looking = null;
    });
    await this.#looking;
  }

  async #lookUntilQuiet(): Promise<void> {
    while (this.#again && !this.#stopped) {
      this.#again = false;
      await this.#read();
    }
  }

  async #read(): Promise<void> {
    const { file, changedAt } = await this.#load();
    const { text, error } = this.current;
    if (this.#stopped || (file.text === text && file.error === error)) {
      this.#doubtedSince = null;
      return;
    }
    const problems = await this.#options.check(file);
    if (this.#stopped || this.#isDoubtful(file, problems, changedAt)) return;
    this.#doubtedSince = null;
    this.current = file;
    this.#log(file, problems);
    this.#options.onChange();
  }

  /** Broken, empty or gone, but only just: perhaps it is being written. */
  #isDoubtful(file: RulesFile, problems: readonly RulesFileProblem[], changedAt: number | null): boolean {
    const isEmpty = file.text !== null && file.text.trim() === '';
    const isSound =
      problems.every(({ effect }) => effect === 'warning') && !(isEmpty && (this.current.text ?? '').trim() !== '');
    if (isSound) return false;
    const { clock } = this.#options;
    if (this.#doubtedSince === null || this.#doubtedSince.text !== file.text) {
      this.#doubtedSince = { text: file.text, at: clock.monotonic() };
    }
    const sinceSeen = clock.monotonic() - this.#doubtedSince.at;
    const sinceChange = changedAt === null ? sinceSeen : clock.now() - changedAt;
    // A time stamp of the future, as shared storage may have it, must not keep a broken file unnoticed.
    const isRecent = sinceSeen < SETTLE_MS && sinceChange < SETTLE_MS;
    if (isRecent) this.#schedule(RETRY_MS);
    return isRecent;
  }

  async #load(): Promise<{ readonly file: RulesFile; readonly changedAt: number | null }> {
    const { path, defaultPriority } = this.#options;
    const place = { path, defaultPriority };
    try {
      const stats = await stat(path);
      if (stats.size > MAX_BYTES) {
        const error = `it is longer than ${MAX_BYTES} bytes`;
        return { file: { ...place, text: null, error }, changedAt: stats.mtimeMs };
      }
      const text = new TextDecoder('utf-8', { fatal: true }).decode(await readFile(path));
      return { file: { ...place, text }, changedAt: stats.mtimeMs };
    } catch (error) {
      return { file: { ...place, text: null, error: reasonOf(error) }, changedAt: null };
    }
  }

  #log(file: RulesFile, problems: readonly RulesFileProblem[]): void {
    const { logger } = this.#options;
    if (problems.every(({ effect }) => effect !== 'fileNotLoaded'))
      logger.info({ file: file.path }, 'rules file loaded');
    const worstFirst = EFFECTS.flatMap((each) => problems.filter(({ effect }) => effect === each));
    for (const { effect, path, document, line, column, rule, message } of worstFirst.slice(0, MAX_LOGGED)) {
      const place = { file: path, document, line, column, rule };
      if (effect === 'warning') logger.warn(place, `rules file: ${message}`);
      else if (effect === 'ruleLeftOut') logger.error(place, `rule of the rules file left out: ${message}`);
      else logger.error(place, `rules file does not load: ${message}`);
    }
    const more = worstFirst.length - MAX_LOGGED;
    if (more > 0) {
      logger.warn({ file: file.path, more }, 'rules file has more mistakes and warnings; GET /api/rules lists them');
    }
  }

  /** Reads the file again after a time; by default the refresh period. */
  #schedule(delayMs = this.#options.refreshPeriod): void {
    if (this.#stopped) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#schedule();
      this.#lookInBackground();
    }, delayMs);
    this.#timer.unref();
  }

  #lookInBackground(): void {
    if (this.#stopped) return;
    this.look().catch((error: unknown) => {
      this.#options.logger.error({ err: error, file: this.#options.path }, 'failed to check rules file');
    });
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof TypeError) return 'it is not UTF-8';
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'there is no such file';
  if (code === 'EACCES' || code === 'EPERM') return 'permission denied';
  return code ?? (error instanceof Error ? error.message : String(error));
}
