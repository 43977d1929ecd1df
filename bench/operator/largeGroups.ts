import { pino } from 'pino';
import { declaredRows, type GroupTarget, noRows } from '../../src/model/groupsFile/declaredGroups.ts';
import type { KubeApi } from '../../src/operator/sources/kubernetes/kubeApi.ts';
import { type KnexStore, openStore } from '../../src/store/openStore.ts';
import type { KubeRig } from '../../test/support/kubeRig.ts';
import { hasMariadb, startMariadb } from '../../test/support/mariadb.ts';
import { hasPostgresql, startPostgresql } from '../../test/support/postgresql.ts';
import { Stopwatch, until } from './figures.ts';
import { ShippedGateway } from './shippedGateway.ts';

/** Groups of the resource: some roots, all others below these, each with a selector. */
const GROUPS = 5_000;
const ROOTS = 50;
const kind = 'ResourceGroupConfiguration';

type Settings = Readonly<Record<'jdbcUrl' | 'user' | 'password', string>>;

const families = [
  ['PostgreSQL', hasPostgresql, startPostgresql],
  ['MariaDB', hasMariadb, startMariadb],
] as const;

/** A resource with many groups, and changes of one and of all: from the apply to the rows and to the status, by database. */
export async function runLargeGroups(
  api: KubeApi,
  inNamespace: (work: (rig: KubeRig) => Promise<void>) => Promise<void>,
): Promise<void> {
  for (const [name, isInstalled, startServer] of families) {
    if (!isInstalled()) {
      console.error(`${name} is not installed`);
      process.exitCode = 1;
      continue;
    }
    const server = await startServer();
    try {
      const settings = await server.createDatabase();
      const store = await open(settings);
      await inNamespace((rig) => measure(name, rig, api, settings, store));
      await store.close();
      const other = await open(await server.createDatabase());
      await countStatements(name, other);
      await other.close();
    } finally {
      await server.dispose();
    }
  }
}

async function open(settings: Settings): Promise<KnexStore> {
  return (await openStore({ ...settings, runMigrations: true, logger: pino({ enabled: false }) })) as KnexStore;
}

/** Groups, the first ones of which may wait in another number than the others. */
function groupsFile(maxQueued: (index: number) => number) {
  const group = (index: number) => ({
    name: `g${index}`,
    softMemoryLimit: '10%',
    maxQueued: maxQueued(index),
    hardConcurrencyLimit: 10,
  });
  const below = Array.from({ length: GROUPS - ROOTS }, (_, index) => index + ROOTS);
  return {
    rootGroups: Array.from({ length: ROOTS }, (_, root) => ({
      ...group(root),
      subGroups: below.filter((index) => index % ROOTS === root).map(group),
    })),
    selectors: below.map((index) => ({ user: `user${index}`, group: `g${index % ROOTS}.g${index}` })),
  };
}
const versions = {
  all: groupsFile(() => 1),
  one: groupsFile((index) => (index === ROOTS ? 2 : 1)),
  changed: groupsFile(() => 3),
};

async function measure(
  family: string,
  rig: KubeRig,
  api: KubeApi,
  settings: Settings,
  store: KnexStore,
): Promise<void> {
  const gateway = await ShippedGateway.start(rig, settings);
  const { namespace } = rig;
  const place = { kind, namespace, name: 'groups' };
  const apply = async (spec: object): Promise<void> => {
    const metadata = { name: place.name, namespace };
    const body = { apiVersion: 'enginegateway.dev/v1beta1', kind, metadata, spec: { environment: 'bench', ...spec } };
    await api.apply(place, body, 'kubectl', true);
  };
  const isStored = (maxQueued: number, count: number): Promise<boolean> =>
    store.database.run(async (knex) => {
      const [row] = await knex('resource_groups').where({ max_queued: maxQueued }).count({ rows: '*' });
      return Number(row?.rows) === count;
    });
  const isReported = async (): Promise<boolean> => {
    const { metadata, status } = await api.get(place);
    const { databases = [] } = (status ?? {}) as { readonly databases?: readonly { appliedGeneration?: number }[] };
    return databases[0]?.appliedGeneration === metadata.generation;
  };
  const step = async (what: string, spec: object, check: () => Promise<boolean>): Promise<void> => {
    await gateway.loop();
    const before = gateway.cpuSeconds();
    const time = new Stopwatch();
    await apply(spec);
    const accepted = time.text;
    await until(check, 20);
    const stored = time.text;
    await until(isReported, 100);
    const reported = time.text;
    const { cpuMs } = await gateway.loop();
    console.log(
      `${family}, ${what}: taken by the API server ${accepted} after the apply began, in the tables after ${stored}, in the status after ${reported}; the event loop is held by ${cpuMs.toFixed(0)} ms at most, ${(gateway.cpuSeconds() - before).toFixed(1)} s of processor time of the gateway`,
    );
  };
  try {
    await step(`a resource with ${GROUPS} groups (to reach: 5 s)`, versions.all, () => isStored(1, GROUPS));
    await step('a change of one of them', versions.one, () => isStored(2, 1));
    await step('a change of all', versions.changed, () => isStored(3, GROUPS));
  } finally {
    await gateway.stop();
  }
}

/** Statements of the transactions that write the same changes, without a gateway. */
async function countStatements(family: string, store: KnexStore): Promise<void> {
  const stores = store.resourceGroups({ allowed: null, maxOpen: 1 });
  let statements = 0;
  store.database.knex.on('query', () => {
    statements += 1;
  });
  const target: Omit<GroupTarget, 'rows'> = {
    ...{ environment: 'counted', isPeriodOwned: false, prune: false },
    owners: new Map(versions.all.rootGroups.map(({ name }) => [name, 'own'])),
  };
  const counts: string[] = [];
  for (const [what, rows] of [
    ['all groups are new', declaredRows(versions.all, versions.all.selectors.length)],
    ['one is changed', declaredRows(versions.one, versions.one.selectors.length)],
    ['all are changed', declaredRows(versions.changed, versions.changed.selectors.length)],
    ['nothing differs', declaredRows(versions.changed, versions.changed.selectors.length)],
    ['all are deleted', noRows],
  ] as const) {
    const [before, time] = [statements, new Stopwatch()];
    await stores.use(null, (own) => own.declare({ ...target, rows }));
    counts.push(`${what} ${statements - before} (${(time.seconds * 1_000).toFixed(0)} ms)`);
  }
  console.log(`${family}, statements of the transaction, BEGIN and COMMIT included: ${counts.join(', ')}`);
  await stores.close();
}
