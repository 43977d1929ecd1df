import { runLatencyBenchmark } from './latency/latencyBenchmark.ts';

/** `npm run bench -- latency`: what a proxy adds to each request of a client that sends one after the other. */
export async function run(): Promise<void> {
  process.exitCode = await runLatencyBenchmark(process.argv.slice(3));
}
