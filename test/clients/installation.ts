/** Suites of clients, from their package registries, kept under `.cache/`. Each version has a folder of its own. */
import { existsSync } from 'node:fs';
import { mkdir, readFile, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  cache,
  hashOf,
  installPython,
  makeWorkFolder,
  moveIntoPlace,
  run,
  runMaven,
  TRINO_VERSION,
  works,
} from '../engine/distribution.ts';

/** The last version whose module has the integration tests: later ones keep them in a module of its own, without versions. */
const GO_CLIENT = 'github.com/trinodb/trino-go-client@v0.335.0';
const INSTALL_MILLIS = 10 * 60_000;
const PAUSES_MILLIS = [5_000, 20_000];

/** Runs what downloads, up to three times. */
async function again<T>(command: () => Promise<T>): Promise<T> {
  for (const pause of PAUSES_MILLIS) {
    try {
      return await command();
    } catch {
      await sleep(pause);
    }
  }
  return await command();
}

/** A built suite of Go: the program and the folder that it runs in. */
export interface GoSuite {
  readonly program: string;
  readonly folder: string;
}

export const hasGo = (): Promise<boolean> => works('go', ['version']);

/** The tests of trino-go-client, built. */
export async function installGoSuite(): Promise<GoSuite> {
  await mkdir(cache, { recursive: true });
  const options = { cwd: await realpath(cache), timeout: INSTALL_MILLIS, maxBuffer: 16 * 1024 * 1024 };
  const download = () => run('go', ['mod', 'download', '-json', GO_CLIENT], options);
  const { Dir: folder } = JSON.parse((await again(download)).stdout) as { readonly Dir: string };
  const program = join(cache, `${GO_CLIENT.replaceAll('/', '-')}.test`);
  if (!existsSync(program)) {
    const work = await makeWorkFolder('go-client');
    const built = join(work, 'suite');
    await again(() => run('go', ['test', '-c', '-o', built, './trino'], { ...options, cwd: folder }));
    await moveIntoPlace(built, program);
    await rm(work, { recursive: true });
  }
  return { program, folder: join(folder, 'trino') };
}

/** A folder of jars with the tests of the JDBC driver and what they need besides the server's plugins, and the tests' files. */
export interface JdbcSuite {
  readonly jars: string;
  /** Classes and key stores of the tests, which look for them as files. */
  readonly tests: string;
}

export async function installJdbcSuite(): Promise<JdbcSuite> {
  const pom = join(import.meta.dirname, 'jdbc/pom.xml');
  const folder = join(cache, `jdbc-tests-${TRINO_VERSION}-${hashOf(await readFile(pom, 'utf8'))}`);
  if (!existsSync(folder)) {
    const work = await makeWorkFolder('jdbc-tests');
    const jars = join(work, 'jars');
    const goal = 'org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies';
    const options = ['-B', '-ntp', '-q', '-U', '-f', pom, goal, `-DoutputDirectory=${jars}`];
    await again(() => runMaven(options, INSTALL_MILLIS));
    const tests = join(work, 'tests');
    await mkdir(tests);
    await run('python3', ['-m', 'zipfile', '-e', join(jars, `trino-jdbc-${TRINO_VERSION}-tests.jar`), tests]);
    await moveIntoPlace(work, folder);
  }
  return { jars: join(folder, 'jars'), tests: join(folder, 'tests') };
}

/** Program `python` with the client and pytest (`python/requirements.txt`). */
export async function installPythonSuite(): Promise<string> {
  const text = await readFile(join(import.meta.dirname, 'python/requirements.txt'), 'utf8');
  return await installPython(text.split('\n').filter((line) => line !== '' && !line.startsWith('#')));
}
