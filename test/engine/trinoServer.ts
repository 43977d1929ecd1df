import { type ChildProcess, spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../support/serverProcess.ts';
import type { Distribution } from './distribution.ts';

/** A real Trino server of one node. */
export interface TrinoServer {
  readonly name: string;
  readonly url: string;
  /** Ends it at once, as a machine that fails; later calls do nothing. */
  kill(): Promise<void>;
}

const START_MILLIS = 240_000;

/** Options of the virtual machine for a server of few queries: it starts with half of the processor time. */
const shortRun = ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];

/** Options of the virtual machine for a server of many or large queries. */
export const longRun = ['-XX:+UseG1GC'];

/**
 * Starts a server with the catalogs tpch and memory on a free port of 127.0.0.1; ready when it resolves.
 * @param files more files of its `etc` folder, by name
 * @param settings more lines of its `config.properties`
 * @param moreCatalogs properties of more catalogs, by name
 * @param virtualMachine options of the virtual machine: those of a server of few queries, or `longRun`
 */
export async function startTrino(
  name: string,
  { java, server }: Pick<Distribution, 'java' | 'server'>,
  files: Readonly<Record<string, string>> = {},
  settings: Readonly<Record<string, string>> = {},
  moreCatalogs: Readonly<Record<string, Readonly<Record<string, string>>>> = {},
  virtualMachine: readonly string[] = shortRun,
): Promise<TrinoServer> {
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), `trino-${name}-`));
  const catalogs = join(folder, 'etc/catalog');
  await mkdir(catalogs, { recursive: true });
  const ownCatalogs = { tpch: { 'connector.name': 'tpch' }, memory: { 'connector.name': 'memory' } };
  for (const [catalog, properties] of Object.entries({ ...ownCatalogs, ...moreCatalogs })) {
    await writeFile(join(catalogs, `${catalog}.properties`), propertyLines(properties));
  }
  for (const [file, text] of Object.entries(files)) await writeFile(join(folder, 'etc', file), text);
  const config = {
    coordinator: 'true',
    'node-scheduler.include-coordinator': 'true',
    'http-server.http.port': port,
    'discovery.uri': `http://127.0.0.1:${port}`,
    'http-server.process-forwarded': 'true',
    'query.max-history': 1000,
    'query.max-memory': '400MB',
    'query.max-memory-per-node': '300MB',
    ...settings,
  };
  await writeFile(join(folder, 'etc/config.properties'), propertyLines(config));
  const child = spawn(
    java,
    [
      '-Xmx1200M',
      ...virtualMachine,
      '-Djdk.attach.allowAttachSelf=true',
      '--add-modules=jdk.incubator.vector',
      '-Dnode.environment=test',
      `-Dnode.id=${name}`,
      `-Dnode.data-dir=${join(folder, 'data')}`,
      `-Dplugin.dir=${join(server, 'plugin')}`,
      '-Dconfig=etc/config.properties',
      '-Dcatalog.config-dir=etc/catalog',
      '-cp',
      `${join(server, 'lib')}/*`,
      'io.trino.server.TrinoServer',
    ],
    { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  // A test run that is cut short takes its servers along.
  const endWithRun = () => child.kill('SIGKILL');
  process.once('exit', endWithRun);
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const kill = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await ended;
    process.off('exit', endWithRun);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await started(child, join(folder, 'server.log'));
  } catch (error) {
    await kill();
    throw error;
  }
  return { name, url: `http://127.0.0.1:${port}`, kill };
}

/** A properties file. */
function propertyLines(properties: Readonly<Record<string, string | number>>): string {
  return Object.entries(properties)
    .map(([key, value]) => `${key}=${value}\n`)
    .join('');
}

/** Waits for the line that says so; the log goes to a file. */
function started(child: ChildProcess, logFile: string): Promise<void> {
  const log = createWriteStream(logFile);
  return new Promise((resolve, reject) => {
    const fail = (reason: string) => {
      readFile(logFile, 'utf8').then(
        (text) => reject(new Error(`Trino ${reason}:\n${text.split('\n').slice(-30).join('\n')}`)),
        reject,
      );
    };
    const timer = setTimeout(() => fail(`did not start within ${START_MILLIS / 1000} s`), START_MILLIS);
    child.once('error', (error) => fail(`could not be started (${error.message})`));
    child.once('exit', (code) => fail(`ended with ${code} before it was up`));
    const watch = (chunk: Buffer) => {
      if (!log.closed) log.write(chunk);
      if (!chunk.includes('SERVER STARTED')) return;
      clearTimeout(timer);
      resolve();
    };
    child.stdout?.on('data', watch);
    child.stderr?.on('data', watch);
    child.once('close', () => {
      clearTimeout(timer);
      log.end();
    });
  });
}
