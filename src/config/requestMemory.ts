import { totalmem } from 'node:os';
import type { GatewayConfig } from './gatewayConfig.ts';

/** The request memory is this share of the memory that the process may take: a body is buffered as bytes and as text. */
const SHARE = 8;
const LEAST = 16 * 1024 ** 2;
const MOST = 512 * 1024 ** 2;
/** As many times the largest submission that is buffered is the least: three quarters of it are for large bodies. */
const MAX_SUBMISSIONS_SIZE = 2;
/** Request memory for each connection over HTTP/2, bytes. */
const HTTP2_CONNECTION = 1024 ** 2;
const MIN_HTTP2_CONNECTIONS = 32;

/** Limits that go by the memory of the process. */
export interface RequestMemoryLimits {
  /** Bytes of request bodies that are buffered. */
  readonly memory: number;
  /** Most connections of clients over HTTP/2. */
  readonly http2Connections: number;
}

/**
 * The limits of the configuration and of the process's memory (docs/serving.md#memory-of-requests).
 * @param memoryLimit bytes that the process may take
 */
export function requestMemoryLimits(
  { server, requestAnalyzerConfig }: Pick<GatewayConfig, 'server' | 'requestAnalyzerConfig'>,
  memoryLimit: number = processMemoryLimit(),
): RequestMemoryLimits {
  const byDefault = Math.min(Math.max(Math.floor(memoryLimit / SHARE), LEAST), MOST);
  const memory = server.requestMemory ?? Math.max(byDefault, leastRequestMemory(requestAnalyzerConfig.maxBodySize));
  return {
    memory,
    http2Connections:
      server.maxHttp2Connections ?? Math.max(Math.floor(memory / HTTP2_CONNECTION), MIN_HTTP2_CONNECTIONS),
  };
}

/** The least value of `server.requestMemory`. @param maxAnalyzedBody `requestAnalyzerConfig.maxBodySize` */
export function leastRequestMemory(maxAnalyzedBody: number): number {
  return MAX_SUBMISSIONS_SIZE * maxAnalyzedBody;
}

/** Bytes that the process may take: of its cgroup, else of the machine. */
export function processMemoryLimit(): number {
  // 0, or more than there is, if no limit is set.
  const constrained = process.constrainedMemory();
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
}
