import type { IncomingMessage, ServerResponse } from 'node:http';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock } from '../../model/clock.ts';
import { announcedLength, type BodyStart, emptyBody, hasBody } from './body.ts';
import { BodyBytes } from './bodyBytes.ts';
import { type BodyPace, BodyPaces } from './bodyPaces.ts';
import { HeadGarbage } from './headGarbage.ts';
import { BYTES_PER_HEAD_BYTE, HeldHead } from './heldHead.ts';
import { HeldMemory, RequestMemory, SMALL_REQUEST_BYTES } from './requestMemory.ts';

/** Why a body is not read: no memory for it, or it comes too slowly. */
export type BodyFault = 'request_memory' | 'body_too_slow';

/** How much of a body is read, and what it costs. */
export interface BodyReading {
  /** Bytes after which reading ends. */
  readonly limit: number;
  /** What a byte takes while the request is served: pieces that are joined, the text, what is made of it. */
  readonly bytesPerByte: number;
}

/** Limits of request bodies; the rate is asked for again and again, so that it may change. */
export interface RequestBodiesOptions {
  /** Bytes of memory for all bodies together. */
  readonly memory: number;
  /** Most that one request may hold of it, bytes. */
  readonly largest: number;
  /** Bytes a second. */
  readonly minRate: () => number;
  readonly clock: Clock;
  readonly registry: Registry;
}

/** Where a request keeps what it holds: a property costs less than a `WeakMap`, at every collection of garbage too. */
const heldBy = Symbol('held memory');

interface HoldingRequest extends IncomingMessage {
  [heldBy]?: HeldMemory;
}

/** What a body that passes through may take: buffers of the request, of the relay, and of the connection to the cluster. */
const RELAY_BYTES = 3 * SMALL_REQUEST_BYTES;

/**
 * Reads bodies of requests, and bounds large heads, within the memory that there is for them. Each request with a body
 * holds memory from its head to the end of its answer: at first what Node.js buffers of a body that nobody reads, then
 * what is read.
 */
export class RequestBodies {
  readonly #memory: RequestMemory;
  readonly #paces: BodyPaces;
  readonly #headGarbage: HeadGarbage;
  readonly #minRate: () => number;
  readonly #refused: Counter<'reason'>;

  constructor({ memory, largest, minRate, clock, registry }: RequestBodiesOptions) {
    this.#memory = new RequestMemory(memory, largest);
    this.#paces = new BodyPaces(minRate, clock);
    this.#minRate = minRate;
    this.#headGarbage = new HeadGarbage(memory);
    this.#refused = bodyMetrics(registry, this.#memory);
  }

  /** `server.requestMemory`, bytes. */
  get memory(): number {
    return this.#memory.limit;
  }

  /** `server.minBodyRate`, bytes a second. */
  get minRate(): number {
    return this.#minRate();
  }

  /**
   * Takes in a request that has a body; what it holds is given back when its answer is over.
   * @returns false where there is no memory for it: it has to be refused
   */
  admit(request: IncomingMessage, response: ServerResponse): boolean {
    const memory = this.#hold(request, response, unreadBytes(request));
    if (memory === null) return false;
    (request as HoldingRequest)[heldBy] = memory;
    return true;
  }

  /**
   * Reads a body up to a limit; a request without one has an empty body. Calls one of the two back, once; neither where the client goes away before that (the
   * response's `close` shows it).
   * @param refused called with the request's body unread: what still comes is dropped
   */
  read(
    request: IncomingMessage,
    { limit, bytesPerByte }: BodyReading,
    onStart: (start: BodyStart) => void,
    refused: (fault: BodyFault) => void,
  ): void {
    // Node.js emits no `end` for these (optimizeEmptyRequests).
    if (!hasBody(request)) {
      onStart(emptyBody);
      return;
    }
    const memory = this.#heldBy(request);
    const bytes = new BodyBytes();
    const stop = () => {
      pace.end();
      memory.keep();
      request.off('data', onData).off('end', onEnd);
    };
    const finish = (complete: boolean) => {
      const joined = bytes.joined();
      onStart({ bytes: joined, complete, text: joined.toString('utf8') });
    };
    const refuse = (fault: BodyFault) => {
      stop();
      memory.release();
      request.resume();
      this.#refused.inc({ reason: fault });
      refused(fault);
    };
    const onData = (chunk: Buffer) => {
      pace.received += chunk.length;
      if (!memory.growTo(pace.received * bytesPerByte)) {
        refuse('request_memory');
        return;
      }
      bytes.add(chunk);
      if (pace.received <= limit) return;
      stop();
      request.pause();
      finish(false);
    };
    const onEnd = () => {
      pace.end();
      memory.keep();
      finish(true);
    };
    const pace = this.#paces.watch(() => refuse('body_too_slow'));
    memory.mayBeRefused(
      () => refuse('request_memory'),
      () => pace.end(),
    );
    request.on('data', onData).on('end', onEnd);
  }

  /** Takes what a body that passes through to a cluster may hold; false where there is no memory for it. */
  relay(request: IncomingMessage): boolean {
    const announced = announcedLength(request);
    const bytes = announced === null ? RELAY_BYTES : Math.min(3 * announced, RELAY_BYTES);
    if (this.#heldBy(request).growTo(bytes)) return true;
    this.#refused.inc({ reason: 'request_memory' });
    return false;
  }

  /**
   * Takes in a request with a large head that is there already; what it holds is given back when its answer is over.
   * @param head bytes
   * @returns false where there is no memory for it: it has to be refused
   */
  admitHead(request: IncomingMessage, response: ServerResponse, head: number): boolean {
    return this.#hold(request, response, head * BYTES_PER_HEAD_BYTE) !== null;
  }

  /** Notes a large head over HTTP/2, whether or not it is refused. @param head bytes */
  noteHttp2Head(head: number): void {
    this.#headGarbage.add(head);
  }

  /**
   * Holds memory for a large head that comes in many pieces.
   * @param tooSlow called once where it comes more slowly than bodies may
   */
  holdHead(connection: object, tooSlow: () => void): HeldHead {
    const memory = new HeldMemory(this.#memory, connection);
    return new HeldHead(memory, this.watch(tooSlow), () => this.#refused.inc({ reason: 'request_memory' }));
  }

  /** Watches the pace of a body that passes through; its owner ends the watch. */
  watch(tooSlow: () => void): BodyPace {
    return this.#paces.watch(() => {
      this.#refused.inc({ reason: 'body_too_slow' });
      tooSlow();
    });
  }

  /** Holds memory until the answer is over; null where there is none. */
  #hold(request: IncomingMessage, response: ServerResponse, bytes: number): HeldMemory | null {
    const memory = new HeldMemory(this.#memory, request.socket);
    if (!memory.growTo(bytes)) {
      this.#refused.inc({ reason: 'request_memory' });
      return null;
    }
    response.on('close', memory.release);
    return memory;
  }

  /** What a request holds: since it was taken in, or, where nobody did that, from now until it is over. */
  #heldBy(request: IncomingMessage): HeldMemory {
    let memory = (request as HoldingRequest)[heldBy];
    if (memory === undefined) {
      memory = new HeldMemory(this.#memory, request.socket);
      (request as HoldingRequest)[heldBy] = memory;
      request.once('close', memory.release);
    }
    return memory;
  }
}

/** What Node.js may buffer of a body that nobody reads. */
function unreadBytes(request: IncomingMessage): number {
  const announced = announcedLength(request);
  return announced === null ? SMALL_REQUEST_BYTES : Math.min(announced, SMALL_REQUEST_BYTES);
}

function bodyMetrics(registry: Registry, memory: RequestMemory): Counter<'reason'> {
  const registers = [registry];
  const used: Gauge = new Gauge({
    name: 'engine_gateway_request_memory_bytes',
    help: 'Memory that bodies and large heads of requests hold, in bytes.',
    registers,
    collect: () => used.set(memory.used),
  });
  const limit: Gauge = new Gauge({
    name: 'engine_gateway_request_memory_limit_bytes',
    help: 'Memory that bodies and large heads of requests may hold (server.requestMemory), in bytes.',
    registers,
    collect: () => limit.set(memory.limit),
  });
  return new Counter({
    name: 'engine_gateway_request_bodies_refused_total',
    help: 'Requests refused for their body or head: no memory for it (request_memory), or it came too slowly (body_too_slow).',
    labelNames: ['reason'],
    registers,
  });
}
