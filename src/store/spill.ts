import { randomBytes } from 'node:crypto';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
} from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';

const FILE_BYTES = 4 * 1024 * 1024;

interface SpillFile {
  readonly path: string;
  records: number;
  bytes: number;
}

/**
 * Records on disk, as JSON lines in a directory of this process. A lock that the operating system releases with the
 * process keeps others away from a live directory; the files of dead ones are taken over.
 */
export class Spill<R> {
  private readonly root: string;
  private readonly maxBytes: number;
  private readonly isRecord: (value: unknown) => value is R;
  private directory: string | null = null;
  private lock: DatabaseSync | null = null;
  files: SpillFile[] = [];
  private sequence = 0;

  /**
   * @param root directory shared by processes
   * @param maxBytes bound of this process's files
   * @param isRecord whether an object that was read is whole
   */
  constructor(root: string, maxBytes: number, isRecord: (value: unknown) => value is R) {
    this.root = root;
    this.maxBytes = maxBytes;
    this.isRecord = isRecord;
  }

  get records(): number {
    return this.files.reduce((sum, file) => sum + file.records, 0);
  }

  private get bytes(): number {
    return this.files.reduce((sum, file) => sum + file.bytes, 0);
  }

  /** Takes over the files of processes that are dead; returns how many records they hold. */
  adopt(): number {
    let entries: string[];
    try {
      entries = readdirSync(this.root);
    } catch {
      return 0;
    }
    let adopted = 0;
    for (const entry of entries) {
      const directory = path.join(this.root, entry);
      if (!entry.startsWith('spill-') || directory === this.directory) continue;
      const lock = holdLock(directory);
      if (lock === null) continue;
      try {
        for (const name of readdirSync(directory).sort()) {
          if (!name.endsWith('.jsonl')) continue;
          const from = path.join(directory, name);
          const bytes = statSync(from).size;
          const to = this.nextPath();
          renameSync(from, to);
          // Counted when it is read; a file of a dead process may be large.
          const file = { path: to, records: Math.max(1, Math.round(bytes / 500)), bytes };
          this.files.push(file);
          adopted += file.records;
        }
      } finally {
        lock.close();
      }
      rmSync(directory, { recursive: true, force: true });
    }
    return adopted;
  }

  /** Appends records; returns how many did not fit. @throws when the disk rejects */
  append(records: readonly R[]): number {
    const { text, count } = this.fitting(records);
    if (count > 0) {
      const file = this.current();
      try {
        appendFileSync(file.path, text);
      } catch (error) {
        // A full disk takes a part of the text: those records would be stored although they count as rejected, and half a
        // line would spoil the next one.
        if (existsSync(file.path)) truncateSync(file.path, file.bytes);
        throw error;
      }
      file.records += count;
      file.bytes += Buffer.byteLength(text);
    }
    return records.length - count;
  }

  /**
   * Hands the oldest file's records to `write` and deletes the file afterwards; when `write` rejects the file stays.
   * @returns lines that a killed process left unfinished
   */
  async replayOne(write: (records: readonly R[]) => Promise<void>): Promise<number> {
    const file = this.files[0];
    if (file === undefined) return 0;
    // Nothing is appended to it any more.
    const closed = { ...file };
    if (this.files.length === 1) this.files.push({ path: this.nextPath(), records: 0, bytes: 0 });
    const lines = (await readFile(closed.path, 'utf8').catch(missing)).split('\n');
    const records: R[] = [];
    let torn = 0;
    for (const line of lines) {
      if (line === '') continue;
      const record = this.parse(line);
      if (record === null) torn++;
      else records.push(record);
    }
    file.records = records.length;
    await write(records);
    await rm(closed.path, { force: true });
    this.files.shift();
    if (this.files.length === 1 && this.files[0]?.bytes === 0) this.files = [];
    return torn;
  }

  /** Releases the remaining files to other processes. */
  close(): void {
    this.lock?.close();
    this.lock = null;
    if (this.directory !== null && this.records === 0) rmSync(this.directory, { recursive: true, force: true });
    this.directory = null;
  }

  private fitting(records: readonly R[]): { text: string; count: number } {
    const free = this.maxBytes - this.bytes;
    const lines: string[] = [];
    let used = 0;
    for (const record of records) {
      const line = `${JSON.stringify(record)}\n`;
      used += Buffer.byteLength(line);
      if (used > free) break;
      lines.push(line);
    }
    return { text: lines.join(''), count: lines.length };
  }

  private parse(line: string): R | null {
    try {
      const value: unknown = JSON.parse(line);
      return typeof value === 'object' && value !== null && this.isRecord(value) ? value : null;
    } catch {
      return null;
    }
  }

  private current(): SpillFile {
    const last = this.files.at(-1);
    if (last !== undefined && last.bytes < FILE_BYTES) return last;
    const file = { path: this.nextPath(), records: 0, bytes: 0 };
    this.files.push(file);
    return file;
  }

  private nextPath(): string {
    if (this.directory === null) {
      const name = `${process.pid}-${randomBytes(6).toString('hex')}`;
      const hidden = path.join(this.root, `new-${name}`);
      mkdirSync(hidden, { recursive: true, mode: 0o700 });
      this.lock = holdLock(hidden);
      if (this.lock === null) {
        rmSync(hidden, { recursive: true, force: true });
        throw new Error(`${hidden} cannot be locked`);
      }
      // Others look at `spill-` only, so none can take the directory before its lock is held.
      this.directory = path.join(this.root, `spill-${name}`);
      renameSync(hidden, this.directory);
    }
    return path.join(this.directory, `${String(++this.sequence).padStart(8, '0')}.jsonl`);
  }
}

function missing(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT') return '';
  throw error;
}

/** Holds the directory's lock until closed, or the process ends; null when a live process holds it. */
function holdLock(directory: string): DatabaseSync | null {
  let database: DatabaseSync | null = null;
  try {
    database = new DatabaseSync(path.join(directory, 'owner.lock'), { timeout: 0 });
    // A row, so that the exclusive lock is the operating system's and not only an intention.
    database.exec('pragma journal_mode = delete; pragma locking_mode = exclusive; begin exclusive');
    return database;
  } catch {
    database?.close();
    return null;
  }
}
