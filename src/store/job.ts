import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Runs rounds of periodic work; returns the function that stops it and waits for a running round.
 * @param round returns the time until the next one, milliseconds. Must not reject
 */
export function startJob(firstDelayMs: number, round: () => Promise<number>): () => Promise<void> {
  const stop = new AbortController();
  const work = async () => {
    for (let delay = firstDelayMs; ; delay = await round()) {
      const isStopped = await sleep(delay, false, { signal: stop.signal, ref: false }).catch(() => true);
      if (isStopped) return;
    }
  };
  const end = work();
  return () => {
    stop.abort();
    return end;
  };
}
