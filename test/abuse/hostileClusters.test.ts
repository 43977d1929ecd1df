import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { residentMegabytes } from '../../bench/proxy/processTimes.ts';
import { type SimulatedEngine, startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { manifest } from '../support/manifest.ts';

/** What a hostile cluster may add to a replica's memory. */
const MAX_GROWTH_MB = 150;
const SECRET = 'Basic czNjcmV0OnMzY3JldA==';

/** A registered cluster whose author is hostile: it answers as it likes, and keeps whatever it is sent. */
class HostileCluster {
  readonly got: { readonly request: string; readonly headers: string }[] = [];
  /** The query id of its next answer to a submission. */
  nextId: () => string = () => '';
  /** The coordinator that it says it is; left out where it does not say. */
  coordinatorId: string | undefined;
  readonly #server: Server = createServer((request, response) => {
    request.resume();
    const { method = '', url = '', rawHeaders } = request;
    this.got.push({ request: `${method} ${url}`, headers: rawHeaders.join('\n') });
    response.setHeader('content-type', 'application/json');
    if (url === '/v1/info') {
      response.end(JSON.stringify({ starting: false, coordinatorId: this.coordinatorId }));
      return;
    }
    const id = method === 'POST' ? this.nextId() : 'stolen';
    response.end(
      JSON.stringify({ id, infoUri: '', stats: { state: 'FINISHED' }, data: [['from the hostile cluster']] }),
    );
  });

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Requests other than submissions and the question which coordinator it is. */
  get stolen(): readonly string[] {
    return this.got
      .map(({ request }) => request)
      .filter((line) => !/^POST \/v1\/statement$|^GET \/v1\/info$/.test(line));
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

interface Page {
  readonly id: string;
  readonly nextUri?: string;
  readonly error?: { readonly message: string };
}

let folder: string;
let honest: SimulatedEngine;
let hostile: HostileCluster;
/** A cluster that does not say which coordinator it is, as older engines. */
let quiet: HostileCluster;
let replicas: readonly GatewayProcess[];

const cluster = (name: string, proxyTo: string) => manifest('EngineCluster', name, { proxyTo, routingGroup: name });
const replica = () =>
  startGateway({
    resources: { source: 'directory', directory: folder },
    dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
    queryHistory: { spillDirectory: join(folder, 'spill') },
    monitor: { taskDelay: '1s' },
  });

async function ask(url: string, group: string, init: RequestInit = {}): Promise<Page> {
  const headers = { 'X-Engine-User': 'alice', 'X-Engine-Routing-Group': group, Authorization: SECRET };
  const response = await fetch(url, { ...init, headers, signal: AbortSignal.timeout(30_000) });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`HTTP ${response.status}: ${text}`);
  return JSON.parse(text) as Page;
}
const submit = ({ url }: GatewayProcess, group: string) =>
  ask(`${url}/v1/statement`, group, { method: 'POST', body: 'SELECT 1' });
const errorOf = async (at: GatewayProcess) => (await submit(at, 'hostile')).error?.message ?? '';

/** A client of the honest cluster, which runs one query after the other, each request at the next replica. */
class HonestClient {
  served = 0;
  readonly ids: string[] = [];
  #stopped = false;
  readonly #work = this.#run();

  /** Ends it. @throws when one of its queries failed */
  async stop(): Promise<number> {
    this.#stopped = true;
    await this.#work;
    return this.served;
  }

  async #run(): Promise<void> {
    for (let turn = 0; !this.#stopped; ) {
      let page = await submit(replicas[turn++ % 2]!, 'honest');
      this.ids.push(page.id);
      while (page.nextUri !== undefined) {
        const { pathname } = new URL(page.nextUri);
        page = await ask(`${replicas[turn++ % 2]!.url}${pathname}`, 'honest');
      }
      if (page.error !== undefined || page.id === 'stolen') throw new Error(JSON.stringify(page));
      this.served++;
    }
  }
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hostile-'));
  honest = await startSimulatedEngine({ name: 'honest', suffix: 'honst' });
  hostile = await new HostileCluster().start();
  quiet = await new HostileCluster().start();
  await writeFile(join(folder, 'honest.yaml'), stringify(cluster('honest', honest.url)));
  await writeFile(join(folder, 'hostile.yaml'), stringify(cluster('hostile', hostile.url)));
  await writeFile(join(folder, 'quiet.yaml'), stringify(cluster('quiet', quiet.url)));
  replicas = [await replica(), await replica()];
});
afterAll(async () => {
  await Promise.all((replicas ?? []).map((one) => one.stop()));
  await honest?.close();
  hostile?.close();
  quiet?.close();
  await rm(folder, { recursive: true, force: true });
});

test('a query that nobody knows: a cluster that claims it gets neither credentials nor the path', async () => {
  // The coordinator of the quiet cluster, which does not say so.
  hostile.coordinatorId = 'quiet';
  let count = 0;
  for (const at of replicas) {
    for (let each = 0; each < 20; each++) {
      const path = `/v1/statement/executing/20260101_000000_${String(++count).padStart(5, '0')}_quiet/ysecret/1`;
      expect((await ask(`${at.url}${path}`, 'honest')).error?.message).toContain('is not known to any cluster');
    }
  }
  // Health checks ask the same, without a query.
  for (const { request, headers } of hostile.got) {
    expect(request).toBe('GET /v1/info');
    expect(headers).not.toMatch(/czNj|ysecret|alice|_quiet/);
  }
  const metrics = await (await fetch(`${replicas[0]!.url}/metrics`)).text();
  expect(metrics).toContain('engine_gateway_query_lookups_total{source="unknown"} 20');
});

const attacks: [name: string, begin: (victims: readonly string[]) => void, refused: string][] = [
  [
    'answers with the suffix of another cluster',
    () => {
      let count = 0;
      hostile.nextId = () => `20260101_000000_${String(++count).padStart(5, '0')}_honst`;
    },
    'which belongs to another cluster',
  ],
  [
    'answers with the ids of running queries of another cluster',
    (victims) => {
      hostile.nextId = () => victims.at(-1) ?? '20260101_000000_00000_honst';
    },
    'which belongs to another cluster',
  ],
  [
    'gives out a new suffix with every answer',
    () => {
      let count = 0;
      hostile.nextId = () => `20260101_000000_00001_${(++count).toString(36).padStart(5, '0')}`;
    },
    'more than a cluster may have',
  ],
];

let client: HonestClient;
let memory: number;
beforeEach(async () => {
  hostile.got.length = 0;
  for (const at of replicas) {
    await vi.waitFor(async () => expect((await submit(at, 'honest')).error).toBeUndefined(), { timeout: 30_000 });
  }
  memory = Math.max(...replicas.map(({ pid }) => residentMegabytes(pid)));
  client = new HonestClient();
});
afterEach(async () => {
  expect(await client.stop()).toBeGreaterThan(0);
  expect([hostile.stolen, quiet.stolen]).toEqual([[], []]);
  expect(Math.max(...replicas.map(({ pid }) => residentMegabytes(pid))) - memory).toBeLessThan(MAX_GROWTH_MB);
});

test.each(attacks)('a cluster that %s gets nothing, and others are served meanwhile', async (_name, begin, refused) => {
  begin(client.ids);
  await vi.waitFor(() => expect(client.served).toBeGreaterThan(0), { timeout: 30_000 });
  let refusals = 0;
  for (let each = 0; each < 300; each++) {
    for (const at of replicas) if ((await errorOf(at)).includes(refused)) refusals++;
  }
  expect(refusals).toBeGreaterThan(0);
  const servedBefore = client.served;
  await vi.waitFor(() => expect(client.served).toBeGreaterThan(servedBefore), { timeout: 30_000 });
  for (const { url, log } of replicas) {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).toMatch(/engine_gateway_ownership_conflicts_total\{cluster="hostile",owner="(honest)?"\} \d+/);
    expect(log.some(({ msg }) => String(msg).startsWith('cluster "hostile" responded with'))).toBe(true);
  }
});
