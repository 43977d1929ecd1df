import { expect, test } from 'vitest';
import { requestMemoryLimits } from '../../../src/config/derived.ts';
import { parseConfig } from '../../../src/config/loadConfig.ts';

const MB = 1024 ** 2;

function limits(text: string, memoryLimit?: number) {
  const result = parseConfig(text, {});
  if ('problems' in result) throw new Error(JSON.stringify(result.problems));
  return requestMemoryLimits(result.config, memoryLimit);
}

test.each([
  ['an eighth of the limit', '', 512 * MB, 64 * MB, 64],
  ['16 MB at least', '', 64 * MB, 16 * MB, 32],
  ['512 MB at most', '', 64 * 1024 * MB, 512 * MB, 512],
  ['twice the largest submission at least', 'requestAnalyzerConfig: {maxBodySize: 52428800}', 512 * MB, 100 * MB, 100],
  ['what is set', 'server: {requestMemory: 8MB, maxHttp2Connections: 7}', 512 * MB, 8 * MB, 7],
])('%s', (_name, text, memoryLimit, memory, http2Connections) => {
  expect(limits(text, memoryLimit)).toEqual({ memory, http2Connections });
});

test('without a limit of the process there is a value', () => {
  expect(limits('').memory).toBeGreaterThanOrEqual(16 * MB);
  expect(limits('').memory).toBeLessThanOrEqual(512 * MB);
});

test('less than the largest request needs', () => {
  const text = 'server: {requestMemory: 64MB}\nrequestAnalyzerConfig: {maxBodySize: 52428800}';
  const result = parseConfig(text, {});
  expect('problems' in result && result.problems.map((problem) => [problem.field, problem.message])).toEqual([
    [
      'server.requestMemory',
      'must be at least 100MB, so that submissions of up to requestAnalyzerConfig.maxBodySize have room',
    ],
  ]);
});
