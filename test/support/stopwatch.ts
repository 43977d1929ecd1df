const TICK_MS = 20;

/** Time that work takes, in milliseconds. The ticks that count it come late on a busy machine, as everything else there does. */
export async function timeOf(work: () => Promise<unknown>): Promise<number> {
  let ticks = 0;
  const timer = setInterval(() => {
    ticks += 1;
  }, TICK_MS);
  await work().finally(() => clearInterval(timer));
  return ticks * TICK_MS;
}
