import type { ServerResponse } from 'node:http';
import { Writable } from 'node:stream';

/** Most bytes of a first answer: those of engines have some hundred, as results follow later. */
const MAX_ANSWER_BYTES = 1_048_576;

/** An answer that was taken in whole. */
export interface CapturedAnswer {
  readonly status: number;
  /** Names and values in turn, without those of the connection. */
  readonly headers: readonly string[];
  readonly body: Buffer;
}

const ofConnection: ReadonlySet<string> = new Set(['content-length', 'transfer-encoding', 'connection', 'keep-alive']);

/** Takes the answer of a cluster to a submission whose client is not on the line, as a client's connection would. */
export class CapturedResponse extends Writable {
  statusCode = 200;
  statusMessage = '';
  headersSent = false;
  readonly socket = null;
  readonly req = { httpVersionMajor: 1 };
  #lines: readonly string[] = [];
  #chunks: Buffer[] = [];
  #size = 0;

  /** The same, as the type that exchanges write to: of its members they use those that are here. */
  get asResponse(): ServerResponse {
    return this as unknown as ServerResponse;
  }

  /** What was written; null where it is not whole, or larger than is kept. */
  get answer(): CapturedAnswer | null {
    if (!this.writableFinished || this.#size > MAX_ANSWER_BYTES) return null;
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

  /** Trailers belong to results, which a first answer has none of. */
  addTrailers(): void {}

  getHeaderNames(): readonly string[] {
    return [];
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.headersSent = true;
    this.#size += chunk.length;
    if (this.#size > MAX_ANSWER_BYTES) {
      this.#chunks = [];
      this.destroy();
    } else {
      // The bytes may be lent: they are used again for the next read.
      this.#chunks.push(Buffer.from(chunk));
    }
    done();
  }
}
