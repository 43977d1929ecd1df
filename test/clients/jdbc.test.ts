/**
 * The JDBC driver's own tests, which start real Trino servers, with the addresses of two replicas of the gateway in front of them.
 * The classes that speak to a server are run, with the driver as it is published. Each test must have the outcome that it has at
 * the servers themselves.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { installDistribution, missingTools, run } from '../engine/distribution.ts';
import type { Front } from '../engine/front.ts';
import { common, shortRun } from '../engine/javaOptions.ts';
import { requireComponent } from '../support/components.ts';
import { hasPostgresql } from '../support/postgresql.ts';
import { installJdbcSuite, type JdbcSuite } from './installation.ts';
import { expectOutcomes, isDirect, type Outcomes, readJunitReports } from './outcomes.ts';
import { type Replicas, startReplicas } from './replicas.ts';

const CLASSES = [
  'TrinoDatabaseMetaData',
  'JdbcConnection',
  'JdbcPreparedStatement',
  'JdbcResultSet',
  'JdbcStatement',
  'JdbcWarnings',
  'TracingTrinoDriver',
  // Those of TrinoDriverUsingDataSource are the same: the driver makes the connection in another way, and speaks alike.
  'TrinoDriver',
  'TrinoDriverAuth',
  'TrinoDriverImpersonateUser',
];
/** Seven tests of minutes, which count the calls that metadata costs a connector: a matter of the server alone. */
const EXCLUDED = ['.*MetadataCalls.*'];
/** The tests are compiled against classes that have other names in the driver as it is published. */
const RELOCATED = 'names classes of the driver that are relocated in its jar';
const ROLES = `compares values of such classes: ${RELOCATED}`;
const NOT_PASSED: Readonly<Record<string, string>> = {
  'TestJdbcConnection testConcurrentCancellationOnConnectionClose()': 'is disabled',
  'TestJdbcConnection testRoleIsPropagatedEvenWhenAuthorizationIsReset()': RELOCATED,
  'TestJdbcConnection testAllRole()': ROLES,
  'TestJdbcConnection testRole()': ROLES,
  'TestJdbcConnection testNoneRole()': ROLES,
  'TestJdbcPreparedStatement testGetClientTypeSignatureFromTypeString()': RELOCATED,
  'TestJdbcWarnings testStatementWarnings()': RELOCATED,
  'TestJdbcWarnings testExecuteQueryWarnings()': RELOCATED,
  'TestJdbcWarnings testSqlWarning()': RELOCATED,
  'TestTrinoDriver testSetRole()': ROLES,
  'TestTrinoDriver testSetRoleAfterSetSessionAuthorization()': ROLES,
  'TestTrinoDriver testCustomDnsResolver()': RELOCATED,
};
/** Guards against what hangs: on two processors, with the engine suite beside it, the tests have taken nine minutes. */
const RUN_MILLIS = 900_000;
const PASSWORD = 'changeit';

const missing = await missingTools();
const hasTools = requireComponent('a tool of the clients suite', missing.length === 0, `install ${missing.join(', ')}`);

describe.skipIf(!hasTools || !hasPostgresql())("the JDBC driver's tests", () => {
  let java: string;
  let plugins: string;
  let suite: JdbcSuite;
  let folder: string;
  let replicas: Replicas;
  let control: Server;
  /** One a server that is spoken to over HTTP. */
  const fronts: Front[] = [];

  beforeAll(async () => {
    const engine = await installDistribution();
    java = engine.java;
    plugins = join(engine.server, 'plugin');
    suite = await installJdbcSuite();
    folder = await mkdtemp(join(tmpdir(), 'jdbc-tests-'));
    const keytool = join(dirname(java), 'keytool');
    const store = join(suite.tests, 'localhost.keystore');
    const [own, clusters] = [join(folder, 'own.p12'), join(folder, 'clusters.pem')];
    const passwords = ['-srcstorepass', PASSWORD, '-deststorepass', PASSWORD];
    await run(keytool, ['-importkeystore', '-srckeystore', store, '-destkeystore', own, ...passwords]);
    const ofOwn = ['-keystore', own, '-storepass', PASSWORD];
    await run(keytool, ['-exportcert', '-rfc', '-alias', 'selfsigned', '-file', clusters, ...ofOwn]);
    replicas = await startReplicas({ own, password: PASSWORD, clusters });
    control = createServer((request, response) => {
      const { searchParams } = new URL(request.url ?? '', 'http://localhost');
      const [scheme, server] = [searchParams.get('scheme'), searchParams.get('server') ?? ''];
      // The certificate names localhost.
      const address = scheme === 'https' ? server.replace(/^[^:]*/, 'localhost') : server;
      const front =
        scheme === 'https'
          ? replicas.replaceOverHttps(`https://${address}`)
          : replicas.add(`http://${address}`).then((added) => {
              fronts.push(added);
              return added.url;
            });
      front.then(
        (url) => response.end(new URL(url).host),
        (error: unknown) => response.writeHead(500).end(String(error)),
      );
    });
    await new Promise<void>((resolve) => control.listen(0, '127.0.0.1', resolve));
  }, 540_000);

  afterAll(async () => {
    control?.close();
    await replicas?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  /** @param addresses `direct`, or where the addresses of servers are asked */
  async function runTests(addresses: string): Promise<Outcomes> {
    const reports = join(folder, 'reports');
    const classPath = [
      suite.tests,
      join(suite.jars, '*'),
      ...['blackhole', 'memory', 'tpch', 'hive', 'hive/hdfs'].map((plugin) => join(plugins, plugin, '*')),
    ];
    const args = [
      ...['-Xmx1500M', ...shortRun, ...common],
      ...['-Djdk.attach.allowAttachSelf=true', '--add-modules=jdk.incubator.vector'],
      // The tests count on a time zone with a gap; servers take system properties for configuration.
      ...['-Duser.timezone=America/Bahia_Banderas', '-Dhttp-server.process-forwarded=true'],
      ...['--enable-native-access=ALL-UNNAMED', '-cp', classPath.join(delimiter)],
      ...[join(import.meta.dirname, 'jdbc/RunTests.java'), addresses, 'execute', `--reports-dir=${reports}`],
      ...['--details=none', '--disable-banner', ...CLASSES.map((each) => `--select-class=io.trino.jdbc.Test${each}`)],
      ...EXCLUDED.map((method) => `--exclude-methodname=${method}`),
    ];
    // Ends with an exit code of its own where a test fails, which the reports show better.
    const ended = await run(java, args, { timeout: RUN_MILLIS, maxBuffer: 256 * 1024 * 1024, cwd: folder }).then(
      () => '',
      (error: { readonly killed?: boolean }) => {
        if (error.killed === true) throw new Error(`the tests took over ${RUN_MILLIS} ms`);
        return String(error).slice(-4000);
      },
    );
    return await readJunitReports(reports).catch(() => {
      throw new Error(`no reports: ${ended}`);
    });
  }

  test('have the same outcomes through the gateway', { timeout: RUN_MILLIS + 60_000 }, async () => {
    const { port } = control.address() as AddressInfo;
    const outcomes = await runTests(isDirect ? 'direct' : `http://127.0.0.1:${port}/`);
    expectOutcomes(outcomes, { passed: 158, notPassed: NOT_PASSED });
    if (isDirect) return;
    // Both replicas had their share.
    const shares = [0, 1].map((replica) => fronts.reduce((sum, { counts }) => sum + (counts[replica] ?? 0), 0));
    expect(Math.min(...shares), 'requests of a replica').toBeGreaterThan(1000);
  });
});
