import type { IncomingMessage, ServerResponse } from 'node:http';
import { Counter, Gauge, type Registry } from 'prom-client';
import { firstHeader, isHeader } from '../../model/rawHeaders.ts';
import type { Refusal } from '../../routing/refusal.ts';
import { BodyBytes } from './bodyBytes.ts';

/** True if a request has a body (RFC 9112 §6.3). */
export function hasBody(request: IncomingMessage): boolean {
  const raw = request.rawHeaders;
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index] as string;
    if (isHeader(name, 'content-length')) return Number(raw[index + 1]) > 0;
    if (isHeader(name, 'transfer-encoding')) return true;
  }
  return false;
}

/** Bytes that the client announced; null if it announced none. */
export function announcedLength(request: IncomingMessage): number | null {
  const value = firstHeader(request.rawHeaders, 'content-length');
  return value === undefined ? null : Number(value);
}

export interface BodyStart {
  readonly bytes: Buffer;
  /** False: more follows, and the request is paused. */
  readonly complete: boolean;
  /** The bytes as UTF-8. */
  readonly text: string;
}

const nothing = Buffer.alloc(0);

export const emptyBody: BodyStart = { bytes: nothing, complete: true, text: '' };

/** Why the body of a request is rejected. */
export type BodyFault = 'request_memory' | 'body_too_large';

/**
 * The refusal of a request for its body.
 * @param memory `server.requestMemory`, bytes
 * @param maxBodySize `server.maxBodySize`, bytes
 */
export function bodyRefusal(reason: BodyFault, memory: number, maxBodySize: number): Refusal {
  const message =
    reason === 'request_memory'
      ? memoryMessage(memory)
      : `The body is larger than ${maxBodySize} bytes (server.maxBodySize).`;
  return { reason, message, queryId: null };
}

/**
 * The message for a client if there is no memory for its body.
 * @param memory `server.requestMemory`, bytes
 */
export function memoryMessage(memory: number): string {
  return `Other requests take the ${Math.floor(memory)} bytes that there are for bodies (server.requestMemory); send the request again in a second.`;
}

/** Bodies up to this size are small; a quarter of the memory is kept for them. */
const SMALL_BODY = 65_536;
/** Share of the memory that larger bodies may take. */
const LARGE_SHARE = 0.75;
/** Bytes of a body that passes through: buffers of the request, of the relay, and of the connection to the cluster. */
const RELAY_BYTES = 131_072;

/** Bytes of a request until its response is over. */
interface BodyUsage {
  bytes: number;
  isReleased: boolean;
}

/**
 * Reads bodies of requests, and counts their bytes, on all listeners together. They never exceed
 * `server.requestMemory`: a body that would exceed it as it grows is rejected.
 */
export class RequestBodies {
  /** `server.requestMemory`, bytes. */
  readonly memory: number;
  readonly #rejected: Counter<'reason'>;
  #used = 0;

  /** @param memory bytes */
  constructor(memory: number, registry: Registry) {
    this.memory = memory;
    const registers = [registry];
    const used: Gauge = new Gauge({
      name: 'engine_gateway_request_memory_bytes',
      help: 'Bytes of request bodies that are buffered.',
      registers,
      collect: () => used.set(this.#used),
    });
    new Gauge({
      name: 'engine_gateway_request_memory_limit_bytes',
      help: 'Most bytes of request bodies that are buffered (server.requestMemory).',
      registers,
    }).set(memory);
    this.#rejected = new Counter({
      name: 'engine_gateway_request_bodies_refused_total',
      help: 'Requests rejected because there is no memory for their body (request_memory).',
      labelNames: ['reason'],
      registers,
    });
  }

  /**
   * Reads a body up to a limit; a request without one has an empty body. Calls one of the two callbacks, once; neither if the
   * client goes away before that (the response's `close` shows it).
   * @param limit bytes after which reading ends
   * @param noMemory called with the request's body unread: the rest is dropped
   */
  read(
    request: IncomingMessage,
    response: ServerResponse,
    limit: number,
    onStart: (start: BodyStart) => void,
    noMemory: () => void,
  ): void {
    // Node.js emits no `end` for these (optimizeEmptyRequests).
    if (!hasBody(request)) {
      onStart(emptyBody);
      return;
    }
    const usage = this.#holdUntilEnd(response);
    const bytes = new BodyBytes();
    const stop = () => {
      request.off('data', onData).off('end', onEnd);
    };
    const finish = (complete: boolean) => {
      const joined = bytes.joined();
      onStart({ bytes: joined, complete, text: joined.toString('utf8') });
    };
    const onData = (chunk: Buffer) => {
      if (!this.#grow(usage, chunk.length)) {
        stop();
        this.#release(usage);
        request.resume();
        noMemory();
        return;
      }
      bytes.add(chunk);
      if (bytes.size <= limit) return;
      stop();
      request.pause();
      finish(false);
    };
    const onEnd = () => finish(true);
    request.on('data', onData).on('end', onEnd);
  }

  /** Takes what a body that passes through to a cluster may buffer; false if there is no memory for it. */
  relay(request: IncomingMessage, response: ServerResponse): boolean {
    const bytes = Math.min(announcedLength(request) ?? RELAY_BYTES, RELAY_BYTES);
    return this.#grow(this.#holdUntilEnd(response), bytes);
  }

  #holdUntilEnd(response: ServerResponse): BodyUsage {
    const usage = { bytes: 0, isReleased: false };
    response.once('close', () => this.#release(usage));
    return usage;
  }

  #grow(usage: BodyUsage, bytes: number): boolean {
    if (usage.isReleased) return true;
    const limit = usage.bytes + bytes > SMALL_BODY ? this.memory * LARGE_SHARE : this.memory;
    if (this.#used + bytes > limit) {
      this.#rejected.inc({ reason: 'request_memory' });
      return false;
    }
    usage.bytes += bytes;
    this.#used += bytes;
    return true;
  }

  #release(usage: BodyUsage): void {
    usage.isReleased = true;
    this.#used -= usage.bytes;
    usage.bytes = 0;
  }
}
