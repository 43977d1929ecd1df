import { totalmem } from 'node:os';

/** The request memory is this share of the memory that the process may take. */
const SHARE = 4;
const LEAST = 32 * 1024 ** 2;
const MOST = 1024 ** 3;
/** As many times the largest submission that is held is the least: the memory that one takes is up to 6 times its size. */
const LARGEST_SUBMISSIONS = 8;
/** Least size up to which submissions are held, bytes. */
const LEAST_SUBMISSION = 1024 ** 2;

/**
 * Bytes for request bodies where `server.requestMemory` is not set: a quarter of the memory limit of the process (its
 * control group, else the machine's memory), within 32 MB and 1 GB, and at least 8 times the largest submission that is held.
 * @param maxAnalyzedBody `requestAnalyzerConfig.maxBodySize`
 * @param memoryLimit bytes that the process may take
 */
export function defaultRequestMemory(maxAnalyzedBody: number, memoryLimit: number = processMemoryLimit()): number {
  const share = Math.min(Math.max(Math.floor(memoryLimit / SHARE), LEAST), MOST);
  return Math.max(share, leastRequestMemory(maxAnalyzedBody));
}

/** The least value of `server.requestMemory`: below it the largest submissions would never be taken. */
export function leastRequestMemory(maxAnalyzedBody: number): number {
  return LARGEST_SUBMISSIONS * Math.max(maxAnalyzedBody, LEAST_SUBMISSION);
}

function processMemoryLimit(): number {
  // 0, or more than there is, where no limit is set.
  const constrained = process.constrainedMemory();
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
}
