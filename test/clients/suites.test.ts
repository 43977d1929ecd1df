/**
 * Suites of clients at one real Trino 476, through two replicas of the gateway that take turns at each request. Each test must have
 * the outcome that it has at the server itself.
 *
 * trino-go-client brings its integration tests. The packages of the Python and the JavaScript client have none: theirs are
 * of our own (`python/`, `javascript/`); for Python there are also the DB-API's tests of drivers.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { missingTools, run } from '../engine/distribution.ts';
import { requireComponent } from '../support/components.ts';
import { hasPostgresql } from '../support/postgresql.ts';
import { hasGo, installGoSuite, installPythonSuite } from './installation.ts';
import {
  type Expectation,
  expectOutcomes,
  isDirect,
  type Outcomes,
  readGoOutput,
  readJunitReports,
} from './outcomes.ts';
import { type Servers, startServers } from './servers.ts';

const RUN_MILLIS = 280_000;
const needsContainer = 'needs the HTTPS endpoint of a container that it starts';
const ownWay = 'the driver leaves the DB-API here, whatever the server';
const DBAPI = [
  'ExceptionsAsConnectionAttributes',
  'Time',
  'close',
  'description',
  'executemany',
  'fetchall',
  'fetchmany',
  'fetchone',
  'non_idempotent_close',
  'rollback',
  'setinputsizes',
  'setoutputsize_basic',
];

const missing = await missingTools();
const hasTools = requireComponent('a tool of the clients suite', missing.length === 0, `install ${missing.join(', ')}`);
const canBuildGo = requireComponent('Go', await hasGo(), 'install go 1.25 or newer');

describe.skipIf(!hasTools || !hasPostgresql())('suites of clients', () => {
  let servers: Servers;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'client-suites-'));
    servers = await startServers();
  }, 540_000);
  afterAll(async () => {
    await servers?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  /** Runs a suite through the gateway, and compares its outcomes with those of the server itself. */
  async function compare(suite: (url: string) => Promise<Outcomes>, expectation: Expectation): Promise<void> {
    const { trino, front } = servers;
    const before = [...front.counts];
    expectOutcomes(await suite(isDirect ? trino.url : front.url), expectation);
    if (isDirect) return;
    const shares = front.counts.map((count, i) => count - (before[i] ?? 0));
    expect(Math.min(...shares), 'requests of a replica').toBeGreaterThan(expectation.passed);
    expect(Math.abs((shares[0] ?? 0) - (shares[1] ?? 0))).toBeLessThanOrEqual(1);
  }

  /** Output of a program to its end, also where tests failed. */
  async function outputOf(
    program: string,
    args: readonly string[],
    cwd: string,
    env: Readonly<Record<string, string>> = {},
  ): Promise<string> {
    const options = { cwd, env: { ...process.env, ...env }, timeout: RUN_MILLIS, maxBuffer: 64 * 1024 * 1024 };
    return await run(program, args, options).then(
      ({ stdout, stderr }) => stdout + stderr,
      (error: { readonly stdout?: string; readonly stderr?: string; readonly killed?: boolean }) => {
        const output = `${error.stdout}${error.stderr}`;
        if (error.killed === true) throw new Error(`${program} took over ${RUN_MILLIS} ms:\n${output.slice(-4000)}`);
        return output;
      },
    );
  }

  test.skipIf(!canBuildGo)('trino-go-client', async () => {
    const { program, folder: tests } = await installGoSuite();
    const suite = async (url: string) => {
      const { host } = new URL(url);
      const args = ['-test.v', '-test.run', 'Integration|RoleHeader|Spooling|ClientTags|ComplexTypes'];
      const server = [`-trino_server_dsn=http://test@${host}`, '-trino_query_timeout=60s'];
      const output = await outputOf(program, [...args, ...server], tests);
      const outcomes = readGoOutput(output);
      if (outcomes.size === 0) throw new Error(`no test was run:\n${output.slice(-4000)}`);
      return outcomes;
    };
    await compare(suite, {
      passed: 143,
      notPassed: {
        TestIntegrationAccessToken: needsContainer,
        TestIntegrationTLS: needsContainer,
        TestIntegrationCancelSpooledQuery: 'sorts more than fits into the memory of the server here',
      },
    });
  });

  test('trino-python-client', async () => {
    const python = await installPythonSuite();
    const suite = async (url: string) => {
      const reports = await mkdtemp(join(folder, 'python-'));
      const args = ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', `--junit-xml=${join(reports, 'suite.xml')}`];
      const env = { TRINO_URL: url, PYTHONDONTWRITEBYTECODE: '1' };
      const output = await outputOf(python, args, join(import.meta.dirname, 'python'), env);
      return await readJunitReports(reports).catch(() => Promise.reject(new Error(output)));
    };
    await compare(suite, {
      passed: 365,
      notPassed: Object.fromEntries(DBAPI.map((name) => [`TestDbApi test_${name}`, ownWay])),
    });
  });

  test('trino-js-client', async () => {
    const suite = async (url: string) => {
      const reports = await mkdtemp(join(folder, 'javascript-'));
      const args = ['--test', '--test-reporter=junit', `--test-reporter-destination=${join(reports, 'suite.xml')}`];
      const file = join(import.meta.dirname, 'javascript/client.ts');
      const output = await outputOf(process.execPath, [...args, file], folder, { TRINO_URL: url });
      return await readJunitReports(reports).catch(() => Promise.reject(new Error(output)));
    };
    await compare(suite, { passed: 38, notPassed: {} });
  });
});
