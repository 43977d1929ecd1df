import type { BigIntStats } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';

export interface FileStamp {
  /** Inode, size and times: changes with every writing and with every exchange of the file. */
  readonly signature: string;
  /** Time of the last change of the file's inode in microseconds since 1970: later than every earlier content's. */
  readonly changedAtMicros: bigint;
  readonly createdAtMs: number;
}

export interface FileText {
  readonly stamp: FileStamp;
  /** Null when the file is not UTF-8 text or too large; `error` states so. */
  readonly text: string | null;
  readonly error: string | null;
}

/** Largest manifest file that is read, in bytes. */
const MAX_FILE_SIZE = 16 * 1024 * 1024;

const MAX_FOLDERS = 1_000;
const extensions = new Set(['.yaml', '.yml', '.json']);

/**
 * Lists the manifest files of a directory and of those below it. Names that begin with a dot are left out: editors' and
 * our own temporary files, and the `..data` folders of mounted ConfigMaps, whose links in addition to them are
 * followed.
 * @throws the error of the file system when the directory itself cannot be read
 */
export async function listManifestFiles(root: string): Promise<ReadonlyMap<string, FileStamp>> {
  const files = new Map<string, FileStamp>();
  const pending = [root];
  let count = 0;
  for (let directory = pending.shift(); directory !== undefined; directory = pending.shift()) {
    const names = await (directory === root ? readdir(root) : readdir(directory).catch(nullIfGone));
    if (names === null) continue;
    count += 1;
    for (const name of names.sort()) {
      if (name.startsWith('.')) continue;
      const path = join(directory, name);
      // A file that goes between listing and looking; a link to nowhere.
      const stats = await stat(path, { bigint: true }).catch(nullIfGone);
      if (stats === null) continue;
      if (stats.isDirectory()) {
        if (count + pending.length < MAX_FOLDERS) pending.push(path);
      } else if (stats.isFile() && extensions.has(extname(name))) files.set(path, stampOf(stats));
    }
  }
  return files;
}

/** Stamp of a file as it is now; null when it is not there. */
export async function fileStamp(path: string): Promise<FileStamp | null> {
  const stats = await stat(path, { bigint: true }).catch(nullIfGone);
  return stats === null ? null : stampOf(stats);
}

/**
 * Reads a file; null when it is not there, or when it changed while it was being read.
 */
export async function readManifestFile(path: string): Promise<FileText | null> {
  const handle = await open(path, 'r').catch(nullIfGone);
  if (handle === null) return null;
  try {
    const before = await handle.stat({ bigint: true });
    const stamp = stampOf(before);
    if (before.size > MAX_FILE_SIZE) {
      return { stamp, text: null, error: `has more than ${MAX_FILE_SIZE} bytes; split it into several files` };
    }
    const bytes = await handle.readFile();
    if (stampOf(await handle.stat({ bigint: true })).signature !== stamp.signature) return null;
    try {
      // The byte order mark stays, so that writing releases what was read.
      return { stamp, text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes), error: null };
    } catch {
      return { stamp, text: null, error: 'is not UTF-8 text' };
    }
  } finally {
    await handle.close();
  }
}

function stampOf({ dev, ino, size, mtimeNs, ctimeNs, birthtimeMs }: BigIntStats): FileStamp {
  return {
    signature: `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`,
    changedAtMicros: ctimeNs / 1_000n,
    createdAtMs: Number(birthtimeMs),
  };
}

/** Null for the error of a file or folder that is not there. */
function nullIfGone(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
  throw error;
}
