import { readFile, stat } from 'node:fs/promises';
import type { Logger } from 'pino';
import { followFiles } from '../../../config/followedFiles.ts';
import type { Clock } from '../../../model/clock.ts';
import { GatewayError } from '../../../model/errors.ts';
import { within } from '../../../model/timeLimit.ts';
import { type GroupSource, groupName, MAX_GROUPS, type SourceResponse, unbelieved } from './groupSources.ts';

/** Maximum size of the file, bytes. */
const MAX_FILE_SIZE = 16 * 1_048_576;
/** Timeout of reading it, milliseconds: a network file system may hang. */
export const READ_TIMEOUT_MS = 10_000;

type GroupsByUser = ReadonlyMap<string, readonly string[]>;

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
      else if (present.length < MAX_GROUPS && !present.includes(group)) present.push(group);
    }
  });
  return groups;
}

/**
 * Reads a group file.
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix
 */
export async function readGroupFile(path: string): Promise<GroupsByUser> {
  return parsed(path, await inTime(path, textOf(path), READ_TIMEOUT_MS));
}

/**
 * Opens the group file: a change is applied; an unusable file is reported once, and the last good groups count for
 * their time, then none.
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix, if the file cannot be used at the start
 */
export async function openGroupFile(
  { path, refreshPeriod, keepLastKnown, readTimeout }: GroupFileSettings,
  clock: Pick<Clock, 'monotonic'>,
  logger: Logger,
): Promise<GroupSource & { groupsOf(asker: Parameters<GroupSource['groupsOf']>[0]): SourceResponse; stop(): void }> {
  let problem: string | null = null;
  let problemSince = 0;
  const report = (reason: string | null, groups: GroupsByUser): void => {
    if (problem === null) problemSince = clock.monotonic();
    problem = reason;
    if (reason === null) logger.info({ file: path, users: groups.size }, 'group file reloaded');
    else {
      const message = 'group file refused; the last good groups count for userGroups.keepLastKnown';
      logger.error({ file: path, reason }, message);
    }
  };
  // A reading that takes too long continues, in a thread of which there are few: the next look waits for the same one.
  let reading: Promise<string> | null = null;
  const read = (): Promise<string> => {
    reading ??= textOf(path).finally(() => {
      reading = null;
    });
    return inTime(path, reading, readTimeout);
  };
  const file = await followFiles(read, (text) => parsed(path, text), report, refreshPeriod);
  return {
    name: 'file',
    groupsOf(asker) {
      const response = unbelieved(asker);
      if (response !== null) return response;
      if (problem !== null && clock.monotonic() >= problemSince + keepLastKnown) return { groups: [], note: problem };
      const groups = file.current.get(asker.user ?? '') ?? [];
      return problem === null ? { groups } : { groups, note: `last known: ${problem}` };
    },
    stop: () => file.stop(),
  };
}

/** @throws GatewayError if the reading takes too long */
async function inTime(path: string, reading: Promise<string>, timeout: number): Promise<string> {
  const text = await within(reading, timeout, null);
  if (text !== null) return text;
  throw unusable(path, `was not read within ${timeout / 1_000} seconds`);
}

/** @throws GatewayError EG_IMPOSSIBLE naming the key and the fix */
async function textOf(path: string): Promise<string> {
  try {
    const { size } = await stat(path);
    if (size <= MAX_FILE_SIZE) return await readFile(path, 'utf8');
  } catch (error) {
    throw unusable(path, `cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  throw unusable(path, `is longer than ${MAX_FILE_SIZE / 1_048_576} MB`);
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
