import { rename, writeFile } from 'node:fs/promises';
import { stringify } from 'yaml';
import type { ClusterState } from '../../src/api/clusters.ts';
import type { KnexStore } from '../../src/store/openStore.ts';
import { startServer, until } from './gateway.ts';
import { manifest } from './manifest.ts';
import { cancel, follow, type QueryResults, runQuery, submit } from './statementClient.ts';

/** Routing group of the load. */
export const MIXED = 'mixed';
/** Cluster of the load. */
export const MIXED_CLUSTER = 'mixed-1';

/** Queries of the load by how they end. */
export const mixedLoad = {
  finished: 70,
  userErrors: 8,
  failed: 5,
  lost: 4,
  cancelled: 4,
  refused: 9,
  running: 5,
} as const;

/** A row of `eg_query_outcomes`. */
export type OutcomeRow = Readonly<Record<string, string | number | null>>;

const errors: ReadonlyMap<string, object> = new Map([
  ['USER_ERROR', { errorName: 'SYNTAX_ERROR', errorType: 'USER_ERROR', errorCode: 1 }],
  ['INTERNAL_ERROR', { errorName: 'GENERIC_INTERNAL_ERROR', errorType: 'INTERNAL_ERROR', errorCode: 65_536 }],
]);

/** Starts a cluster that ends each query as its statement says: `FINISH`, `USER_ERROR`, `INTERNAL_ERROR`, `LOSE`, or `RUN`. */
export async function startMixedCluster(): Promise<{ readonly url: string; close(): Promise<void> }> {
  const statements = new Map<string, string>();
  return await startServer((request, response) => {
    const base = `http://${request.headers['x-forwarded-host']}:${request.headers['x-forwarded-port']}`;
    const answer = (id: string, more: object) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ id, infoUri: `${base}/ui/query.html?${id}`, ...more }));
    };
    const goesOn = (id: string) => ({
      nextUri: `${base}/v1/statement/executing/${id}/x/1`,
      stats: { state: 'RUNNING' },
    });
    if (request.url === '/v1/info') answer('', { starting: false });
    else if (request.method === 'DELETE') response.writeHead(204).end();
    else if (request.method === 'POST') {
      let statement = '';
      request.setEncoding('utf8').on('data', (chunk: string) => {
        statement += chunk;
      });
      request.on('end', () => {
        const id = `20261121_000000_${String(statements.size).padStart(5, '0')}_mixed`;
        statements.set(id, statement);
        answer(id, goesOn(id));
      });
    } else {
      const id = request.url?.split('/')[4] ?? '';
      const statement = statements.get(id) ?? 'LOSE';
      if (statement === 'LOSE') response.writeHead(404).end();
      else if (statement === 'RUN') answer(id, goesOn(id));
      else {
        const error = errors.get(statement);
        const stats = { elapsedTimeMillis: 100 * statements.size, queuedTimeMillis: 7 };
        const state = error === undefined ? 'FINISHED' : 'FAILED';
        answer(id, {
          stats: { state, ...stats },
          ...(error === undefined ? {} : { error: { ...error, message: `${statement} as asked` } }),
        });
      }
    }
  });
}

/** A gateway that gets the load. */
export interface LoadedGateway {
  readonly url: string;
  readonly store: KnexStore;
  /** Address of the cluster. */
  readonly cluster: string;
  /** File of manifests that the load writes. */
  readonly manifests: string;
}

/** Declares the cluster, its group, and a rule that keeps queries there, and waits until the gateway has them. */
async function declare({ url, cluster, manifests }: LoadedGateway, active: boolean): Promise<void> {
  const resource = (kind: string, name: string, spec: object) => stringify(manifest(kind, name, spec));
  const resources = [
    resource('EngineCluster', MIXED_CLUSTER, { proxyTo: cluster, routingGroup: MIXED, active }),
    resource('RoutingGroup', MIXED, { maxRunningQueries: 100 }),
    resource('RoutingRule', MIXED, {
      condition: 'request.getHeader("X-Engine-Source") == "cron" || request.getHeader("X-Engine-Source") == "notebook"',
      routeTo: { routingGroup: MIXED },
      onUnavailable: 'reject',
    }),
  ];
  await writeFile(`${manifests}.new`, resources.join('---\n'));
  await rename(`${manifests}.new`, manifests);
  const isDeclared = async () => {
    const response = await fetch(`${url}/api/clusters/${MIXED_CLUSTER}`);
    const state = response.ok ? ((await response.json()) as ClusterState) : null;
    return state?.active === active && (!active || state.status === 'HEALTHY');
  };
  await until(isDeclared, `the cluster to be ${active ? 'active' : 'inactive'}`);
}

/** Sends the load to a gateway, and waits until the history has all of it. @returns the rows of the outcomes of the group */
export async function runMixedLoad(gateway: LoadedGateway): Promise<readonly OutcomeRow[]> {
  const { url, store } = gateway;
  const options = (index: number) => ({
    user: index % 3 === 0 ? 'ann' : 'ben',
    headers: { 'X-Engine-Source': index % 2 === 0 ? 'cron' : 'notebook' },
  });
  const repeat = async (count: number, work: (index: number) => Promise<unknown>) => {
    for (let index = 0; index < count; index += 1) await work(index);
  };
  const begin = (index: number, statement: string): Promise<QueryResults> => submit(url, statement, options(index));
  await declare(gateway, true);
  await repeat(mixedLoad.lost, async (index) => {
    const { nextUri = '' } = await begin(index, 'LOSE');
    await follow(nextUri).catch(() => {});
  });
  await repeat(mixedLoad.finished, (index) => runQuery(url, 'FINISH', options(index)));
  await repeat(mixedLoad.userErrors, (index) => runQuery(url, 'USER_ERROR', options(index)));
  await repeat(mixedLoad.failed, (index) => runQuery(url, 'INTERNAL_ERROR', options(index)));
  await repeat(mixedLoad.cancelled, async (index) => cancel((await begin(index, 'RUN')).nextUri ?? '', options(index)));
  await repeat(mixedLoad.running, (index) => begin(index, 'RUN'));
  await declare(gateway, false);
  await repeat(mixedLoad.refused, (index) => begin(index, 'FINISH'));
  const read = (): Promise<OutcomeRow[]> => store.database.knex('eg_query_outcomes').where('routing_group', MIXED);
  const isOver = ({ state }: OutcomeRow) => state !== 'RUNNING';
  const { running, ...ended } = mixedLoad;
  const total = Object.values(ended).reduce((sum, count) => sum + count, 0);
  // A query counts as lost 30 s after its cluster did not know it.
  await until(
    async () => {
      const rows = await read();
      return rows.length === total + running && rows.filter(isOver).length === total;
    },
    'the outcomes of the load',
    60_000,
  );
  return await read();
}
