/** Milliseconds of processor time that the calling thread takes for something. */
export function processorTime(run: () => void): number {
  const start = process.threadCpuUsage();
  run();
  const { user, system } = process.threadCpuUsage(start);
  return (user + system) / 1000;
}

/** Work that takes about 20 ms on the machine that the limits are stated for. */
function sampleWork(): void {
  const counts = new Map<string, number>();
  for (let index = 0; index < 100_000; index += 1) {
    const key = `key-${index % 5000}`;
    counts.set(key, (counts.get(key) ?? 0) + key.charCodeAt(index % 5));
  }
  if (counts.size !== 5000) throw new Error('never');
}

const SAMPLE_MS = 20;

/** How many times slower than that machine this one is now; at least 1. Limits of processor time are multiplied by it. */
export function slowness(): number {
  sampleWork();
  return Math.max(1, Math.min(...[1, 2, 3].map(() => processorTime(sampleWork))) / SAMPLE_MS);
}
