import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { RunningQueries } from '../ownership/runningQueries.ts';
import { decodeStart } from './answerId.ts';

/** The next URI stands before columns and data; quotes within strings are escaped, so that data never looks like it. */
const NEXT = '"nextUri":"';
/** Bytes of an answer within which its next URI would stand. */
const HEAD_BYTES = 4096;

/** Whether the head of an answer says that its client will ask again. */
export function namesNext(head: string): boolean {
  return head.includes(NEXT);
}

/** Looks at the answer of a follow-up as it passes, to learn whether the query goes on. */
export class AnswerWatch {
  readonly #running: Pick<RunningQueries, 'noteActivity' | 'noteEnd'>;
  readonly #queryId: string;
  readonly #cluster: string;
  readonly #method: string;
  #status = 0;
  #encoding = '';
  #head: Buffer[] = [];
  #size = 0;
  #decided = false;

  constructor(
    running: Pick<RunningQueries, 'noteActivity' | 'noteEnd'>,
    queryId: string,
    cluster: string,
    method: string,
  ) {
    this.#running = running;
    this.#queryId = queryId;
    this.#cluster = cluster;
    this.#method = method;
  }

  begin(status: number, headers: IncomingHttpHeaders): void {
    this.#status = status;
    this.#encoding = typeof headers['content-encoding'] === 'string' ? headers['content-encoding'] : '';
    this.#head = [];
    this.#size = 0;
    this.#decided = false;
    if (status !== 200 || this.#method !== 'GET') this.#decideByStatus();
  }

  data(chunk: Buffer): void {
    if (this.#decided) return;
    // Nearly always it stands in the first piece: nothing has to be kept then.
    if (this.#size === 0 && this.#encoding === '' && standsIn(chunk)) {
      this.#decided = true;
      this.#running.noteActivity(this.#queryId, this.#cluster);
      return;
    }
    this.#head.push(chunk);
    this.#size += chunk.length;
    if (this.#size >= HEAD_BYTES) this.#decide();
  }

  end(): void {
    if (!this.#decided) this.#decide();
  }

  #decideByStatus(): void {
    this.#decided = true;
    const cancelled = this.#method === 'DELETE' && this.#status < 300;
    if (cancelled || this.#status === 404 || this.#status === 410) this.#running.noteEnd(this.#queryId, this.#cluster);
  }

  #decide(): void {
    this.#decided = true;
    const bytes = this.#head.length === 1 ? (this.#head[0] as Buffer) : Buffer.concat(this.#head);
    this.#head = [];
    if (this.#goesOn(bytes)) this.#running.noteActivity(this.#queryId, this.#cluster);
    else this.#running.noteEnd(this.#queryId, this.#cluster);
  }

  #goesOn(bytes: Buffer): boolean {
    if (this.#encoding === '' || this.#encoding === 'identity') {
      return standsIn(bytes);
    }
    // A compressed answer of this size has rows, and the last one has none.
    if (bytes.length >= HEAD_BYTES) return true;
    const decoded = decodeStart(bytes, this.#encoding);
    return decoded === null || standsIn(decoded);
  }
}

function standsIn(head: Buffer): boolean {
  return head.subarray(0, HEAD_BYTES).includes(NEXT, 0, 'latin1');
}
