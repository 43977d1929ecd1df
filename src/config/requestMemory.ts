import { totalmem } from 'node:os';
import type { GatewayConfig } from './gatewayConfig.ts';

/** The request memory is this share of the memory that the process may take. */
const SHARE = 4;
const LEAST = 32 * 1024 ** 2;
const MOST = 1024 ** 3;
/** As many times the largest submission that is held is the least: the memory that one takes is up to 6 times its size. */
const LARGEST_SUBMISSIONS = 8;
/** Least size up to which submissions are held, bytes. */
const LEAST_SUBMISSION = 1024 ** 2;
/** Largest request head where nothing else is set, bytes: what Trino's coordinator takes. */
const DEFAULT_HEAD = 2 * 1024 ** 2;
/** Share of the request memory that it is at most, so that one head takes a quarter of the memory (it takes 4 times its size). */
const HEAD_SHARE = 16;

/** Request memory for each connection over HTTP/2, bytes: besides its requests it may hold a head whose end has not come. */
const HTTP2_CONNECTION = 1024 ** 2;
const LEAST_HTTP2_CONNECTIONS = 32;
/** The same for each request at once on these connections. It takes half of it, a head of up to 4 kB included. */
const HTTP2_REQUEST = 32_768;

/** Limits of the memory for requests, bytes. */
export interface RequestMemoryLimits {
  /** For bodies and large heads of all requests. */
  readonly memory: number;
  /** Most that one request may hold of it, whatever the share of its connection is. */
  readonly largest: number;
  /** Largest head of a request. */
  readonly head: number;
  /** Most connections of clients over HTTP/2; a number. */
  readonly http2Connections: number;
  /** Most requests at once on all of them; a number. */
  readonly http2Requests: number;
}

/**
 * The limits of the configuration and of the process's memory (docs/serving.md#memory-of-requests).
 * @param memoryLimit bytes that the process may take
 */
export function requestMemoryLimits(
  config: Pick<GatewayConfig, 'server' | 'serverConfig' | 'requestAnalyzerConfig'>,
  memoryLimit: number = processMemoryLimit(),
): RequestMemoryLimits {
  const head = config.serverConfig['http-server.max-request-header-size'];
  const least = leastRequestMemory(config.requestAnalyzerConfig.maxBodySize, head);
  const memory = config.server.requestMemory ?? Math.max(defaultRequestMemory(memoryLimit), least);
  return {
    memory,
    largest: least,
    head: head ?? Math.min(DEFAULT_HEAD, Math.floor(memory / HEAD_SHARE)),
    http2Connections:
      config.server.maxHttp2Connections ?? Math.max(Math.floor(memory / HTTP2_CONNECTION), LEAST_HTTP2_CONNECTIONS),
    http2Requests: Math.floor(memory / HTTP2_REQUEST),
  };
}

/**
 * The least value of `server.requestMemory`: below it the largest submissions or heads would never be taken.
 * @param maxAnalyzedBody `requestAnalyzerConfig.maxBodySize`
 * @param head `http-server.max-request-header-size`; null where it goes by the memory
 */
export function leastRequestMemory(maxAnalyzedBody: number, head: number | null): number {
  return LARGEST_SUBMISSIONS * Math.max(maxAnalyzedBody, head ?? 0, LEAST_SUBMISSION);
}

/** A quarter of the memory limit of the process (its control group, else the machine's memory), within 32 MB and 1 GB. */
function defaultRequestMemory(memoryLimit: number): number {
  return Math.min(Math.max(Math.floor(memoryLimit / SHARE), LEAST), MOST);
}

function processMemoryLimit(): number {
  // 0, or more than there is, where no limit is set.
  const constrained = process.constrainedMemory();
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
}
