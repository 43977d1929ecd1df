import { randomUUID } from 'node:crypto';
import { chmod, open, readlink, realpath, rename, stat, unlink } from 'node:fs/promises';
import { basename, dirname, extname, join } from 'node:path';
import { GatewayError } from '../../../model/errors.ts';
import { withFileLock } from './fileLock.ts';
import { type FileStamp, fileStamp, readManifestFile } from './manifestFiles.ts';

/** Number of times that a write starts again as the file changed under it. */
const ATTEMPTS = 5;
const LOCK_TIMEOUT_MS = 5_000;

/**
 * Makes a file's new text from its present one (null: there is no file). Null as the response removes the file; the
 * present text leaves it as it is. May throw to give up.
 */
export type TextChange = (present: string | null) => string | null | Promise<string | null>;

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

export function manifestFormat(path: string): 'yaml' | 'json' {
  return extname(path) === '.json' ? 'json' : 'yaml';
}

function readOnly(error: unknown): boolean {
  return ['EROFS', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '');
}

function reason(error: unknown): string {
  return (error as NodeJS.ErrnoException).code === 'EROFS' ? 'the file system is read-only' : 'permission denied';
}
