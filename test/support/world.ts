import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { stringify } from 'yaml';
import { type SimulatedEngine, type SimulatedEngineOptions, startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { type KnexStore, openStore } from '../../src/store/openStore.ts';
import { until } from './gateway.ts';
import { type GatewayProcess, type GatewayRun, startGateway } from './gatewayProcess.ts';
import { declare } from './queueing.ts';

type Keys = Readonly<Record<string, unknown>>;

/** A folder with the manifests of gateways, and what a test starts; all of it ends with the world. */
export class World {
  /** Where the manifests are. */
  folder = '';
  /** Gateways that run, in the order of their starts. */
  readonly gateways: GatewayProcess[] = [];
  readonly #open: { close(): unknown }[] = [];

  begin(): void {
    this.folder = mkdtempSync(join(tmpdir(), 'world-'));
  }

  path(...names: readonly string[]): string {
    return join(this.folder, ...names);
  }

  /** Creates a folder in the folder. */
  subfolder(name: string): string {
    mkdirSync(this.path(name), { recursive: true });
    return this.path(name);
  }

  /** Writes a file; an object as YAML. Returns its path. */
  file(name: string, content: string | object): string {
    writeFileSync(this.path(name), typeof content === 'string' ? content : stringify(content));
    return this.path(name);
  }

  /** Has something closed with the world, before what was given earlier. */
  closing<T extends { close(): unknown }>(one: T): T {
    this.#open.push(one);
    return one;
  }

  /** Writes resources, in place of those written before. */
  declare(...manifests: readonly object[]): Promise<void> {
    return declare(this.folder, ...manifests);
  }

  async engine(options: SimulatedEngineOptions): Promise<SimulatedEngine> {
    return this.closing(await startSimulatedEngine(options));
  }

  /** Opens the database of the folder. */
  async store(): Promise<KnexStore> {
    const jdbcUrl = `jdbc:sqlite:${this.path('gateway.db')}`;
    return this.closing(await openStore({ jdbcUrl, runMigrations: true, logger: pino({ level: 'silent' }) }));
  }

  /** Configuration of a gateway over the folder and a database in it. */
  config(more: Keys = {}): Keys {
    return {
      resources: { source: 'directory', directory: this.folder },
      dataStore: { jdbcUrl: `jdbc:sqlite:${this.path('gateway.db')}` },
      ...more,
      queryHistory: { spillDirectory: this.path('spill'), ...(more.queryHistory as object | undefined) },
    };
  }

  /** Starts a gateway. */
  async start(more: Keys = {}, environment: Readonly<Record<string, string>> = {}, how: GatewayRun = {}) {
    const gateway = await startGateway(this.config(more), environment, how);
    this.gateways.push(gateway);
    return gateway;
  }

  /** Starts a gateway and waits until it has a verdict of all its clusters. */
  async startReady(more: Keys = {}, environment: Readonly<Record<string, string>> = {}, how: GatewayRun = {}) {
    const gateway = await this.start(more, environment, how);
    await ready(gateway);
    return gateway;
  }

  /** Kills the gateways. */
  async kill(): Promise<void> {
    await Promise.all(this.gateways.splice(0).map((gateway) => gateway.stop('SIGKILL')));
  }

  async end(): Promise<void> {
    await this.kill();
    for (const one of this.#open.splice(0).reverse()) await one.close();
    if (this.folder !== '') rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Waits until a gateway is ready. */
export async function ready({ url }: { readonly url: string }): Promise<void> {
  await until(async () => (await fetch(`${url}/readyz`)).status === 200, 'readiness');
}

/** Declares a world of the file or the suite, or of each of its tests. */
export function worldOf(life: 'suite' | 'test'): World {
  const world = new World();
  (life === 'suite' ? beforeAll : beforeEach)(() => world.begin());
  (life === 'suite' ? afterAll : afterEach)(() => world.end());
  return world;
}

/** A response of the API; its JSON is null if the body has none. */
export interface Called {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests compare it whole, or read a field of it
  readonly json: any;
}

/** Calls a gateway; an object is sent as JSON. */
export async function call(
  { url }: { readonly url: string },
  method: string,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Called> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json') === true && text !== '';
  return { status: response.status, text, json: isJson ? JSON.parse(text) : null };
}

/** Authorization of a user. */
export const basic = (name: string, password: string): { readonly authorization: string } => ({
  authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`,
});

/** Registers a cluster by REST. */
export async function addCluster(
  gateway: { readonly url: string },
  name: string,
  proxyTo: string,
  routingGroup = 'adhoc',
): Promise<void> {
  const added = await call(gateway, 'POST', '/gateway/backend/modify/add', {
    ...{ name, proxyTo, active: true, routingGroup },
  });
  if (added.status !== 200) throw new Error(`${added.status}: ${added.text}`);
}
