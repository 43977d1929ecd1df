import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../../src/config/loadConfig.ts';
import { requestMemoryLimits } from '../../../src/config/requestMemory.ts';

const MB = 1024 ** 2;

function limits(text: string, memoryLimit?: number) {
  const result = parseConfig(text, {});
  if ('problems' in result) throw new Error(JSON.stringify(result.problems));
  return requestMemoryLimits(result.config, memoryLimit);
}

test.each([
  ['a quarter of the limit', '', 512 * MB, 128 * MB],
  ['32 MB at least', '', 64 * MB, 32 * MB],
  ['1 GB at most', '', 64 * 1024 * MB, 1024 * MB],
  ['8 times the largest submission at least', 'requestAnalyzerConfig: {maxBodySize: 52428800}', 512 * MB, 400 * MB],
  ['8 times the largest head at least', 'serverConfig: {http-server.max-request-header-size: 16MB}', 64 * MB, 128 * MB],
  ['what is set', 'server: {requestMemory: 8MB}', 512 * MB, 8 * MB],
])('memory: %s', (_name, text, memoryLimit, expected) => {
  expect(limits(text, memoryLimit).memory).toBe(expected);
});

test.each([
  ['as engines have it', '', 512 * MB, 2 * MB],
  ['under a small limit of the process as well', '', 64 * MB, 2 * MB],
  ['a 16th of a small request memory', 'server: {requestMemory: 8MB}', 512 * MB, MB / 2],
  ['what is set', 'serverConfig: {http-server.max-request-header-size: 64kB}', 512 * MB, MB / 16],
])('largest head: %s', (_name, text, memoryLimit, expected) => {
  const { head, memory, largest } = limits(text, memoryLimit);
  expect(head).toBe(expected);
  // It takes four times its size: of its connection's share, and of three quarters of the memory.
  expect(4 * head).toBeLessThanOrEqual(Math.min(Math.max(largest, memory / 4), 0.75 * memory));
});

test.each([
  ['one connection for each MB, a request for each 32 kB', '', 512 * MB, 128, 4096],
  ['32 connections at least', 'server: {requestMemory: 8MB}', 512 * MB, 32, 256],
  ['what is set', 'server: {maxHttp2Connections: 7}', 512 * MB, 7, 4096],
])('HTTP/2: %s', (_name, text, memoryLimit, http2Connections, http2Requests) => {
  expect(limits(text, memoryLimit)).toMatchObject({ http2Connections, http2Requests });
});

describe('without a limit of the process', () => {
  test('there is a value', () => {
    expect(limits('').memory).toBeGreaterThanOrEqual(32 * MB);
    expect(limits('').memory).toBeLessThanOrEqual(1024 * MB);
  });
});

test.each([
  [
    'requestAnalyzerConfig: {maxBodySize: 52428800}',
    'must be at least 400MB, so that submissions of up to requestAnalyzerConfig.maxBodySize have room',
  ],
  [
    'serverConfig: {http-server.max-request-header-size: 16MB}',
    'must be at least 128MB, so that headers of up to serverConfig.http-server.max-request-header-size have room',
  ],
])('less than the largest request needs: %s', (text, message) => {
  const result = parseConfig(`server: {requestMemory: 64MB}\n${text}`, {});
  expect('problems' in result && result.problems.map((problem) => [problem.field, problem.message])).toEqual([
    ['server.requestMemory', message],
  ]);
});
