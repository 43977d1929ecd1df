/** Makes the archives of classes that `javaOptions.ts` reads, kept under `.cache/`, where one is missing or of another JDK. */
import { existsSync } from 'node:fs';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Distribution, run, works } from './distribution.ts';
import { archiveOf, commandLine, javaProgram, readArchive, serverClassPath, writeArchive } from './javaOptions.ts';
import { startTrino } from './trinoServer.ts';

const RUN_MILLIS = 120_000;
const sql = 'SELECT nationkey, name, comment FROM tpch.tiny.nation';

/** Has a server and two clients run a query, and keeps what each of them loaded for it. */
export async function makeClassArchives(distribution: Distribution): Promise<void> {
  const { java, server, cli, programs, jdbc } = distribution;
  const written = [
    { archive: archiveOf(server), path: ['-cp', serverClassPath(server)] },
    { archive: archiveOf(cli), path: ['-cp', cli] },
    { archive: archiveOf(programs), path: ['-cp', `${jdbc}:${programs}`] },
  ];
  const isUsable = async ({ archive, path }: (typeof written)[number]) =>
    existsSync(archive) && works(java, ['-Xshare:on', ...readArchive(archive), ...path, '-version']);
  if ((await Promise.all(written.map(isUsable))).every(Boolean)) return;

  const folder = await mkdtemp(join(tmpdir(), 'class-archives-'));
  const work = (archive: string) => `${archive}.${process.pid}`;
  try {
    const options = writeArchive(work(archiveOf(server)));
    const trino = await startTrino('archive', distribution, {}, {}, {}, options);
    try {
      const queries = join(folder, 'queries.txt');
      await writeFile(queries, `run ${sql}\n`);
      const limits = { timeout: RUN_MILLIS };
      const ofCommandLine = commandLine(distribution, writeArchive(work(archiveOf(cli))));
      await run(java, [...ofCommandLine, '--server', trino.url, '--user', 'suite', '--execute', sql], limits);
      const ofPrograms = javaProgram(distribution, 'Query', writeArchive(work(archiveOf(programs))));
      await run(java, [...ofPrograms, trino.url, queries, '1'], limits);
    } finally {
      await trino.kill('SIGTERM');
    }
    // Other processes may read the ones before.
    for (const { archive } of written) await rename(work(archive), archive);
  } finally {
    for (const { archive } of written) await rm(work(archive), { force: true });
    await rm(folder, { recursive: true, force: true });
  }
}
