import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { stringify } from 'yaml';
import { type SimulatedEngine, startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { type GatewayProcess, startGateway } from '../../support/gatewayProcess.ts';
import { sessionKeyPair } from '../../support/sessionKeyPair.ts';

/** A gateway as a process of its own, before simulated engines that it knows from a directory of manifests. */
export interface Rig extends AsyncDisposable {
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
}

/** Clusters of every rig: name and routing group. */
export const rigClusters = [
  ['adhoc-1', 'adhoc'],
  ['adhoc-2', 'adhoc'],
  ['etl-1', 'etl'],
] as const;

/**
 * Starts engines and a gateway.
 * @param config keys of its configuration, over the rig's own
 * @param rules text of a rules file
 */
export async function startRig(
  config: Readonly<Record<string, unknown>> = {},
  rules: string | null = null,
): Promise<Rig> {
  const folder = await mkdtemp(join(tmpdir(), 'ui-'));
  const manifests = join(folder, 'manifests');
  const parts = new AsyncDisposableStack();
  try {
    parts.defer(() => rm(folder, { recursive: true, force: true }));
    const engines = await Promise.all(rigClusters.map(([name]) => startSimulatedEngine({ name })));
    for (const engine of engines) parts.defer(() => engine.close());
    await mkdir(manifests);
    await writeFile(join(manifests, 'clusters.yaml'), engines.map(clusterManifest).join('---\n'));
    const database = join(folder, 'gateway.db');
    const rulesFile = join(folder, 'rules.yaml');
    if (rules !== null) await writeFile(rulesFile, rules);
    const gateway = await startGateway({
      ...(rules === null ? {} : { routingRules: { rulesConfigPath: rulesFile } }),
      resources: { source: 'directory', directory: manifests },
      dataStore: { jdbcUrl: `jdbc:sqlite:${database}` },
      monitor: { taskDelay: '1s' },
      ...config,
    });
    parts.defer(async () => void (await gateway.stop()));
    await untilReady(gateway.url);
    const owned = parts.move();
    return {
      gateway,
      pages: `${gateway.url}/engine-gateway`,
      engines,
      manifests,
      rulesFile,
      database,
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  } catch (error) {
    await parts.disposeAsync();
    throw error;
  }
}

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
  return stringify({
    apiVersion: 'enginegateway.dev/v1',
    kind: 'EngineCluster',
    metadata: { name },
    spec: { proxyTo: url, routingGroup },
  });
}

/** Configuration with form logins: ada has all roles, ursula only USER, nobody none. Passwords are the names. */
export function formAccess(): Record<string, unknown> {
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
