import { mkdir } from 'node:fs/promises';
import { afterAll, expect, test, vi } from 'vitest';
import { mariadb, postgresql, type ServerDatabase } from '../../support/databases.ts';
import { freePort } from '../../support/freePort.ts';
import { asProcess, GatewayExit, type GatewayProcess, type GatewayRun } from '../../support/gatewayProcess.ts';
import { worldOf } from '../../support/world.ts';

// What cannot be used at the start is named in the log and in /readyz?verbose, with what to do.
const world = worldOf('suite');

let started = 0;
const start = (config: object, ...more: readonly [environment?: Readonly<Record<string, string>>, how?: GatewayRun]) =>
  world.start({ ...defaults(`${started++}`), ...config }, ...more);
const defaults = (name: string) => ({
  ...{ authentication: 'none', resources: {}, dataStore: { jdbcUrl: `jdbc:sqlite:${world.path(`${name}.db`)}` } },
  queryHistory: { spillDirectory: world.path(name) },
});
/** The line of a component in /readyz?verbose. */
const state = async ({ url }: GatewayProcess, component: string): Promise<string> =>
  (await (await fetch(`${url}/readyz?verbose`)).text()).split('\n').find((line) => line.includes(component)) ?? '';
const reasons = ({ log }: GatewayProcess, message: string) =>
  log.filter(({ msg }) => msg === message).map(({ reason }) => reason);

/** Other than `expect.poll` in tests that run concurrently. */
const until = (check: () => unknown) => vi.waitFor(check, { timeout: 30_000, interval: 50 });
const unusable = 'the database cannot be used; trying again';
const expectDatabase = async (jdbcUrl: string, account: object, cause: string): Promise<void> => {
  const running = await start({ dataStore: { jdbcUrl, ...account } });
  await until(() => expect(reasons(running, unusable)).toEqual([`The database is unavailable: ${cause}.`]));
  expect(await state(running, 'database:')).toBe(
    `[-] database: The database has not been reached since the gateway started. The database is unavailable: ${cause}.`,
  );
};

test.concurrent('a database server that does not run', async () => {
  const cause = 'connection refused; check host and port in dataStore.jdbcUrl, and that the server runs';
  await expectDatabase(`jdbc:postgresql://127.0.0.1:${await freePort()}/gateway`, { user: 'gateway' }, cause);
});

const servers: ServerDatabase[] = [];
afterAll(() => Promise.all(servers.map((server) => server.dispose())));
const create = async (family: typeof postgresql) => {
  const server = await family.start();
  servers.push(server);
  return await server.create();
};
const onPostgresql = test.skipIf(!postgresql.available()).concurrent;
const onMariadb = test.skipIf(!mariadb.available()).concurrent;

onPostgresql('a database of PostgreSQL that does not exist', async () => {
  const { jdbcUrl, ...account } = await create(postgresql);
  const cause = 'the database does not exist; create it or correct dataStore.jdbcUrl';
  await expectDatabase(`${jdbcUrl}_none`, account, cause);
});

onMariadb('a database of MariaDB that does not exist', async () => {
  const { jdbcUrl, ...account } = await create(mariadb);
  const cause =
    'the database does not exist or dataStore.user has no rights on it; create it, grant the rights or correct dataStore.jdbcUrl';
  await expectDatabase(`${jdbcUrl}_none`, account, cause);
});

onMariadb('a host of several that does not run: the next one is used', async () => {
  const { jdbcUrl, ...account } = await create(mariadb);
  const away = await freePort();
  const running = await start({ dataStore: { jdbcUrl: jdbcUrl.replace('//', `//127.0.0.1:${away},`), ...account } });
  await until(async () => expect(await state(running, 'database:')).toContain('[+]'));
  expect(running.log).toContainEqual(expect.objectContaining({ msg: 'database host unavailable', port: away }));
});

onMariadb('a wrong password', async () => {
  const { jdbcUrl, user } = await create(mariadb);
  const cause = 'it rejects the user or the password; check dataStore.user and dataStore.password';
  await expectDatabase(jdbcUrl, { user, password: 'wrong' }, cause);
});

test.concurrent('a manifests directory that does not exist, until it does', async () => {
  const directory = world.path('manifests');
  const running = await start({ resources: { source: 'directory', directory } });
  const cause = `there is no directory ${directory}: create it or correct resources.directory`;
  await until(() => expect(reasons(running, 'manifests directory unavailable')).toEqual([cause]));
  expect(await state(running, 'resource source')).toBe(`[-] resource source: directory is unavailable: ${cause}`);
  await mkdir(directory);
  await until(async () => expect(await state(running, 'resource source')).toContain('[+]'));
});

test.concurrent('no kubeconfig and no service account', async () => {
  const none = { KUBECONFIG: '', HOME: world.path('home'), KUBERNETES_SERVICE_HOST: '' };
  const running = await start({ resources: { source: 'kubernetes' } }, none, asProcess);
  const cause =
    'neither a service account nor a kubeconfig was found: run in a pod, or set resources.kubeconfig or the variable KUBECONFIG';
  await until(async () => expect(await state(running, 'resource source')).toContain(cause));
  expect(reasons(running, 'API server watch failed; retrying')).toContain(cause);
});

test.concurrent('a kubeconfig that does not exist ends the start', async () => {
  const kubeconfig = world.path('kubeconfig');
  const config = { resources: { source: 'kubernetes', kubeconfig } };
  const ended = await start(config, {}, asProcess).catch((error: unknown) => error);
  expect(ended).toBeInstanceOf(GatewayExit);
  expect((ended as GatewayExit).exitCode).toBe(1);
  expect((ended as GatewayExit).stderr).toContain(
    `resources.kubeconfig: ${kubeconfig} cannot be read: there is no such file.`,
  );
});
