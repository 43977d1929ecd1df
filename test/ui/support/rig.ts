import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { stringify } from 'yaml';
import { type SimulatedEngine, startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { freePort } from '../../support/freePort.ts';
import { type GatewayProcess, startGatewayWithFile } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { sessionKeyPair } from '../../support/sessionKeyPair.ts';

/** Keys of a gateway's configuration. */
export type Configuration = Readonly<Record<string, unknown>>;

/** One more process of a rig's gateway. */
export interface Replica {
  readonly gateway: GatewayProcess;
  /** Address of its user interface, without a slash at its end. */
  readonly pages: string;
}

/** A gateway as a process of its own, before simulated engines that it knows from a directory of manifests. */
export interface Rig extends AsyncDisposable {
  /** The process that runs, or ran last. */
  readonly gateway: GatewayProcess;
  /** Address of the user interface, without a slash at its end. */
  readonly pages: string;
  readonly engines: readonly SimulatedEngine[];
  /** The directory of manifests. */
  readonly manifests: string;
  /** The rules file; there is none without rules. */
  readonly rulesFile: string;
  /** File of the SQLite database. */
  readonly database: string;
  /** Writes keys into the configuration file, and starts the gateway with them; they stay for later calls. */
  configure(config: Configuration): Promise<void>;
  /** Ends the process: nothing listens any more. */
  stopGateway(): Promise<void>;
  /** Starts it again, on the same address and database. */
  startGateway(): Promise<void>;
  /**
   * Starts another process beside the first, a second replica: with the configuration of now but for the port, and with the same
   * manifests and database, which must not be SQLite's. The rig ends it.
   */
  startReplica(): Promise<Replica>;
}

/** Clusters of every rig: name and routing group. */
const rigClusters = [
  ['adhoc-1', 'adhoc'],
  ['adhoc-2', 'adhoc'],
  ['etl-1', 'etl'],
] as const;

/**
 * Starts engines and a gateway.
 * @param config keys of its configuration, over the rig's own
 * @param rules text of a rules file
 * @param environment variables of the gateway's process
 */
export async function startRig(
  config: Configuration = {},
  rules: string | null = null,
  environment: Readonly<Record<string, string>> = {},
): Promise<Rig> {
  const folder = await mkdtemp(join(tmpdir(), 'ui-'));
  const [manifests, configuration] = [join(folder, 'manifests'), join(folder, 'configuration')];
  const file = join(configuration, 'gateway.yaml');
  const rulesFile = join(folder, 'rules.yaml');
  const database = join(folder, 'gateway.db');
  const parts = new AsyncDisposableStack();
  try {
    parts.defer(() => rm(folder, { recursive: true, force: true }));
    const engines = await Promise.all(rigClusters.map(([name]) => startSimulatedEngine({ name })));
    for (const engine of engines) parts.defer(() => engine.close());
    await Promise.all([mkdir(manifests), mkdir(configuration)]);
    await writeFile(join(manifests, 'clusters.yaml'), engines.map(clusterManifest).join('---\n'));
    if (rules !== null) await writeFile(rulesFile, rules);
    let configured: Configuration = {
      server: { address: '127.0.0.1' },
      serverConfig: { 'http-server.http.port': await freePort() },
      ...(rules === null ? {} : { routingRules: { rulesConfigPath: rulesFile } }),
      resources: { source: 'directory', directory: manifests },
      dataStore: { jdbcUrl: `jdbc:sqlite:${database}` },
      monitor: { taskDelay: '1s' },
    };
    const write = async (change: Configuration) => {
      configured = { ...configured, ...change };
      await writeFile(file, stringify(configured));
    };
    await write(config);
    let gateway = await startGatewayWithFile(file, environment);
    parts.defer(async () => void (await gateway.stop()));
    await untilReady(gateway.url);
    const startReplica = async (): Promise<Replica> => {
      const port = await freePort();
      const own = join(folder, `replica-${port}.yaml`);
      const serverConfig = { 'http-server.http.port': port };
      await writeFile(own, stringify({ ...configured, serverConfig }));
      const replica = await startGatewayWithFile(own, environment);
      owned.defer(async () => void (await replica.stop()));
      await untilReady(replica.url);
      return { gateway: replica, pages: pagesOf(replica) };
    };
    const startGateway = async () => {
      gateway = await startGatewayWithFile(file, environment);
      await untilReady(gateway.url);
    };
    const owned = parts.move();
    return {
      get gateway() {
        return gateway;
      },
      pages: pagesOf(gateway),
      engines,
      manifests,
      rulesFile,
      database,
      configure: async (change) => {
        await gateway.stop();
        await write(change);
        await startGateway();
      },
      stopGateway: async () => void (await gateway.stop()),
      startGateway,
      startReplica,
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  } catch (error) {
    await parts.disposeAsync();
    throw error;
  }
}

const pagesOf = ({ url }: GatewayProcess): string => `${url}/engine-gateway`;

async function untilReady(url: string): Promise<void> {
  const deadline = performance.now() + 20_000;
  for (;;) {
    const { status } = await fetch(`${url}/readyz`);
    if (status === 200) return;
    if (performance.now() > deadline) throw new Error(`the gateway is not ready: ${status}`);
    await sleep(50);
  }
}

function clusterManifest({ url }: SimulatedEngine, index: number): string {
  const [name = '', routingGroup = ''] = rigClusters[index] ?? [];
  return stringify(manifest('EngineCluster', name, { proxyTo: url, routingGroup }));
}

/** Configuration with form logins: ada has all roles, ursula only USER, nobody none. Passwords are the names. */
export function formAccess(): Configuration {
  const { privateKeyRsa, publicKeyRsa } = sessionKeyPair();
  return {
    authentication: { defaultType: 'form', form: { selfSignKeyPair: { privateKeyRsa, publicKeyRsa } } },
    authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*' },
    presetUsers: {
      ada: { password: 'ada', privileges: 'ADMIN_USER_API' },
      ursula: { password: 'ursula', privileges: 'USER' },
      nobody: { password: 'nobody', privileges: 'GUEST' },
    },
  };
}
