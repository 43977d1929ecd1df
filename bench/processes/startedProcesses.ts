import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** What was started ends by itself within this, or is killed. */
const END_MS = 10_000;
const LOOK_MS = 100;

/** Parents of all processes of the machine by their ids. */
function parents(): ReadonlyMap<number, number> {
  const all = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      // The program's name, in parentheses, may hold anything; state and parent follow it.
      const [state, parent] = readFileSync(`/proc/${name}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ');
      if (state !== 'Z') all.set(Number(name), Number(parent));
    } catch {
      // It ended meanwhile.
    }
  }
  return all;
}

/** Ids of the processes that this one started, and of those that they did. */
function started(): readonly number[] {
  const all = parents();
  const isStarted = (id: number | undefined): boolean =>
    id !== undefined && id > 1 && (id === process.pid || isStarted(all.get(id)));
  return [...all.keys()].filter((id) => id !== process.pid && isStarted(id));
}

function signal(ids: readonly number[], name: NodeJS.Signals): void {
  for (const id of ids) {
    try {
      process.kill(id, name);
    } catch {
      // It ended meanwhile.
    }
  }
}

/**
 * Ends all processes that this one started: by SIGTERM, and by SIGKILL those that are there ten seconds later.
 * @param work what goes on in this process, which fails without them, and then tidies up; it has the same time
 */
export async function endStarted(work: Promise<unknown>): Promise<void> {
  let isOver = false;
  void work.then(
    () => {
      isOver = true;
    },
    () => {
      isOver = true;
    },
  );
  const deadline = performance.now() + END_MS;
  const ended = new Set<number>();
  for (let left = started(); left.length > 0 || !isOver; left = started()) {
    if (performance.now() > deadline) break;
    // Each once: a second signal would keep some from ending in order. The work may have started others since.
    signal(
      left.filter((id) => !ended.has(id)),
      'SIGTERM',
    );
    for (const id of left) ended.add(id);
    await sleep(LOOK_MS);
  }
  signal(started(), 'SIGKILL');
}
