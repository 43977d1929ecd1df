import type { IncomingHttpHeaders } from 'undici/types/header.js';
import { FinalPageReader } from '../outcomes/finalPage.ts';
import type { QueryOutcomes } from '../outcomes/queryOutcomes.ts';
import type { RunningQueries } from '../ownership/runningQueries.ts';
import { decodeStart } from './responseId.ts';

/** The next URI stands before columns and data; quotes within strings are escaped, so that data never looks like it. */
const NEXT = '"nextUri":"';
/** The same as engines write it for requests with `?pretty`. */
const PRETTY_NEXT = /"nextUri"\s{0,8}:\s{0,8}"/;
/** Bytes of a response within which its next URI would stand. */
const HEAD_BYTES = 4096;
/** Bytes of a compressed response that is looked into: the last one has no rows, and a stack trace compresses well. */
const MAX_COMPRESSED_BYTES = 16_384;
/** Of a compressed response longer than its head, so much is decoded to see whether it is the last one. */
const PEEKED_BYTES = 1024;

/** Bytes of a response that are looked into for rows: they follow on the columns. */
const MAX_SOUGHT_BYTES = 32_768;
/** Rows, or segments of spooled ones. Within strings quotes are escaped, so that a name never looks like it. */
const ROWS = /^"data"\s{0,8}:\s{0,8}(?:\[\s{0,8}\[|\{)/;
/** Bytes that it takes at most. */
const ROWS_BYTES = 32;
/** Columns named `data` that are passed over. */
const MAX_TRIES = 16;

/** True if the head of a response states that its client will ask again. */
export function namesNext(head: string): boolean {
  return head.includes(NEXT) || PRETTY_NEXT.test(head);
}

/** Receives the progress and end of queries from responses. */
export interface ResponseNotes {
  readonly runningQueries: Pick<RunningQueries, 'noteActivity' | 'noteEnd'>;
  readonly outcomes: Pick<QueryOutcomes, 'page' | 'end' | 'cancel' | 'awaitsRows'>;
}

/** Looks at a response about a query as it passes, to learn whether the query continues, and how it ended. */
export class ResponseWatch {
  readonly #notes: ResponseNotes;
  readonly #queryId: string;
  readonly #cluster: string;
  readonly #method: string;
  readonly #onNext: (() => void) | null;
  #encoding = '';
  /** Kept until it is decided: copies, as buffers are lent for reads. */
  #head: Buffer[] = [];
  /** Bytes of the response so far. */
  #size = 0;
  #state: 'undecided' | 'goesOn' | 'last' | 'silent' = 'undecided';
  /** True if rows are looked for: no one saw some of the query before. */
  #seeksRows = false;
  #hasRows = false;
  /** Reads the last page; null for all others. */
  #reader: FinalPageReader | null = null;

  /** @param onNext called once if the client will ask again, before it gets the bytes that state so; null for nothing */
  constructor(
    notes: ResponseNotes,
    queryId: string,
    cluster: string,
    method: string,
    onNext: (() => void) | null = null,
  ) {
    this.#notes = notes;
    this.#onNext = onNext;
    this.#queryId = queryId;
    this.#cluster = cluster;
    this.#method = method;
  }

  /** The start of the response has been read: its client will ask again. */
  noteNext(): void {
    this.#state = 'goesOn';
    this.#notes.runningQueries.noteActivity(this.#queryId, this.#cluster, this.#method === 'POST');
    this.#onNext?.();
  }

  /** Nothing more of it comes: a query whose head is not whole may continue. */
  breakOff(): void {
    if (this.#state === 'undecided') this.noteNext();
  }

  begin(status: number, headers: IncomingHttpHeaders): void {
    const encoding = headers['content-encoding'];
    this.#encoding = typeof encoding === 'string' && encoding !== 'identity' ? encoding : '';
    this.#head = [];
    this.#size = 0;
    this.#reader = null;
    this.#state = 'undecided';
    this.#hasRows = false;
    this.#seeksRows = status === 200 && this.#notes.outcomes.awaitsRows(this.#queryId);
    if (status !== 200 || (this.#method !== 'GET' && this.#method !== 'POST')) this.#decideByStatus(status);
  }

  data(chunk: Buffer): void {
    if (this.#seeksRows && this.#encoding === '') this.#seekRows(chunk);
    this.#size += chunk.length;
    if (this.#state === 'undecided') this.#look(chunk);
    else this.#reader?.push(chunk);
  }

  end(): void {
    if (this.#state === 'undecided') this.#decide();
    const { outcomes } = this.#notes;
    if (this.#state === 'goesOn') outcomes.page(this.#queryId, this.#cluster, this.#size, this.#hasRows);
    else if (this.#state === 'last') {
      outcomes.end(this.#queryId, this.#cluster, this.#size, this.#reader?.end() ?? null, this.#hasRows);
    }
  }

  #look(chunk: Buffer): void {
    // Nearly always it stands in the first piece: nothing has to be kept then.
    if (this.#size === chunk.length && this.#encoding === '' && standsIn(chunk)) {
      this.noteNext();
      return;
    }
    this.#head.push(Buffer.from(chunk));
    if (this.#encoding === '') {
      if (this.#size >= HEAD_BYTES) this.#decide();
    } else if (this.#size > MAX_COMPRESSED_BYTES) {
      // A compressed response of this size has rows. The last one has none, unless it is the first one as well.
      const start = this.#method === 'POST' ? decodeStart(Buffer.concat(this.#head), this.#encoding) : null;
      this.#head = [];
      this.#hasRows = true;
      if (start === null || standsIn(start)) this.noteNext();
      else this.#noteLast();
    }
  }

  #seekRows(chunk: Buffer): void {
    if (this.#size >= MAX_SOUGHT_BYTES) this.#seeksRows = false;
    else if (rowsBeginIn(chunk.subarray(0, MAX_SOUGHT_BYTES))) {
      this.#hasRows = true;
      this.#seeksRows = false;
    }
  }

  #decideByStatus(status: number): void {
    this.#state = 'silent';
    const { runningQueries, outcomes } = this.#notes;
    const isCancelled = this.#method === 'DELETE' && status < 300;
    if (isCancelled || status === 404 || status === 410) runningQueries.noteEnd(this.#queryId, this.#cluster);
    if (isCancelled) outcomes.cancel(this.#queryId, this.#cluster);
  }

  #decide(): void {
    const bytes = this.#head.length === 1 ? (this.#head[0] as Buffer) : Buffer.concat(this.#head);
    this.#head = [];
    const page = this.#encoding === '' ? bytes : decodedPage(bytes, this.#encoding);
    if (this.#seeksRows && this.#encoding !== '' && page !== null) this.#hasRows = rowsBeginIn(page);
    if (page === null || standsIn(page)) {
      this.noteNext();
      return;
    }
    this.#noteLast();
    this.#reader = new FinalPageReader();
    this.#reader.push(page);
  }

  #noteLast(): void {
    this.#state = 'last';
    this.#notes.runningQueries.noteEnd(this.#queryId, this.#cluster);
  }
}

/**
 * A whole compressed response decoded; only its start where its client asks again; null if it cannot be decoded within
 * bounds.
 */
function decodedPage(bytes: Buffer, encoding: string): Buffer | null {
  if (bytes.length > HEAD_BYTES) {
    const start = decodeStart(bytes.subarray(0, PEEKED_BYTES), encoding);
    if (start === null || standsIn(start)) return start;
  }
  return decodeStart(bytes, encoding);
}

function rowsBeginIn(page: Buffer): boolean {
  let at = page.indexOf('"data"', 0, 'latin1');
  for (let tries = 0; at >= 0 && tries < MAX_TRIES; tries++) {
    if (ROWS.test(page.toString('latin1', at, at + ROWS_BYTES))) return true;
    at = page.indexOf('"data"', at + 1, 'latin1');
  }
  return false;
}

function standsIn(page: Buffer): boolean {
  const head = page.subarray(0, HEAD_BYTES);
  if (head.includes(NEXT, 0, 'latin1')) return true;
  return head.includes('"nextUri"', 0, 'latin1') && PRETTY_NEXT.test(head.toString('latin1'));
}
