import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type GatewayProcess, startGateway } from '../../test/support/gatewayProcess.ts';
import type { KubeRig } from '../../test/support/kubeRig.ts';
import { loopFigures, withLoopProbe } from '../../test/support/loopFigures.ts';
import type { LoopFigures } from '../../test/support/loopProbe.ts';
import { cpuMicroseconds } from '../proxy/processTimes.ts';
import { engineOfQuery } from './engines.ts';

/** A gateway as its image runs it, on the resources of a namespace; watched from outside alone. */
export class ShippedGateway {
  readonly #process: GatewayProcess;
  readonly #folder: string;

  private constructor(process: GatewayProcess, folder: string) {
    this.#process = process;
    this.#folder = folder;
  }

  /** Starts the program in `dist/server`, which `buildShippedProgram` makes. @param dataStore of its configuration */
  static async start(rig: KubeRig, dataStore: object = { jdbcUrl: rig.jdbcUrl }): Promise<ShippedGateway> {
    const config = {
      resources: { source: 'kubernetes', kubeconfig: rig.kubeconfig },
      dataStore,
    };
    // Without a cache of compiled code: a container starts without one.
    const environment = { NODE_ENV: 'production', NODE_DISABLE_COMPILE_CACHE: '1' };
    const folder = await mkdtemp(join(tmpdir(), 'operator-bench-'));
    const options = { ...environment, ...withLoopProbe(folder) };
    return new ShippedGateway(await startGateway(config, options, { program: 'shipped', isUnderLoad: true }), folder);
  }

  /** Whether a statement with this source is answered by a cluster. */
  async routes(source: string): Promise<boolean> {
    return (await this.engineOf(source)) !== null;
  }

  /** Number of the engine that answers a statement with this source; null for none. */
  async engineOf(source: string): Promise<number | null> {
    const response = await fetch(`${this.#process.url}/v1/statement`, {
      method: 'POST',
      headers: { 'X-Engine-User': 'bench', 'X-Engine-Source': source },
      body: 'SELECT 1',
    });
    if (response.status !== 200) {
      // As text: the cluster is not usable at present, e.g. its health is not known yet.
      await response.text();
      return null;
    }
    const body = (await response.json()) as { readonly id?: string; readonly error?: unknown };
    return body.error === undefined ? engineOfQuery(body.id ?? '') : null;
  }

  /** Routing group of each cluster of the routing table. */
  async groups(): Promise<readonly string[]> {
    const response = await fetch(`${this.#process.url}/metrics?name[]=engine_gateway_cluster_active`);
    return [...(await response.text()).matchAll(/routing_group="([^"]*)"/g)].map(([, group = '']) => group);
  }

  /** Statuses written since the start. */
  async statusWrites(): Promise<number> {
    const response = await fetch(`${this.#process.url}/metrics?name[]=engine_gateway_status_writes_total`);
    return Number(/result="written"\} (\d+)/.exec(await response.text())?.[1] ?? 0);
  }

  /** For how long its event loop was held at most, since this was last asked. */
  loop(): Promise<LoopFigures> {
    return loopFigures(this.#folder, this.#process.pid);
  }

  /** Resident memory in MB: now, and the largest there was since the process began, both as the kernel counts them. */
  async memory(): Promise<{ readonly now: number; readonly most: number }> {
    const status = await readFile(`/proc/${this.#process.pid}/status`, 'utf8');
    const of = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) * 0.001024;
    return { now: of('VmRSS'), most: of('VmHWM') };
  }

  /** CPU time since it began, in seconds: a machine that is busy otherwise changes it little. */
  cpuSeconds(): number {
    return cpuMicroseconds(this.#process.pid) / 1_000_000;
  }

  async stop(): Promise<void> {
    await this.#process.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }
}
