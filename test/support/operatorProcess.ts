/**
 * A gateway's operator as a process of its own, for tests that kill or pause it: started with the JSON of its settings,
 * it answers POST /METHOD with JSON arguments. Run by `startOperatorProcess`.
 */
import { createServer, type IncomingMessage } from 'node:http';
import { pino } from 'pino';
import { GatewayError } from '../../src/model/errors.ts';
import { keyOf } from '../../src/model/resource.ts';
import { createOperator } from '../../src/operator/operator.ts';
import { RoutingTableHolder } from '../../src/routing/routingTable.ts';
import { openStore } from '../../src/store/openStore.ts';
import { kubernetesOperatorOptions } from './kubernetesOperator.ts';

const settings = JSON.parse(process.argv[2] ?? '{}') as { jdbcUrl: string; kubeconfig: string; instance: string };
const logger = pino({ level: 'info' }, pino.destination(2));
const store = await openStore({ jdbcUrl: settings.jdbcUrl, runMigrations: true, logger });
const table = new RoutingTableHolder();
const { kubeconfig, instance } = settings;
const operator = await createOperator(
  kubernetesOperatorOptions({ kubeconfig, allNamespacesFrom: null, store, table, instance, logger }),
);

/** What became of the first write after this process was paused; null before. */
let lateWrite: string | null = null;
let pauseBefore: 'projection' | 'status' | null = null;

/** Has the process pause itself right before a write on which it has decided, and note what becomes of that write. */
function pausing<Arguments extends unknown[], Result>(
  kind: 'projection' | 'status',
  write: (...values: Arguments) => Promise<Result>,
): (...values: Arguments) => Promise<Result> {
  return async (...values) => {
    if (pauseBefore !== kind) return await write(...values);
    pauseBefore = null;
    process.kill(process.pid, 'SIGSTOP');
    try {
      const result = await write(...values);
      lateWrite = String(result);
      return result;
    } catch (error) {
      lateWrite = (error as Error).name;
      throw error;
    }
  };
}
store.resources.writeDifference = pausing('projection', store.resources.writeDifference.bind(store.resources));
operator.source.patchStatus = pausing('status', operator.source.patchStatus.bind(operator.source));

const context = { by: settings.instance, force: false };
const calls: Readonly<Record<string, (argument: never) => unknown>> = {
  state: () => ({
    leader: operator.leadership.isLeader,
    epoch: operator.leadership.fence?.epoch ?? null,
    clusters: [...table.current.clusters.keys()],
    groups: [...table.current.clusters.values()].map((cluster) => cluster.routingGroup),
    rules: operator.controller.compiledRules?.order.length ?? 0,
    memory: process.memoryUsage.rss(),
  }),
  /** Resources whose written status is about what they are now, and good. */
  ready: () =>
    [...operator.source.list('EngineCluster'), ...operator.source.list('RoutingRule')].filter((listed) => {
      const { metadata, status } = operator.source.get(keyOf(listed)) ?? listed;
      const ready = status?.conditions?.find((condition) => condition.type === 'Ready');
      return status?.observedGeneration === metadata.generation && ready?.status === 'True';
    }).length,
  pauseBefore: (kind) => {
    pauseBefore = kind;
  },
  lateWrite: () => lateWrite,
  add: (cluster) => operator.registry.add(cluster, context),
  update: (cluster) => operator.registry.update(cluster, context),
  delete: (name) => operator.registry.delete(name, context),
};

async function answer(request: IncomingMessage): Promise<unknown> {
  const body = (await Array.fromAsync(request)).join('');
  return (await calls[(request.url ?? '/').slice(1)]?.((body === '' ? undefined : JSON.parse(body)) as never)) ?? null;
}

const server = createServer((request, response) => {
  answer(request).then(
    (result) => response.end(JSON.stringify({ result })),
    (error: unknown) =>
      response.end(
        JSON.stringify({ error: error instanceof GatewayError ? error.toBody().error : { message: String(error) } }),
      ),
  );
});
// A process that is busy, or was paused, must not close connections under its callers' requests.
server.keepAliveTimeout = 0;
process.on('SIGTERM', () => {
  server.close();
  server.closeAllConnections();
  void operator.stop().then(() => store.close());
});
await operator.start();
server.listen(0, '127.0.0.1', () => {
  console.log(JSON.stringify({ port: (server.address() as { port: number }).port }));
});
