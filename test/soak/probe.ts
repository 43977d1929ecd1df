/**
 * Loaded into a process by `--import`: answers what it holds and how its event loop is delayed on the socket
 * `PID.sock` in the folder SOAK_PROBES. The program itself knows nothing of it.
 */
import { createServer } from 'node:http';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';

/** What a process says of itself. */
export interface ProbeResponse {
  /** Memory that is held for good: heap and buffers after a full collection, MB. */
  readonly heldMegabytes: number;
  /** Delay of the event loop since the last question, milliseconds: mean and 99th percentile. */
  readonly delayMean: number;
  readonly delayP99: number;
}

const folder = process.env.SOAK_PROBES;
if (folder !== undefined && isMainThread) {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const server = createServer((_request, response) => {
    const answer = { delayMean: delay.mean / 1e6, delayP99: delay.percentile(99) / 1e6 };
    collect();
    const { heapUsed, external } = process.memoryUsage();
    // The pause of the collection is the probe's, not the program's.
    delay.reset();
    response.end(JSON.stringify({ ...answer, heldMegabytes: (heapUsed + external) / 1024 ** 2 }));
  });
  server.listen(join(folder, `${process.pid}.sock`));
  server.unref();
}
