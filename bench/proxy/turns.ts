import { setTimeout as sleep } from 'node:timers/promises';

/** Long beside what a change of processes costs, short beside the moods of a shared machine. */
const TURN_MS = 30;

/**
 * Lets processes run in turns, all others stopped meanwhile, until a work is done: what slows the machine down for a
 * while slows all of them alike, and none shares the processor with another.
 */
export async function inTurns<T>(processes: readonly number[], work: () => Promise<T>): Promise<T> {
  let isDone = false;
  const turns = takeTurns(processes, () => isDone);
  try {
    return await work();
  } finally {
    isDone = true;
    await turns;
  }
}

async function takeTurns(processes: readonly number[], isDone: () => boolean): Promise<void> {
  for (const each of processes) process.kill(each, 'SIGSTOP');
  for (let turn = 0; !isDone(); turn++) {
    const running = processes[turn % processes.length] as number;
    process.kill(running, 'SIGCONT');
    await sleep(TURN_MS);
    process.kill(running, 'SIGSTOP');
  }
  for (const each of processes) process.kill(each, 'SIGCONT');
}
