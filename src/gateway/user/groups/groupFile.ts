import { readFile, stat } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { Clock } from '../../../model/clock.ts';
import { GatewayError } from '../../../model/errors.ts';
import { type Asker, type GroupSource, groupName, MOST_GROUPS, type SourceAnswer, unbelieved } from './groupSource.ts';

/** Largest file that is read, bytes. */
const LARGEST_FILE = 16 * 1_048_576;
/** Longest time that reading it may take, milliseconds: a network file system may never answer. */
export const READ_TIMEOUT_MS = 10_000;

/** Groups by the names of their users. */
type GroupsByUser = ReadonlyMap<string, readonly string[]>;

const NONE: SourceAnswer = { groups: [] };

/** `userGroups.file`. */
export interface GroupFileSettings {
  readonly path: string;
  /** Milliseconds between two looks at the file. */
  readonly refreshPeriod: number;
  /** Milliseconds for which the last good groups count while the file cannot be used (`userGroups.keepLastKnown`). */
  readonly keepLastKnown: number;
  /** Milliseconds that one reading may take. */
  readonly readTimeout: number;
}

/** What following the file works with. */
export interface GroupFileDependencies {
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly logger: Logger;
}

/**
 * Groups by user of a file in the form of Trino's file group provider: `group:user,user` lines, blank ones and those that begin with
 * `#` aside; a group may have several lines.
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
 * The group file: a changed one is taken; one that cannot be used is reported once, and the groups of the last good one count for
 * their time, then none.
 */
export class GroupFile implements GroupSource {
  readonly name = 'file';
  readonly #settings: GroupFileSettings;
  readonly #dependencies: GroupFileDependencies;
  readonly #timer: NodeJS.Timeout;
  #groups: GroupsByUser;
  /** What was looked at last, usable or not. */
  #looked: string;
  /** Why the file cannot be used now; null where it can. */
  #problem: string | null = null;
  /** Monotonic time of the last look at which it could be used. */
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

  /** @throws GatewayError EG_IMPOSSIBLE naming the key and the fix, where the file cannot be used at the start */
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

  /** Whether the last good groups count still. */
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
    // One that takes too long goes on, in a thread of which there are few: no other one begins before it ends.
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

/** What a reading answers, or that it takes too long. */
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
