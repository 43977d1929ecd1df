/**
 * The real engine and its clients for the suite: Trino's server, command line, JDBC driver and Python client, from their
 * package registries, kept under `.cache/`.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, realpath, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';

/** Runs a program to its end. @throws with its output where it fails */
export const run = promisify(execFile);

export const TRINO_VERSION = '476';
/** Least Java that this Trino runs on. */
const JAVA_VERSION = 24;
const PYTHON_CLIENT = 'trino==0.340.0';
/** An object store for the spooled protocol: the engine spools to nothing else. */
const OBJECT_STORE = 'moto[s3,server]==5.2.5';
/** Plugins of the server that is kept: all that a suite uses, of which each server loads its own (`trinoServer.ts`). */
const plugins = [
  ...['tpch', 'memory', 'resource-group-managers', 'spooling-filesystem'],
  ...['blackhole', 'hive', 'iceberg', 'http-event-listener'],
];

/** Where everything downloaded is kept. */
export const cache = resolve(import.meta.dirname, '../../.cache');

/** Where the parts are on this machine. */
export interface Distribution {
  /** Program `java` of a JDK that runs the server. */
  readonly java: string;
  /** Folder with `lib` and `plugin`. */
  readonly server: string;
  readonly cli: string;
  readonly jdbc: string;
  /** Jar of the compiled classes of `programs/`. */
  readonly programs: string;
  /** Program `python` that has the client and the object store installed. */
  readonly python: string;
}

/** Variable of the environment with the `Distribution` that the global setup has installed: files need not look again. */
export const INSTALLED = 'TEST_DISTRIBUTION';

/** Tools that no registry has and that are missing; empty when the suite can run. */
export async function missingTools(): Promise<readonly string[]> {
  if (process.env[INSTALLED] !== undefined) return [];
  const found = await Promise.all([
    findJava().then((java) => java !== undefined),
    works('mvn', ['--version']),
    works('python3', ['-c', 'import venv, ensurepip']),
    works('tar', ['--version']),
  ]);
  return [`a JDK ${JAVA_VERSION} or newer`, 'Maven (mvn)', 'Python 3 with venv (python3-venv)', 'tar'].filter(
    (_, i) => !found[i],
  );
}

/** Whether the program can be run with these arguments. */
export function works(program: string, args: readonly string[]): Promise<boolean> {
  return run(program, args).then(
    () => true,
    () => false,
  );
}

/** A `java` that is new enough: JAVA_HOME's, the path's, or one below /usr/lib/jvm or /opt. */
export async function findJava(): Promise<string | undefined> {
  const folders = await Promise.all(
    ['/usr/lib/jvm', '/opt'].map(async (parent) => {
      const names = await readdir(parent).catch(() => []);
      return names.map((name) => join(parent, name, 'bin/java'));
    }),
  );
  const home = process.env.JAVA_HOME;
  const candidates = [...(home === undefined ? [] : [join(home, 'bin/java')]), 'java', ...folders.flat()];
  for (const candidate of candidates) {
    if (candidate.includes('/') && !existsSync(candidate)) continue;
    const text = await run(candidate, ['-version']).then(
      ({ stderr }) => stderr,
      () => '',
    );
    if (Number(/version "(\d+)/.exec(text)?.[1] ?? 0) >= JAVA_VERSION) return candidate;
  }
  return undefined;
}

/** Installs what is not in the cache yet. The first time this downloads about 850 MB. */
export async function installDistribution(): Promise<Distribution> {
  const installed = process.env[INSTALLED];
  if (installed !== undefined) return JSON.parse(installed) as Distribution;
  const java = await findJava();
  if (java === undefined) throw new Error(`no JDK ${JAVA_VERSION} or newer`);
  await mkdir(cache, { recursive: true });
  const python = installPython([PYTHON_CLIENT, OBJECT_STORE]);
  const server = await installServer();
  const cli = await jar('trino-cli', 'executable');
  const jdbc = await jar('trino-jdbc');
  const programs = await compilePrograms({ java, jdbc });
  return { java, server, cli, jdbc, programs, python: await python };
}

/** Runs Maven when no other suite does: two at once would write into the same local repository. */
export async function runMaven(args: readonly string[], timeout: number): Promise<void> {
  await mkdir(cache, { recursive: true });
  await run('flock', [join(cache, 'maven.lock'), 'mvn', ...args], { timeout });
}

/** Has Maven fetch an artifact and put it into a folder; a second time where the first one fails, as downloads do. */
export async function fetchArtifact(coordinates: string, folder: string): Promise<void> {
  const options = ['-B', '-ntp', '-q', '-Dmdep.useBaseVersion=true', `-DoutputDirectory=${folder}`];
  const fetch = (plugin: string, ...more: readonly string[]) => {
    const goal = `org.apache.maven.plugins:maven-dependency-plugin:${plugin}:copy`;
    return runMaven([...options, ...more, goal, `-Dartifact=${coordinates}`], 15 * 60_000);
  };
  // The old plugin reads the file alone: of some releases the registry has it, but not the parent of its description.
  // -U: Maven remembers what it could not find.
  await fetch('3.6.1').catch(() => fetch('2.8', '-U'));
}

/** Path of a client's jar in the cache; fetched where it is missing. */
async function jar(name: string, classifier?: string): Promise<string> {
  const suffix = classifier === undefined ? '' : `-${classifier}`;
  const fileName = `${name}-${TRINO_VERSION}${suffix}.jar`;
  const file = join(cache, fileName);
  if (existsSync(file)) return file;
  const work = await makeWorkFolder(name);
  const ending = classifier === undefined ? '' : `:${classifier}`;
  await fetchArtifact(`io.trino:${name}:${TRINO_VERSION}:jar${ending}`, work);
  await moveIntoPlace(join(work, fileName), file);
  await rm(work, { recursive: true });
  return file;
}

/** Jar with the classes of `programs/`, compiled once: that takes longer than most of their runs. */
async function compilePrograms({ java, jdbc }: Pick<Distribution, 'java' | 'jdbc'>): Promise<string> {
  const folder = join(import.meta.dirname, 'programs');
  const sources = ['Query.java', 'Transact.java'].map((name) => join(folder, name));
  const texts = await Promise.all(sources.map((source) => readFile(source, 'utf8')));
  const file = join(cache, `java-programs-${TRINO_VERSION}-${hashOf(texts.join(''))}.jar`);
  if (existsSync(file)) return file;
  const work = await makeWorkFolder('java-programs');
  const tool = (name: string) => (java === 'java' ? name : join(dirname(java), name));
  await run(tool('javac'), ['-d', join(work, 'classes'), '-cp', jdbc, ...sources]);
  await run(tool('jar'), ['--create', '--file', join(work, 'programs.jar'), '-C', join(work, 'classes'), '.']);
  await moveIntoPlace(join(work, 'programs.jar'), file);
  await rm(work, { recursive: true });
  return file;
}

/** Installs the server's `lib`, and the plugins that suites need. @returns its folder */
export async function installServer(version = TRINO_VERSION): Promise<string> {
  const folder = join(cache, `trino-server-${version}+blackhole+hive+iceberg+http-event-listener`);
  if (plugins.every((plugin) => existsSync(join(folder, 'plugin', plugin)))) return folder;
  await rm(folder, { recursive: true, force: true });
  const work = await makeWorkFolder('trino-server');
  await fetchArtifact(`io.trino:trino-server:${version}:tar.gz`, work);
  const archive = join(work, `trino-server-${version}.tar.gz`);
  // All of it first: jars of the plugins are hard links to each other.
  await run('tar', ['-xzf', archive, '-C', work]);
  const unpacked = join(work, `trino-server-${version}`);
  for (const name of await readdir(unpacked)) {
    if (name !== 'lib' && name !== 'plugin') await rm(join(unpacked, name), { recursive: true });
  }
  for (const name of await readdir(join(unpacked, 'plugin'))) {
    if (!plugins.includes(name)) await rm(join(unpacked, 'plugin', name), { recursive: true });
  }
  await moveIntoPlace(unpacked, folder);
  await rm(work, { recursive: true });
  return folder;
}

/** Installs packages into an environment of Python, unless that is done. @returns its program `python` */
export async function installPython(packages: readonly string[]): Promise<string> {
  await mkdir(cache, { recursive: true });
  // The environment keeps the path that it was created at.
  const folder = join(await realpath(cache), `python-${hashOf(packages.join('\n'))}`);
  const python = join(folder, 'bin/python');
  // Suites that run concurrently need the same environment: one installs, the others wait for the lock.
  const install = ['sh', '-euc', INSTALL_PYTHON, 'sh', folder, ...packages];
  await run('flock', [`${folder}.lock`, ...install], { timeout: 15 * 60_000 });
  return python;
}

/** Script that makes the environment in its first argument, with the packages in the others, unless it is complete. */
const INSTALL_PYTHON = `folder=$1; shift
if [ -e "$folder/complete" ] && "$folder/bin/python" --version; then exit 0; fi
rm -rf "$folder"
python3 -m venv "$folder"
timeout 10m "$folder/bin/python" -m pip install --quiet "$@"
touch "$folder/complete"`;

/** The start of a text's SHA-256, for names of files. */
export const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 12);

/** An empty folder of this process in the cache, for what is not complete yet. */
export async function makeWorkFolder(name: string): Promise<string> {
  const folder = join(cache, `${name}-${process.pid}.tmp`);
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  return folder;
}

/** Renames a finished folder to its final name; another process may have been quicker. */
export async function moveIntoPlace(from: string, to: string): Promise<void> {
  await rename(from, to).catch((error: unknown) => {
    if (!existsSync(to)) throw error;
  });
}
