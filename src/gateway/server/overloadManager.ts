import type { IncomingMessage, ServerResponse } from 'node:http';
import { getHeapStatistics } from 'node:v8';
import type { Logger } from 'pino';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import { respond } from '../exchanges/responses.ts';
import type { OpenRequests } from './gatewayServer.ts';

/** Time between two checks, milliseconds. */
const CHECK_MS = 100;
/** Time between two checks while requests come: heads of one hostile client can fill the heap within 100 ms. */
const CHECK_REQUESTS_MS = 10;
/** Shares of the memory from which on each level is reached: two thresholds with two levels each. */
const THRESHOLDS = [0, 0.7, 0.7, 0.8, 0.8] as const;
/** A level ends below its threshold by this much. */
const HYSTERESIS = 0.05;
/**
 * With fewer open requests the memory in use is not theirs, but garbage that is not collected yet: bodies are limited
 * otherwise. Proxied requests are served then, or nothing would ever make V8 collect it.
 */
const FEW_REQUESTS = 64;
/** Share of the memory from which on that does not matter. */
const ALMOST_ALL = 0.95;
/** What each level sheds, in addition to the levels before it. */
const SHED = ['nothing', 'idle connections', 'lists', 'submissions', 'follow-ups'] as const;

const LISTS =
  /^\/(?:[a-z]+-gateway\/)?(?:api\/(?!logins|pages)\w+(?:\/(?:export|running|declared|queries|rates))?|gateway\/backend\/(?:all|active)|entity(?:\/\w+)?|\w+\/\w+\/read)\/?(?:\?|$)/;
const WEBAPP_LISTS = /^\/webapp\/(?:find|get)\w+/;

/** Memory of the process in addition to heap and buffers: code, threads, and what V8 and the allocator keep for later, bytes. */
const PROCESS_BYTES = 150 * 1024 ** 2;

/** Share of the limit of the heap that is for objects that live on; V8 gives up before all of it is used. */
const USABLE_HEAP = 0.8;

/** Connections that can be ended. */
interface Connections {
  /** Ends connections on which nothing runs. */
  closeIdle(): void;
  /** Ends the HTTP/2 connections that have the most requests. */
  evictBusiest(): void;
}

/**
 * Sheds load while memory is short (docs/serving.md#short-of-memory). Every 100 ms it compares the memory in use with the
 * limit. Above the first threshold it closes idle connections, and rejects lists and exports of the API from the next check on;
 * above the second one it rejects submissions, and follow-ups from the next check on.
 */
export class OverloadManager {
  readonly #share: () => number;
  readonly #openRequests: Pick<OpenRequests, 'count'>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #shed: Counter<'load'>;
  #connections: Connections | null = null;
  #level = 0;
  #since = 0;
  #checkedAt = 0;

  /** @param share returns the share of its memory that the process uses */
  constructor(
    share: () => number,
    openRequests: Pick<OpenRequests, 'count'>,
    clock: Clock,
    logger: Logger,
    registry: Registry,
  ) {
    this.#share = share;
    this.#openRequests = openRequests;
    this.#clock = clock;
    this.#logger = logger;
    const level: Gauge = new Gauge({
      name: 'engine_gateway_overload_level',
      help: 'Load that is shed while memory is short: 0 none, 1 idle connections, 2 lists of the API, 3 submissions, 4 follow-ups.',
      registers: [registry],
      collect: () => level.set(this.#level),
    });
    this.#shed = new Counter({
      name: 'engine_gateway_overload_rejections_total',
      help: 'Requests rejected while memory is short, by load (lists, submissions, follow-ups).',
      labelNames: ['load'],
      registers: [registry],
    });
  }

  /** True while any load is shed. */
  get isShort(): boolean {
    return this.#level > 0;
  }

  /** Checks the memory from now on. @returns a function that ends it */
  start(connections: Connections): () => void {
    this.#connections = connections;
    const timer = setInterval(() => this.check(), CHECK_MS).unref();
    return () => clearInterval(timer);
  }

  /** Compares the memory in use with the limit once. */
  check(): void {
    this.#checkedAt = this.#clock.monotonic();
    const share = this.#share();
    const before = this.#level;
    const most = share < ALMOST_ALL && this.#openRequests.count < FEW_REQUESTS ? 2 : 4;
    if (before > most) this.#level = most;
    else if (before < 3 && most > 2 && share >= THRESHOLDS[3]) this.#level = 3;
    else if (before < most && share >= (THRESHOLDS[before + 1] as number)) this.#level++;
    else if (before > 0 && share < (THRESHOLDS[before] as number) - HYSTERESIS) this.#level--;
    if (this.#level > before) this.#connections?.closeIdle();
    if (this.#level === 4) this.#connections?.evictBusiest();
    if (this.#level !== before) this.#log(before, share);
  }

  /**
   * Rejects a request with 503 if its load is shed now.
   * @returns whether it did
   */
  rejects(request: IncomingMessage, response: ServerResponse, isProxied: boolean): boolean {
    // No timer fires within a turn of the event loop.
    if (this.#clock.monotonic() - this.#checkedAt >= CHECK_REQUESTS_MS) this.check();
    if (this.#level < 2) return false;
    const level = levelOf(request, isProxied);
    if (this.#level < level) return false;
    this.#shed.inc({ load: SHED[level] as string });
    const message = 'This gateway is short of memory; send the request again in a second.';
    const type = isProxied ? 'text/plain; charset=utf-8' : 'application/json; charset=utf-8';
    const body = isProxied ? `${message}\n` : JSON.stringify(new GatewayError('EG_BUSY', message).toBody());
    respond(response, 503, ['content-type', type, 'cache-control', 'no-store', 'retry-after', '1'], body);
    return true;
  }

  #log(before: number, share: number): void {
    const percent = Math.round(share * 100);
    if (before === 0) this.#since = this.#clock.monotonic();
    if (this.#level === 0) {
      const seconds = Math.round((this.#clock.monotonic() - this.#since) / 1_000);
      this.#logger.info({ percent, seconds }, 'memory available again');
    } else if (this.#level > before) this.#logger.warn({ percent, sheds: SHED[this.#level] }, 'memory short');
  }
}

/** The level from which on a request is rejected. */
function levelOf({ method, url = '' }: IncomingMessage, isProxied: boolean): number {
  if (isProxied) return method === 'POST' ? 3 : 4;
  const isList = method === 'POST' ? WEBAPP_LISTS.test(url) : LISTS.test(url);
  return isList ? 2 : Number.POSITIVE_INFINITY;
}

/**
 * Returns the share of its memory that the process uses: of the cgroup's limit, or of V8's heap if that is used more.
 * @param limit bytes
 */
export function memoryShare(limit: number): () => number {
  const heapLimit = getHeapStatistics().heap_size_limit * USABLE_HEAP;
  return () => {
    // `external` includes array buffers. Pages that were never written to are not resident, and the allocator keeps free ones.
    const { heapUsed, external, rss } = process.memoryUsage();
    return Math.max(Math.min(heapUsed + external + PROCESS_BYTES, rss) / limit, heapUsed / heapLimit);
  };
}
