import { type ChildProcess, spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../support/freePort.ts';
import { until } from '../support/gateway.ts';
import { follow, type QueryResults } from '../support/statementClient.ts';
import type { Distribution } from './distribution.ts';
import { archiveOf, readArchive, serverClassPath, shortRun } from './javaOptions.ts';

/** A real Trino server of one node. */
export interface TrinoServer {
  readonly name: string;
  readonly url: string;
  readonly pid: number;
  isRunning(): boolean;
  /** Ends it, at once unless another signal is given, as a machine that fails; later calls do nothing. */
  kill(signal?: NodeJS.Signals): Promise<void>;
}

const START_MILLIS = 240_000;

/** Plugins that a file of `etc` configures; those of catalogs have the connector's name. A server loads no other. */
const pluginOfFile = {
  'http-event-listener.properties': 'http-event-listener',
  'resource-groups.properties': 'resource-group-managers',
  'spooling-manager.properties': 'spooling-filesystem',
};

/**
 * Starts a server with the catalogs tpch and memory on a free port of 127.0.0.1; ready when it resolves.
 * @param files more files of its `etc` folder, by name
 * @param settings more lines of its `config.properties`
 * @param moreCatalogs properties of more catalogs, by name
 * @param archive options of the virtual machine that read or write an archive of classes
 */
export async function startTrino(
  name: string,
  { java, server }: Pick<Distribution, 'java' | 'server'>,
  files: Readonly<Record<string, string>> = {},
  settings: Readonly<Record<string, string>> = {},
  moreCatalogs: Readonly<Record<string, Readonly<Record<string, string>>>> = {},
  archive: readonly string[] = readArchive(archiveOf(server)),
): Promise<TrinoServer> {
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), `trino-${name}-`));
  const catalogs = join(folder, 'etc/catalog');
  await mkdir(catalogs, { recursive: true });
  const ownCatalogs = { tpch: { 'connector.name': 'tpch' }, memory: { 'connector.name': 'memory' } };
  const plugins = new Set<string>();
  for (const [catalog, properties] of Object.entries({ ...ownCatalogs, ...moreCatalogs })) {
    await writeFile(join(catalogs, `${catalog}.properties`), propertyLines(properties));
    plugins.add(properties['connector.name'] ?? catalog);
  }
  for (const [file, plugin] of Object.entries(pluginOfFile)) if (file in files) plugins.add(plugin);
  await mkdir(join(folder, 'plugin'));
  for (const plugin of plugins) await symlink(join(server, 'plugin', plugin), join(folder, 'plugin', plugin));
  for (const [file, text] of Object.entries(files)) await writeFile(join(folder, 'etc', file), text);
  const config = {
    coordinator: 'true',
    'node-scheduler.include-coordinator': 'true',
    'http-server.http.port': port,
    'discovery.uri': `http://127.0.0.1:${port}`,
    'http-server.process-forwarded': 'true',
    // On a busy machine a server misses its own heartbeats, and then has no node to run queries on.
    'failure-detector.enabled': 'false',
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
      ...shortRun,
      ...archive,
      '-Djdk.attach.allowAttachSelf=true',
      '--add-modules=jdk.incubator.vector',
      '-Dnode.environment=test',
      `-Dnode.id=${name}`,
      `-Dnode.data-dir=${join(folder, 'data')}`,
      `-Dplugin.dir=${join(folder, 'plugin')}`,
      '-Dconfig=etc/config.properties',
      '-Dcatalog.config-dir=etc/catalog',
      '-cp',
      serverClassPath(server),
      'io.trino.server.TrinoServer',
    ],
    { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  // A test run that is cut short takes its servers along.
  const endWithRun = () => child.kill('SIGKILL');
  process.once('exit', endWithRun);
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const isRunning = () => child.exitCode === null && child.signalCode === null;
  const kill = async (signal: NodeJS.Signals = 'SIGKILL') => {
    if (isRunning()) child.kill(signal);
    await ended;
    process.off('exit', endWithRun);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await started(child, join(folder, 'server.log'));
    await hasNode(`http://127.0.0.1:${port}`);
  } catch (error) {
    await kill();
    throw error;
  }
  return { name, url: `http://127.0.0.1:${port}`, pid: child.pid ?? 0, isRunning, kill };
}

/** Waits until a query finds a node, seconds after the server has started, or the server wants to know who asks. */
async function hasNode(url: string): Promise<void> {
  const isReady = async () => {
    const headers = { 'X-Trino-User': 'suite' };
    const body = 'SELECT nationkey, name, comment FROM tpch.tiny.nation';
    const response = await fetch(`${url}/v1/statement`, { method: 'POST', headers, body });
    if (response.status === 401 || response.status === 403) return true;
    let page = (await response.json()) as QueryResults;
    while (page.nextUri !== undefined) page = await follow(page.nextUri, { productName: 'Trino', user: 'suite' });
    return !/^No nodes available|^nodes is empty/.test(page.error?.message ?? '');
  };
  await until(isReady, 'a query to find a node', START_MILLIS);
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
