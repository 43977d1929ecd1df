import { createServer, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { KubeConfig } from '@kubernetes/client-node';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { createApi } from '../../src/api/api.ts';
import type { ApiParts, Readiness } from '../../src/api/apiContext.ts';
import {
  type AuthenticationDependencies,
  type AuthenticationSettings,
  openAuthentication,
} from '../../src/api/auth/openAuthentication.ts';
import { ClusterChanges } from '../../src/gateway/health/clusterChanges.ts';
import { systemClock } from '../../src/model/clock.ts';
import { productNames } from '../../src/model/names.ts';
import type { ClusterRegistry } from '../../src/operator/registry/clusterRegistry.ts';
import type { GroupTables } from '../../src/operator/registry/groupWrites.ts';
import type { AppliedChange } from '../../src/operator/registry/resourceWrites.ts';
import { RoutingTableHolder } from '../../src/routing/routingTable.ts';
import type { SchemaStores } from '../../src/store/resourceGroupStore.ts';
import { defaultApiBodyLimit, unlimitedBodies } from './defaults.ts';
import { openapiConformance } from './openapiConformance.ts';
import { TableRegistry } from './tableRegistry.ts';

/** A call of the API over a real connection. */
export interface Call {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

/** Its answer. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The body as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: tests compare it whole, or read a field of it
  json(): any;
}

/** The API behind a real HTTP server, over a real routing table. */
export interface ApiServer<R extends ClusterRegistry = TableRegistry> {
  readonly url: string;
  readonly table: RoutingTableHolder;
  readonly registry: R;
  readonly metrics: Registry;
  /** Lines that were logged. */
  readonly logged: readonly string[];
  /** Changes that were passed on for events. */
  readonly changes: readonly AppliedChange[];
  readiness: Readiness;
  /** Calls `path` exactly as it is written; every answer must be one that the OpenAPI document describes. */
  call(method: string, path: string, call?: Call): Promise<Answer>;
  close(): Promise<void>;
}

/** What a test chooses. */
export type ServerOptions = Partial<Omit<ApiParts, 'resourceGroups' | 'ui'>> & {
  readonly product?: string;
  readonly resourceGroups?: SchemaStores | GroupTables;
  readonly ui?: Partial<ApiParts['ui']>;
  /** Who may call; everybody where it is left out. */
  readonly access?: Partial<AuthenticationSettings>;
  readonly environment?: Readonly<Record<string, string>>;
  readonly accessDependencies?: Partial<AuthenticationDependencies>;
};

/** Starts the API over a TableRegistry. */
export function startApi(options: ServerOptions = {}): Promise<ApiServer> {
  const table = new RoutingTableHolder();
  return startApiOver({ table, registry: new TableRegistry(table) }, options);
}

/** Starts the API over a registry and the table that it keeps. */
export async function startApiOver<R extends ClusterRegistry>(
  { table, registry }: { readonly table: RoutingTableHolder; readonly registry: R },
  options: ServerOptions = {},
): Promise<ApiServer<R>> {
  const metrics = new Registry();
  const logged: string[] = [];
  const changes: AppliedChange[] = [];
  const logger = options.logger ?? pino({ level: 'trace' }, { write: (line: string) => logged.push(line) });
  const server: { readiness: Readiness } = {
    readiness: { notReadyBecause: () => null, components: async () => [] },
  };
  const readiness: Readiness = {
    notReadyBecause: () => server.readiness.notReadyBecause(),
    components: () => server.readiness.components(),
  };
  const names = productNames(options.product ?? 'Engine');
  const authentication = await openAuthentication(
    { authentication: null, authorization: null, presetUsers: {}, pagePermissions: {}, ...options.access },
    options.environment ?? {},
    {
      names,
      trustPeer: () => false,
      kubernetes: async () => ({ kubeConfig: new KubeConfig(), namespace: 'default' }),
      revocations: null,
      clock: systemClock,
      logger,
      metrics,
      ...options.accessDependencies,
    },
  );
  const { access: _, accessDependencies: __, resourceGroups, ui, ...parts } = options;
  const api = await createApi({
    ...{ authentication, registry, table, readiness, metrics, logger, names, version: '1.2.3' },
    inventory: () => [],
    inventoryStateVersion: () => 1,
    // Streams of events end at once: calls of every operation end.
    stopping: () => true,
    clusterChanges: new ClusterChanges(table, systemClock),
    ...{ replica: 'replica-1', defaultGroup: 'adhoc', bodyLimit: defaultApiBodyLimit, bodies: unlimitedBodies() },
    ...{ clock: systemClock, startedAt: 0, keptHours: 720, pages: null, queryUser: null },
    ui: { enabled: false, disablePages: [], hiddenPageCalls: 'refuse', ...ui },
    onChange: (change) => changes.push(change),
    ...{ operator: null, rules: null, store: null, auditWriter: null, publishedKeys: null, queryEvents: null },
    resourceGroups: groupTables(resourceGroups),
    buffered: () => null,
    bufferedOutcome: () => null,
    kill: async () => ({ kind: 'unknown' }),
    runningQueries: async () => ({ queries: [], complete: true }),
    waitingQueries: async () => ({ count: 0, complete: true }),
    ...parts,
  });
  const http = createServer((request, response) => api.handler(request, response));
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const { port } = http.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const documented = openapiConformance(JSON.parse((await send(url, 'GET', '/openapi.json')).text));
  return Object.assign(server, {
    url,
    table,
    registry,
    metrics,
    logged,
    changes,
    call: async (method: string, path: string, call: Call = {}) => {
      const answer = await send(url, method, path, call);
      documented(method, path, answer);
      return answer;
    },
    close: async () => {
      await api.close();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  });
}

/** Calls `path` of a server exactly as it is written. */
export function send(url: string, method: string, path: string, { headers = {}, body }: Call = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { 'Content-Length': String(Buffer.byteLength(body)) };
    const request = httpRequest(url, { method, path, headers: { ...length, ...headers } }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json: () => JSON.parse(text) });
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}

/** Tables in which no resource declares anything. */
function groupTables(stores: SchemaStores | GroupTables | undefined): GroupTables | null {
  if (stores === undefined) return null;
  if ('change' in stores) return stores;
  return {
    rows: (database) => stores.use(database, (own) => own.read()),
    list: (database, table) => stores.use(database, (own) => own.list(table)),
    change: async (database, decide) => ({
      ...(await stores.use(database, (own) => own.write(decide))),
      resource: null,
    }),
    of: async () => [],
  };
}
