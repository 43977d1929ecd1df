import { runProxyBenchmark } from './proxy/proxyBenchmark.ts';

/** `npm run bench -- proxy`: CPU, throughput, latency and memory of the proxy beside nginx. */
export async function run(): Promise<void> {
  process.exitCode = await runProxyBenchmark(process.argv.slice(3));
}
