import { readFile } from 'node:fs/promises';
import { type GatewayProcess, startGateway } from '../../test/support/gatewayProcess.ts';
import type { KubeRig } from '../../test/support/kubeRig.ts';
import { buildShippedProgram } from '../../test/support/shippedProgram.ts';
import { cpuMicroseconds } from '../proxy/processTimes.ts';

/** A gateway as its image runs it, on the resources of a namespace; watched from outside alone. */
export class ShippedGateway {
  readonly #process: GatewayProcess;

  private constructor(process: GatewayProcess) {
    this.#process = process;
  }

  static async start(rig: KubeRig): Promise<ShippedGateway> {
    const config = {
      resources: { source: 'kubernetes', kubeconfig: rig.kubeconfig },
      dataStore: { jdbcUrl: rig.jdbcUrl },
    };
    // Without a cache of compiled code: a container starts without one.
    const environment = { NODE_ENV: 'production', NODE_DISABLE_COMPILE_CACHE: '1' };
    await buildShippedProgram();
    return new ShippedGateway(await startGateway(config, environment, { program: 'shipped' }));
  }

  /** Whether a statement with this source is answered by a cluster. */
  async routes(source: string): Promise<boolean> {
    const response = await fetch(`${this.#process.url}/v1/statement`, {
      method: 'POST',
      headers: { 'X-Engine-User': 'bench', 'X-Engine-Source': source },
      body: 'SELECT 1',
    });
    const answer = (await response.json()) as { readonly error?: unknown };
    return response.status === 200 && answer.error === undefined;
  }

  /** Routing group of each cluster of the routing table. */
  async groups(): Promise<readonly string[]> {
    const response = await fetch(`${this.#process.url}/metrics?name[]=engine_gateway_cluster_active`);
    return [...(await response.text()).matchAll(/routing_group="([^"]*)"/g)].map(([, group = '']) => group);
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
  }
}
