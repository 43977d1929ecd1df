/**
 * Loaded into a gateway by `--import`: measures for how long its event loop is blocked, and answers on the socket
 * `PID.sock` in the folder LOOP_PROBES. The program itself knows nothing of it.
 *
 * It counts the CPU time of the main thread between two turns of the event loop, not the wall-clock time: how long the
 * thread waits for a CPU says something of the machine, not of the gateway.
 */
import { createServer } from 'node:http';
import { join } from 'node:path';
import { isMainThread } from 'node:worker_threads';

/** What the probe measured since it was last asked. */
export interface LoopFigures {
  /** Longest CPU time between two turns of the event loop, milliseconds. */
  readonly cpuMs: number;
  /** Longest time between two turns by the clock, milliseconds; includes what other processes took. */
  readonly wallMs: number;
}

/** Time between two looks while nothing happens; of each turn that takes longer, the whole is measured. */
const INTERVAL_MS = 1;

const folder = process.env.LOOP_PROBES;
if (folder !== undefined && isMainThread) {
  let cpuMs = 0;
  let wallMs = 0;
  let cpuBefore = threadMilliseconds();
  let wallBefore = performance.now();
  const look = () => {
    const cpu = threadMilliseconds();
    const wall = performance.now();
    cpuMs = Math.max(cpuMs, cpu - cpuBefore);
    wallMs = Math.max(wallMs, wall - wallBefore);
    cpuBefore = cpu;
    wallBefore = wall;
  };
  setInterval(look, INTERVAL_MS).unref();
  const server = createServer((_request, response) => {
    look();
    response.end(JSON.stringify({ cpuMs, wallMs } satisfies LoopFigures));
    cpuMs = 0;
    wallMs = 0;
  });
  server.listen(join(folder, `${process.pid}.sock`));
  server.unref();
}

function threadMilliseconds(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
