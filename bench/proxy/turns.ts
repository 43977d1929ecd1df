import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Short beside the moods of a shared machine, and long beside what a turn begins with: reading what the process works
 * with, tens of megabytes, back into the caches.
 */
const TURN_MS = 250;

/**
 * Lets processes run in turns, all others stopped meanwhile, until a work is done: what slows the machine down for a
 * while slows all of them alike, and none shares the processor with another.
 */
export async function inTurns<T>(processes: readonly number[], work: () => Promise<T>): Promise<T> {
  let isDone = false;
  const worked = work().finally(() => {
    isDone = true;
  });
  const [result] = await Promise.all([worked, takeTurns(processes, () => isDone)]);
  return result;
}

async function takeTurns(processes: readonly number[], isDone: () => boolean): Promise<void> {
  let stopped: readonly number[] = processes;
  try {
    for (const each of processes) process.kill(each, 'SIGSTOP');
    for (let turn = 0; !isDone(); turn++) {
      const running = processes[turn % processes.length] as number;
      process.kill(running, 'SIGCONT');
      await sleep(TURN_MS);
      process.kill(running, 'SIGSTOP');
    }
  } catch (error) {
    // One has ended; the others must not stay stopped for good.
    stopped = processes.filter(isAlive);
    throw error;
  } finally {
    for (const each of stopped) process.kill(each, 'SIGCONT');
  }
}

function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}`);
}
