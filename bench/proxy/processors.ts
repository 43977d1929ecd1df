import { execFileSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { folderOf } from '../../test/support/serverProcess.ts';

/** The processor of what is measured. */
const MEASURED = 0;
/** The processor of load, clusters and database. */
const OTHERS = 1;

const canDivide = process.platform === 'linux' && availableParallelism() > 1 && folderOf(['taskset'], []) !== null;

/**
 * Keeps this process, and what it starts from now on, off the processor of what is measured: they would push each
 * other's memory out of its caches, and figures of one round would differ from the next one's by a third.
 * @returns whether that can be done here
 */
export function divideProcessors(): boolean {
  if (canDivide) place(process.pid, OTHERS);
  return canDivide;
}

/** Gives a process, with all of its threads, the processor for what is measured. Does nothing where that cannot be done. */
export function measureOn(pid: number): void {
  if (canDivide) place(pid, MEASURED);
}

function place(pid: number, processor: number): void {
  execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', String(processor), String(pid)], { stdio: 'ignore' });
}
