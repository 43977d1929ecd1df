import { readFile, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Logger } from 'pino';
import { followFiles, type RefreshableFileWatch, watchFolder } from '../../../config/followedFiles.ts';
import type { RulesFile, RulesFileProblem } from '../../../rules/ruleCompiler.ts';

/** A file that changed within this time may be half written: it is read again before it counts as broken. */
const SETTLE_MS = 1000;
/** Longest rules file in bytes. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_LOGGED = 20;
const EFFECTS = ['fileNotLoaded', 'ruleLeftOut', 'warning'] as const;

/**
 * The rules file, read again every refresh period and whenever its folder states that something changed (an editor's
 * rename, the symlink swap of a mounted ConfigMap).
 */
export class RulesFileWatch {
  current: RulesFile;
  readonly #check: (file: RulesFile) => Promise<readonly RulesFileProblem[]>;
  readonly #onChange: () => void;
  readonly #logger: Logger;
  #files: RefreshableFileWatch<RulesFile> | null = null;

  /**
   * @param check returns mistakes and warnings of a text, for the log and to detect a file that is being written
   * @param onChange called when `current` is another one. Must not throw
   */
  constructor(
    file: Pick<RulesFile, 'path' | 'defaultPriority'>,
    check: (file: RulesFile) => Promise<readonly RulesFileProblem[]>,
    onChange: () => void,
    logger: Logger,
  ) {
    this.current = { ...file, text: null, error: 'not read yet' };
    this.#check = check;
    this.#onChange = onChange;
    this.#logger = logger;
  }

  /**
   * Reads the file for the first time and begins to follow it. Resolves when `current` is what there is.
   * @param refreshPeriod milliseconds after which the file is read again at the latest
   */
  async start(refreshPeriod: number): Promise<void> {
    const { path } = this.current;
    const report = (reason: string | null) => {
      if (reason !== null) this.#logger.error({ reason, file: path }, 'failed to check rules file');
    };
    const watching = (refresh: () => void) => watchFolder(dirname(path), refresh, this.#logger);
    const use = (file: RulesFile, age: number) => this.#use(file, age);
    this.#files = await followFiles(() => this.#read(), use, report, refreshPeriod, watching);
  }

  stop(): void {
    this.#files?.stop();
  }

  /** Reads the file now. */
  async refresh(): Promise<void> {
    await this.#files?.refresh();
  }

  async #read(): Promise<RulesFile> {
    const { path, defaultPriority } = this.current;
    try {
      if ((await stat(path)).size > MAX_BYTES) throw new Error(`it is longer than ${MAX_BYTES} bytes`);
      const text = new TextDecoder('utf-8', { fatal: true }).decode(await readFile(path));
      return { path, defaultPriority, text };
    } catch (error) {
      return { path, defaultPriority, text: null, error: reasonOf(error) };
    }
  }

  /** Checks and uses a file; undefined if it is broken, empty or gone, but only just: perhaps it is being written. */
  async #use(file: RulesFile, age: number): Promise<RulesFile | undefined> {
    const problems = await this.#check(file);
    const isEmptied = file.text?.trim() === '' && (this.current.text ?? '').trim() !== '';
    if (age < SETTLE_MS && (isEmptied || problems.some(({ effect }) => effect !== 'warning'))) {
      const changed = await stat(file.path).catch(() => null);
      if (changed === null || Date.now() - changed.mtimeMs < SETTLE_MS) return undefined;
    }
    this.current = file;
    this.#log(file, problems);
    this.#onChange();
    return file;
  }

  #log(file: RulesFile, problems: readonly RulesFileProblem[]): void {
    const logger = this.#logger;
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
}

function reasonOf(error: unknown): string {
  if (error instanceof TypeError) return 'it is not UTF-8';
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'there is no such file';
  if (code === 'EACCES' || code === 'EPERM') return 'permission denied';
  return code ?? (error instanceof Error ? error.message : String(error));
}
