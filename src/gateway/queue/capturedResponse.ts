import type { ServerResponse } from 'node:http';
import { Writable } from 'node:stream';

/** Maximum size of a first response: those of engines have some hundred bytes, as results follow later. */
const MAX_RESPONSE_BYTES = 1_048_576;

export interface StoredResponse {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: Buffer;
}

const ofConnection: ReadonlySet<string> = new Set(['content-length', 'transfer-encoding', 'connection', 'keep-alive']);

/** Captures a cluster's response to a submission without a connected client. */
export class CapturedResponse extends Writable {
  statusCode = 200;
  statusMessage = '';
  headersSent = false;
  readonly socket = null;
  readonly req = { httpVersionMajor: 1 };
  #lines: readonly string[] = [];
  #chunks: Buffer[] = [];
  #size = 0;

  /** Typed as the response that exchanges write to: they only use members that exist here. */
  get asResponse(): ServerResponse {
    return this as unknown as ServerResponse;
  }

  /** The captured response; null if it is incomplete, or too large. */
  get content(): StoredResponse | null {
    if (!this.writableFinished || this.#size > MAX_RESPONSE_BYTES) return null;
    const headers: string[] = [];
    for (let index = 0; index + 1 < this.#lines.length; index += 2) {
      const name = this.#lines[index] as string;
      if (!ofConnection.has(name.toLowerCase())) headers.push(name, this.#lines[index + 1] as string);
    }
    return { status: this.statusCode, headers, body: Buffer.concat(this.#chunks) };
  }

  writeHead(status: number, second: string | readonly string[], third?: readonly string[]): this {
    this.statusCode = status;
    this.#lines = typeof second === 'string' ? (third ?? []) : second;
    this.headersSent = true;
    return this;
  }

  /** Trailers belong to results, which a first response does not have. */
  addTrailers(): void {}

  getHeaderNames(): readonly string[] {
    return [];
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.headersSent = true;
    this.#size += chunk.length;
    if (this.#size > MAX_RESPONSE_BYTES) {
      this.#chunks = [];
      this.destroy();
    } else {
      // The buffer may be lent: it is reused for the next read.
      this.#chunks.push(Buffer.from(chunk));
    }
    done();
  }
}
