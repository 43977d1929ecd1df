import { randomUUID } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import { chmod, open, readdir, readFile, readlink, realpath, rename, stat, unlink, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, extname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayError } from '../../../model/errors.ts';

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

/** Number of times that a write starts again as the file changed under it. */
const ATTEMPTS = 5;
const LOCK_TIMEOUT_MS = 5_000;

/**
 * Makes a file's new text from its present one (null: there is no file). Null as the response removes the file; the
 * present text leaves it as it is. May throw to give up.
 */
type TextChange = (present: string | null) => string | null | Promise<string | null>;

/**
 * Changes a manifest file: reads it, makes the new text, writes that beside it and renames it, under the directory's
 * lock. When the file is changed meanwhile, by an editor that knows no lock, it starts again.
 * @throws GatewayError EG_READ_ONLY naming the file
 */
export async function changeManifestFile(root: string, path: string, change: TextChange): Promise<void> {
  try {
    await withFileLock(join(root, '.engine-gateway.lock'), LOCK_TIMEOUT_MS, async () => {
      const target = await writablePath(path);
      for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
        if (await tryChange(target, change)) return;
      }
      throw new GatewayError('EG_CONFLICT', `${path} is being written by something else; try again`);
    });
  } catch (error) {
    throw readOnly(error) ? new GatewayError('EG_READ_ONLY', `${path} cannot be written: ${reason(error)}`) : error;
  }
}

async function tryChange(path: string, change: TextChange): Promise<boolean> {
  const read = await readManifestFile(path);
  if (read === null && (await fileStamp(path)) !== null) return false;
  if (read !== null && read.text === null) throw new GatewayError('EG_IMPOSSIBLE', `${path} ${read.error ?? ''}`);
  const before = read?.text ?? null;
  const after = await change(before);
  if (after === before) return true;
  const unchanged = async (): Promise<boolean> => (await fileStamp(path))?.signature === read?.stamp.signature;
  if (after === null) {
    if (!(await unchanged())) return false;
    await unlink(path);
  } else {
    const temporary = join(dirname(path), `.${basename(path)}.${randomUUID()}.tmp`);
    try {
      await writeDurably(temporary, after);
      if (read !== null) await chmod(temporary, (await stat(path)).mode & 0o7777);
      if (!(await unchanged())) return false;
      await rename(temporary, path);
    } finally {
      await unlink(temporary).catch(() => undefined);
    }
  }
  await syncDirectory(dirname(path));
  return true;
}

/**
 * The file that a path means; a file of a mounted ConfigMap is rejected, as the next swap of its link would undo the
 * change.
 */
async function writablePath(path: string): Promise<string> {
  const link = await readlink(path).catch(() => null);
  if (link === null) return path;
  if (link.split('/').includes('..data')) {
    throw new GatewayError('EG_READ_ONLY', `${path} cannot be written: it belongs to a mounted ConfigMap or Secret`);
  }
  return await realpath(path);
}

async function writeDurably(path: string, text: string): Promise<void> {
  const handle = await open(path, 'wx');
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r').catch(() => null);
  if (handle === null) return;
  try {
    // Some network file systems cannot; the rename is as durable as they make it.
    await handle.sync().catch(() => undefined);
  } finally {
    await handle.close();
  }
}

/**
 * A path for a new resource's file that is not in use.
 * @param notice called with each path that is in use, and the file's stamp: another replica may just have written it
 */
export async function newManifestPath(
  root: string,
  { kind, name }: { readonly kind: string; readonly name: string },
  notice: (path: string, stamp: FileStamp) => Promise<void>,
): Promise<string> {
  const stem = `${kind.toLowerCase()}-${name}`;
  for (let attempt = 1; ; attempt += 1) {
    const path = join(root, attempt === 1 ? `${stem}.yaml` : `${stem}-${attempt}.yaml`);
    const stamp = await fileStamp(path);
    if (stamp === null) return path;
    await notice(path, stamp);
  }
}

function readOnly(error: unknown): boolean {
  return ['EROFS', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '');
}

function reason(error: unknown): string {
  return (error as NodeJS.ErrnoException).code === 'EROFS' ? 'the file system is read-only' : 'permission denied';
}

/** After this time without a sign of life the holder of a lock is taken for dead. Milliseconds. */
const STALE_MS = 10_000;
const LOCK_RETRY_MS = 20;

/**
 * Runs work while holding a lock file, so that replicas on one file system (also a shared one) write one after another.
 * The file is made exclusively, its time renewed while it is held, and one that was not renewed for 10 s is removed.
 * @param path path of the lock file
 * @param timeoutMs how long to wait for the lock
 * @throws Error when the time is over, or that of the file system when no file can be made there
 */
async function withFileLock<T>(path: string, timeoutMs: number, work: () => Promise<T>): Promise<T> {
  const token = `${hostname()} ${process.pid} ${randomUUID()}\n`;
  const deadline = performance.now() + timeoutMs;
  while (!(await take(path, token))) {
    await removeStale(path);
    if (performance.now() > deadline) throw new Error(`${path} is held by another process`);
    await sleep(LOCK_RETRY_MS);
  }
  const renewal = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => undefined);
  }, STALE_MS / 4);
  try {
    return await work();
  } finally {
    clearInterval(renewal);
    if ((await readFile(path, 'utf8').catch(() => null)) === token) await unlink(path).catch(() => undefined);
  }
}

async function take(path: string, token: string): Promise<boolean> {
  try {
    const handle = await open(path, 'wx');
    try {
      await handle.writeFile(token);
    } finally {
      await handle.close();
    }
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

async function removeStale(path: string): Promise<void> {
  const stats = await stat(path).catch(() => null);
  if (stats !== null && Date.now() - stats.mtimeMs > STALE_MS) await unlink(path).catch(() => undefined);
}
