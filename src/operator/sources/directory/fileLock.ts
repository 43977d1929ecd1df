import { randomUUID } from 'node:crypto';
import { open, readFile, stat, unlink, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

/** After this time without a sign of life the holder of a lock is taken for dead. Milliseconds. */
const STALE_MS = 10_000;
const RETRY_MS = 20;

class LockTimeout extends Error {
  override readonly name = 'LockTimeout';
}

/**
 * Runs work while holding a lock file, so that replicas on one file system (also a shared one) write one after another.
 * The file is made exclusively, its time renewed while it is held, and one that was not renewed for 10 s is removed.
 * @param path path of the lock file
 * @param timeoutMs how long to wait for the lock
 * @throws LockTimeout, or the error of the file system when no file can be made there
 */
export async function withFileLock<T>(path: string, timeoutMs: number, work: () => Promise<T>): Promise<T> {
  const token = `${hostname()} ${process.pid} ${randomUUID()}\n`;
  const deadline = performance.now() + timeoutMs;
  while (!(await take(path, token))) {
    await removeStale(path);
    if (performance.now() > deadline) throw new LockTimeout(`${path} is held by another process`);
    await sleep(RETRY_MS);
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
