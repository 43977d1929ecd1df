import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseDocument } from 'yaml';
import { type QueryReplayReport, type ReplayState, reportHead } from '../api/replays.ts';
import { QUERY_REPLAY } from '../kinds/queryReplay/spec.ts';
import { isRecord } from '../model/record.ts';
import { junitReport, markdownReport } from '../replay/replayReport.ts';
import { type CliIo, type CommandLine, command, exitCodes, fail } from './io.ts';
import { connect, connection, durationOption } from './plugin.ts';

const POLL_MS = 2_000;
const DEFAULT_TIMEOUT = '4h';

/** `replay`: has a gateway replay recorded queries on two clusters, and waits for the verdicts. */
export const replayCommand = command({
  name: 'replay',
  description: 'replay recorded queries on two clusters',
  options: [
    ['-f, --file <file>', 'manifest of a QueryReplay'],
    ['--plan', 'select queries and print their expected cost; send nothing'],
    ['--junit <file>', 'write a report as JUnit XML'],
    ['--markdown <file>', 'write a report as Markdown; it is printed otherwise'],
    ['--timeout <duration>', 'longest wait', DEFAULT_TIMEOUT],
    ...connection,
  ],
  required: '-f, --file <file>',
  // As of diff: 2 in trouble.
  failed: exitCodes.usage,
  run,
});

async function run(options: CommandLine, io: CliIo): Promise<number> {
  const { file = '', timeout = DEFAULT_TIMEOUT, plan = false, junit, markdown } = options;
  const limit = durationOption('timeout', timeout, io);
  const { name, namespace = options.namespace ?? 'default', spec } = await readManifest(file, io);
  const call = await connect(options, io);
  const path = `/api/replays/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  await call('PUT', path, plan ? { ...spec, suspend: true } : spec);
  const until = performance.now() + limit;
  for (let last = ''; ; await sleep(POLL_MS)) {
    const { inForce, message, progress } = await call<ReplayState>('GET', path);
    if (!inForce) fail(io, `error: ${message}`);
    const { state = 'pending', selected, replayed, message: reason = '' } = progress ?? {};
    const cost = `${selected?.queries ?? 0} queries with ${Math.round((selected?.cpuMillis ?? 0) / 1000)} s of CPU time`;
    if (plan && state === 'held') {
      io.stdout.write(`a replay sends ${cost} to each cluster\n`);
      return exitCodes.success;
    }
    if (state === 'done' || state === 'failed') break;
    const line = `${state}: ${state === 'running' ? `${replayed?.queries} of ${cost}` : reason}\n`;
    if (performance.now() > until) fail(io, `error: the replay did not end within ${timeout}: ${line}`);
    if (line !== last) io.stderr.write(line);
    last = line;
  }
  const { digests, replay } = await call<QueryReplayReport>('GET', `${path}/report`);
  const head = reportHead(replay);
  if (junit !== undefined) await writeFile(junit, junitReport(head, digests));
  if (markdown === undefined) io.stdout.write(markdownReport(head, digests));
  else await writeFile(markdown, markdownReport(head, digests));
  return head.verified === true ? exitCodes.success : exitCodes.failure;
}

async function readManifest(file: string, io: CliIo) {
  const text = await readFile(file, 'utf8').catch((error: Error) => fail(io, `error: --file: ${error.message}`));
  const { kind, metadata, spec }: Readonly<Record<string, unknown>> = parseDocument(text).toJS() ?? {};
  const { name, namespace } = isRecord(metadata) ? metadata : {};
  if (kind !== QUERY_REPLAY || typeof name !== 'string' || !isRecord(spec)) {
    fail(io, `error: ${file} is no manifest of a ${QUERY_REPLAY} with metadata.name and spec`);
  }
  return { name, namespace: typeof namespace === 'string' ? namespace : undefined, spec };
}
