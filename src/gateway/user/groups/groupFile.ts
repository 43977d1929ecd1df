import { readFile, stat } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { Clock } from '../../../model/clock.ts';
import { GatewayError } from '../../../model/errors.ts';
import { type Asker, type GroupSource, groupName, MOST_GROUPS, type SourceAnswer, unbelieved } from './groupSource.ts';

/** Maximum size of the file, bytes. */
const LARGEST_FILE = 16 * 1_048_576;
/** Timeout of reading it, milliseconds: a network file system may hang. */
export const READ_TIMEOUT_MS = 10_000;

type GroupsByUser = ReadonlyMap<string, readonly string[]>;

const NONE: SourceAnswer = { groups: [] };

/** Settings `userGroups.file`. */
export interface GroupFileSettings {
  readonly path: string;
  /** Milliseconds between two reads of the file. */
  readonly refreshPeriod: number;
  /** Milliseconds for which the last good groups count while the file is unusable (`userGroups.keepLastKnown`). */
  readonly keepLastKnown: number;
  /** Timeout of one read in milliseconds. */
  readonly readTimeout: number;
}

export interface GroupFileDependencies {
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly logger: Logger;
}

/**
 * Parses a file in the form of Trino's file group provider: `group:user,user` lines; blank lines and lines that begin
 * with `#` are ignored; a group may have several lines.
 * @throws Error naming the line
 */
export function parseGroupFile(text: string): GroupsByUser {
  const groups = new Map<string, string[]>();
  text.split(/\r\n|\n|\r/).forEach((content, index) => {
    const line = content.trim();
    if (line === '' || line.startsWith('#')) return;
    const colon = line.indexOf(':');
    const group = groupName(line.slice(0, Math.max(colon, 0)));
    if (group === null) throw new Error(`line ${index + 1} must be group:user1,user2`);
    for (const part of line.slice(colon + 1).split(',')) {
      const user = part.trim();
      if (user === '') continue;
      const present = groups.get(user);
      if (present === undefined) groups.set(user, [group]);
      else if (present.length < MOST_GROUPS && !present.includes(group)) present.push(group);
    }
  });
  return groups;
}

/**
 * Reads a group file.
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix
 */
export async function readGroupFile(path: string): Promise<GroupsByUser> {
  return parsed(path, await textOf(path, READ_TIMEOUT_MS));
}

/** @throws GatewayError EG_IMPOSSIBLE naming the key and the fix */
async function textOf(path: string, readTimeout: number): Promise<string> {
  const read = await inTime(contentOf(path), readTimeout);
  if ('why' in read) throw unusable(path, read.why);
  return read.text;
}

/**
 * The group file: a change is applied; an unusable file is reported once, and the last good groups count for their
 * time, then none.
 */
export class GroupFile implements GroupSource {
  readonly name = 'file';
  readonly #settings: GroupFileSettings;
  readonly #dependencies: GroupFileDependencies;
  readonly #timer: NodeJS.Timeout;
  #groups: GroupsByUser;
  /** The latest text, valid or not. */
  #looked: string;
  /** Reason that the file is unusable now, or null. */
  #problem: string | null = null;
  /** Monotonic time of the last successful read. */
  #usableAt: number;
  #isLooking = false;

  private constructor(settings: GroupFileSettings, text: string, dependencies: GroupFileDependencies) {
    const { path, refreshPeriod } = settings;
    this.#settings = settings;
    this.#dependencies = dependencies;
    this.#groups = parsed(path, text);
    this.#looked = text;
    this.#usableAt = dependencies.clock.monotonic();
    this.#timer = setInterval(() => void this.#look(), refreshPeriod).unref();
  }

  /** @throws GatewayError EG_IMPOSSIBLE naming the key and the fix, if the file cannot be used at the start */
  static async open(settings: GroupFileSettings, dependencies: GroupFileDependencies): Promise<GroupFile> {
    return new GroupFile(settings, await textOf(settings.path, settings.readTimeout), dependencies);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  groupsOf(asker: Asker): SourceAnswer {
    const answer = unbelieved(asker);
    if (answer !== null) return answer;
    if (this.#problem !== null && !this.#isKnown()) return { groups: [], note: this.#problem };
    const groups = this.#groups.get(asker.user ?? '');
    if (this.#problem !== null) return { groups: groups ?? [], note: `last known: ${this.#problem}` };
    return groups === undefined ? NONE : { groups };
  }

  describedGroupsOf(asker: Asker): SourceAnswer {
    return this.groupsOf(asker);
  }

  /** True if the last good groups still count. */
  #isKnown(): boolean {
    return this.#dependencies.clock.monotonic() < this.#usableAt + this.#settings.keepLastKnown;
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const { path: file, readTimeout } = this.#settings;
    const { clock, logger } = this.#dependencies;
    const reading = contentOf(file);
    // A slow read continues in one of few threads: no other one begins before it ends.
    void reading.then(() => {
      this.#isLooking = false;
    });
    try {
      const read = await inTime(reading, readTimeout);
      const looked = 'why' in read ? `\0${read.why}` : read.text;
      if (looked === this.#looked) {
        if (this.#problem === null) this.#usableAt = clock.monotonic();
        return;
      }
      this.#looked = looked;
      if ('why' in read) throw unusable(file, read.why);
      this.#groups = parsed(file, read.text);
      this.#problem = null;
      this.#usableAt = clock.monotonic();
      logger.info({ file, users: this.#groups.size }, 'changed group file taken');
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#problem = reason;
      logger.error({ file, reason }, 'group file refused; the last good groups count for userGroups.keepLastKnown');
    }
  }
}

type Content = { readonly text: string } | { readonly why: string };

/** The result of a read, or a timeout error. */
async function inTime(reading: Promise<Content>, timeout: number): Promise<Content> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Content>((resolve) => {
    timer = setTimeout(() => resolve({ why: `was not read within ${timeout / 1_000} seconds` }), timeout);
  });
  return await Promise.race([reading, late]).finally(() => clearTimeout(timer));
}

/** Never rejects. */
async function contentOf(path: string): Promise<Content> {
  try {
    const { size } = await stat(path);
    if (size > LARGEST_FILE) return { why: `is longer than ${LARGEST_FILE / 1_048_576} MB` };
    return { text: await readFile(path, 'utf8') };
  } catch (error) {
    return { why: `cannot be read (${(error as NodeJS.ErrnoException).code})` };
  }
}

function parsed(path: string, text: string): GroupsByUser {
  try {
    return parseGroupFile(text);
  } catch (error) {
    throw unusable(path, error instanceof Error ? error.message : String(error));
  }
}

function unusable(path: string, why: string): GatewayError {
  const field = 'userGroups.file.path';
  return new GatewayError('EG_IMPOSSIBLE', `${field}: ${path}: ${why}.`, { field });
}
