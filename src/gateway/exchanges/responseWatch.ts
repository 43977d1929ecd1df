import { brotliDecompressSync, gunzipSync, inflateSync, constants as zlib, zstdDecompressSync } from 'node:zlib';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { Clock } from '../../model/clock.ts';
import { PLAUSIBLE_ID } from '../../routing/statementProtocol.ts';
import type { ClientView } from '../headers/requestHeaders.ts';
import { FinalPageReader } from '../outcomes/finalPage.ts';
import type { QueryOutcomes } from '../outcomes/queryOutcomes.ts';
import type { RunningQueries } from '../ownership/runningQueries.ts';
import type { BufferedResponse } from './exchange.ts';

/** A response to a submission holds its id within this many bytes. */
const MAX_BUFFERED_BYTES = 65_536;

/** Query id found in the first bytes of a response. */
export type IdSearch = { readonly id: string } | 'absent' | 'incomplete';

/** The start of a JSON object with the id as its first member, as engines write it. */
const FIRST_ID = /^\s*\{\s*"id"\s*:\s*"([^"\\]*)"/;

/**
 * Finds the string `id` of a JSON object from its first bytes (docs/protocol.md#learning): where it is not the first
 * member, from the whole object.
 * @param text bytes of the response as latin1; ids are ASCII
 */
export function findId(text: string): IdSearch {
  const first = FIRST_ID.exec(text)?.[1];
  // A copy: a part of a text keeps the whole of it in memory, and ids are remembered for long.
  if (first !== undefined) return { id: ` ${first}`.slice(1) };
  const begin = text.trim();
  if (begin !== '' && !begin.startsWith('{')) return 'absent';
  if (!begin.endsWith('}')) return 'incomplete';
  try {
    const { id } = JSON.parse(begin) as { readonly id?: unknown };
    return typeof id === 'string' ? { id } : 'absent';
  } catch {
    return 'incomplete';
  }
}

/** Bytes of an encoded response that are decoded at most: its next URI and its error stand there. */
const MAX_DECODED_BYTES = MAX_BUFFERED_BYTES;
/** Less is not the start of a response that is longer than the limit: the next URI may stand behind it. */
const MIN_DECODED_BYTES = 4096;
/** Precision with which the input is found that decodes to the limit. */
const ENCODED_STEP_BYTES = 4;
/** Members of a gzip stream; servers send one. */
const MAX_GZIP_MEMBERS = 16;
const GZIP_MEMBER = Buffer.from([0x1f, 0x8b, 0x08]);
/** log2 of the largest window of brotli; encoders use 22. */
const MAX_BROTLI_WINDOW = 22;
/** log2 of the largest window of zstd (RFC 9659). */
const MAX_ZSTD_WINDOW = 23;
/** zstd decodes whole blocks of at most this size (RFC 8878 §3.1.1.2.4). */
const ZSTD_BLOCK_BYTES = 131_072;

const deflated = { finishFlush: zlib.Z_SYNC_FLUSH, maxOutputLength: MAX_DECODED_BYTES };

/** Decodes up to the end of the input, also if the stream is longer. @throws an error of the stream, or of what it needs */
function decode(bytes: Buffer, encoding: string): Buffer {
  switch (encoding) {
    case 'gzip':
    case 'x-gzip':
      if (hasManyMembers(bytes)) throw new RangeError(`more than ${MAX_GZIP_MEMBERS} members`);
      return gunzipSync(bytes, deflated);
    case 'deflate':
      return inflateSync(bytes, deflated);
    case 'br':
      if (brotliWindow(bytes) > MAX_BROTLI_WINDOW) throw new RangeError(`a window over 2^${MAX_BROTLI_WINDOW}`);
      return brotliDecompressSync(bytes, { ...deflated, finishFlush: zlib.BROTLI_OPERATION_FLUSH });
    case 'zstd':
      return zstdDecompressSync(bytes, {
        finishFlush: zlib.ZSTD_e_flush,
        maxOutputLength: MAX_DECODED_BYTES + ZSTD_BLOCK_BYTES,
        params: { [zlib.ZSTD_d_windowLogMax]: MAX_ZSTD_WINDOW },
      });
    default:
      throw new RangeError('unknown encoding');
  }
}

/**
 * Returns the start of an encoded response, decoded: at most 64 kB. Null if the encoding is unknown, the stream is
 * broken or one that no server sends, or too little of it can be decoded within the limit.
 * @param encoding value of Content-Encoding
 */
function decodeStart(bytes: Buffer, encoding: string): Buffer | null {
  const coding = encoding.trim().toLowerCase();
  let start: Buffer = Buffer.alloc(0);
  // The synchronous decoders of Node return nothing of what is over the limit: an input is looked for that is just below.
  let fitting = 0;
  let tooLong = bytes.length;
  let size = bytes.length;
  do {
    try {
      start = decode(bytes.subarray(0, size), coding).subarray(0, MAX_DECODED_BYTES);
      if (size === bytes.length) return start;
      if (start.length >= MAX_DECODED_BYTES / 2) break;
      fitting = size;
    } catch (error) {
      const isTooLong = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
      // Brotli decodes a whole window before it returns any of it: less input costs as much.
      if (!isTooLong || coding === 'br') return null;
      tooLong = size;
    }
    size = (fitting + tooLong) >> 1;
  } while (tooLong - fitting > ENCODED_STEP_BYTES);
  return start.length < MIN_DECODED_BYTES ? null : start;
}

/** True if bytes that begin a member (RFC 1952) occur too often. */
function hasManyMembers(bytes: Buffer): boolean {
  let members = 0;
  for (let at = bytes.indexOf(GZIP_MEMBER); at >= 0; at = bytes.indexOf(GZIP_MEMBER, at + GZIP_MEMBER.length)) {
    members += 1;
    if (members > MAX_GZIP_MEMBERS) return true;
  }
  return false;
}

/** log2 of the window of a brotli stream if it is over 17, else less (RFC 7932 §9.1). */
function brotliWindow(bytes: Buffer): number {
  const first = bytes[0] ?? 0;
  return (first & 1) === 0 ? 16 : 17 + ((first >> 1) & 7);
}

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
  readonly #encoding: string;
  /** Kept until it is decided: copies, as buffers are lent for reads. */
  #head: Buffer[] = [];
  /** Bytes of the response so far. */
  #size = 0;
  #state: 'undecided' | 'continues' | 'last' | 'silent' = 'undecided';
  /** True if rows are looked for: no one saw some of the query before. */
  #seeksRows: boolean;
  #hasRows = false;
  /** Reads the last page; null for all others. */
  #reader: FinalPageReader | null = null;

  /** @param onNext called once if the client will ask again, before it gets the bytes that state so; null for nothing */
  constructor(
    notes: ResponseNotes,
    queryId: string,
    cluster: string,
    method: string,
    { status, headers }: Pick<BufferedResponse, 'status' | 'headers'>,
    onNext: (() => void) | null = null,
  ) {
    this.#notes = notes;
    this.#onNext = onNext;
    this.#queryId = queryId;
    this.#cluster = cluster;
    this.#method = method;
    this.#encoding = encodingOf(headers);
    this.#seeksRows = status === 200 && (method === 'POST' || notes.outcomes.awaitsRows(queryId));
    if (status !== 200 || (method !== 'GET' && method !== 'POST')) this.#decideByStatus(status);
  }

  /** Reads the start of a response; false, with nothing read, if it does not state that the client will ask again. */
  readStart(text: string, response: BufferedResponse): boolean {
    if (!text.includes(NEXT) && !PRETTY_NEXT.test(text)) return false;
    this.#state = 'continues';
    this.readAll(response);
    this.noteNext();
    return true;
  }

  readAll({ chunks, isWhole }: BufferedResponse): void {
    for (const chunk of chunks) this.data(chunk);
    if (isWhole) this.end();
  }

  /** The start of the response has been read: its client will ask again. */
  noteNext(): void {
    this.#state = 'continues';
    this.#notes.runningQueries.noteActivity(this.#queryId, this.#cluster, this.#method === 'POST');
    this.#onNext?.();
  }

  /** Nothing more of it comes: a query whose head is not whole may continue. */
  breakOff(): void {
    if (this.#state === 'undecided') this.noteNext();
  }

  data(chunk: Buffer): void {
    if (this.#seeksRows && this.#encoding === '') this.#seekRows(chunk);
    this.#size += chunk.length;
    if (this.#state === 'undecided') this.#scan(chunk);
    else this.#reader?.push(chunk);
  }

  end(): void {
    if (this.#state === 'undecided') this.#decide();
    const { outcomes } = this.#notes;
    if (this.#state === 'continues') outcomes.page(this.#queryId, this.#cluster, this.#size, this.#hasRows);
    else if (this.#state === 'last') {
      outcomes.end(this.#queryId, this.#cluster, this.#size, this.#reader?.end() ?? null, this.#hasRows);
    }
  }

  #scan(chunk: Buffer): void {
    // Nearly always it stands in the first piece: nothing has to be kept then.
    if (this.#size === chunk.length && this.#encoding === '' && hasNextUri(chunk)) {
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
      if (start === null || hasNextUri(start)) this.noteNext();
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
    if (page === null || hasNextUri(page)) {
      this.noteNext();
      return;
    }
    this.#noteLast();
    this.#reader = new FinalPageReader(page);
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
    if (start === null || hasNextUri(start)) return start;
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

function hasNextUri(page: Buffer): boolean {
  const head = page.subarray(0, HEAD_BYTES);
  if (head.includes(NEXT, 0, 'latin1')) return true;
  return head.includes('"nextUri"', 0, 'latin1') && PRETTY_NEXT.test(head.toString('latin1'));
}

/** Support of forwarded headers by a cluster, observed in its responses (condition ForwardedHeaders). */
export interface ForwardedHeadersObservation {
  readonly cluster: string;
  readonly proxyTo: string;
  readonly honoured: boolean;
  /** Sentence for users: the observation, and the engine's setting to change. */
  readonly message: string;
}

/** Interval of checks of a cluster with correct responses. */
const RECHECK_AFTER_MS = 60_000;
/** Interval for a cluster that ignores forwarded headers, which may be fixed any moment. */
const RECHECK_BAD_AFTER_MS = 1_000;
/** Interval of repeated reports about a cluster: other replicas may have had correct responses in between. */
const REPEAT_BAD_AFTER_MS = 60_000;
const nextUri = /"nextUri"\s*:\s*"([^"\\]+)"/;

/** Times in monotonic milliseconds. */
interface Entry {
  readonly honoured: boolean;
  readonly message: string;
  readonly at: number;
  readonly reportedAt: number;
}

/**
 * Detects clusters that ignore or reject forwarded headers in responses to submissions; reports changes, and repeats
 * continuing problems.
 */
export class ForwardedCheck {
  readonly #clock: Clock;
  readonly #report: (observation: ForwardedHeadersObservation) => void;
  readonly #observations = new Map<string, Entry>();

  constructor(clock: Clock, report: (observation: ForwardedHeadersObservation) => void) {
    this.#clock = clock;
    this.#report = report;
  }

  /** Records a response 406 to a submission. */
  noteRejection(cluster: string, proxyTo: string): void {
    this.#note(cluster, proxyTo, false, `The cluster answers 406 to forwarded headers; ${fix}.`);
  }

  /**
   * Checks the response's nextUri, if it is time for it.
   * @param text start of the response
   * @param view the gateway's address as the client named it
   */
  noteResponse(cluster: string, proxyTo: string, text: string, view: ClientView): void {
    const last = this.#observations.get(proxyTo);
    const interval = last?.honoured === false ? RECHECK_BAD_AFTER_MS : RECHECK_AFTER_MS;
    if (last !== undefined && this.#clock.monotonic() - last.at <= interval) return;
    const uri = nextUri.exec(text)?.[1];
    if (uri === undefined || !URL.canParse(uri)) return;
    const url = new URL(uri);
    const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
    const honoured =
      url.hostname.toLowerCase() === view.host.toLowerCase() &&
      port === view.port &&
      url.protocol === `${view.scheme}:`;
    this.#note(
      cluster,
      proxyTo,
      honoured,
      honoured
        ? 'Follow-up URLs of the cluster point to the gateway.'
        : `Follow-up URLs of the cluster point to ${url.origin} instead of the gateway; ${fix}.`,
    );
  }

  #note(cluster: string, proxyTo: string, honoured: boolean, message: string): void {
    const before = this.#observations.get(proxyTo);
    const at = this.#clock.monotonic();
    const isChange = before === undefined || before.honoured !== honoured || before.message !== message;
    const isDue = isChange || (!honoured && at - before.reportedAt >= REPEAT_BAD_AFTER_MS);
    this.#observations.set(proxyTo, { honoured, message, at, reportedAt: isDue ? at : before.reportedAt });
    if (isDue) this.#report({ cluster, proxyTo, honoured, message });
  }
}

const fix = "set http-server.process-forwarded=true in the engine's configuration";

function encodingOf({ 'content-encoding': encoding }: IncomingHttpHeaders): string {
  return typeof encoding === 'string' && encoding !== 'identity' ? encoding : '';
}

/**
 * Finds the id of the query in the response to its submission, with the start of the response as latin1. `absent`: it cannot
 * be decoded, is no page of a query, or has an id that a follow-up could not name.
 */
export function readId(
  response: BufferedResponse,
): (Exclude<IdSearch, string> & { readonly text: string }) | 'absent' | null {
  const { chunks, headers, isWhole, size } = response;
  const encoding = encodingOf(headers);
  let bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
  if (encoding !== '') {
    const decoded = decodeStart(bytes, encoding);
    if (decoded === null) return 'absent';
    bytes = decoded;
  } else if (headers['content-type'] === undefined && bytes[0] !== 0x7b) return 'absent';
  const text = bytes.toString('latin1', 0, MAX_BUFFERED_BYTES);
  const match = findId(text);
  if (match === 'incomplete' && !isWhole && size < MAX_BUFFERED_BYTES) return null;
  return typeof match !== 'string' && PLAUSIBLE_ID.test(match.id) ? { id: match.id, text } : 'absent';
}
