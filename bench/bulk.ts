import { runBulkBenchmark } from './bulk/bulkBenchmark.ts';

/** `npm run bench -- bulk`: CPU a GB of large answers beside haproxy, and memory with slow readers. */
export async function run(): Promise<void> {
  process.exitCode = await runBulkBenchmark(process.argv.slice(3));
}
