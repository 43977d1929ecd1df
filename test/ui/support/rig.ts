import { stringify } from 'yaml';
import type { SimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { freePort } from '../../support/freePort.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { sessionKeyPair } from '../../support/sessionKeyPair.ts';
import { World } from '../../support/world.ts';

/** Keys of a gateway's configuration. */
export type Configuration = Readonly<Record<string, unknown>>;

/** One more process of a rig's gateway. */
export type Replica = Pick<Rig, 'gateway' | 'pages'>;

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
  const world = new World();
  world.begin();
  try {
    const engines = await Promise.all(rigClusters.map(([name]) => world.engine({ name })));
    const manifests = world.subfolder('manifests');
    world.file('manifests/clusters.yaml', engines.map(clusterManifest).join('---\n'));
    const rulesFile = world.path('rules.yaml');
    if (rules !== null) world.file('rules.yaml', rules);
    let configured: Configuration = {
      serverConfig: { 'http-server.http.port': await freePort() },
      ...(rules === null ? {} : { routingRules: { rulesConfigPath: rulesFile } }),
      resources: { source: 'directory', directory: manifests },
      monitor: { taskDelay: '1s' },
      ...config,
    };
    let gateway = await world.startReady(configured, environment);
    const startGateway = async () => {
      gateway = await world.startReady(configured, environment);
    };
    return {
      get gateway() {
        return gateway;
      },
      pages: pagesOf(gateway),
      engines,
      manifests,
      rulesFile,
      database: world.path('gateway.db'),
      configure: async (change) => {
        await gateway.stop();
        configured = { ...configured, ...change };
        await startGateway();
      },
      stopGateway: async () => void (await gateway.stop()),
      startGateway,
      startReplica: async () => {
        const serverConfig = { 'http-server.http.port': await freePort() };
        const replica = await world.startReady({ ...configured, serverConfig }, environment);
        return { gateway: replica, pages: pagesOf(replica) };
      },
      [Symbol.asyncDispose]: () => world.end(),
    };
  } catch (error) {
    await world.end();
    throw error;
  }
}

const pagesOf = ({ url }: GatewayProcess): string => `${url}/engine-gateway`;

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
