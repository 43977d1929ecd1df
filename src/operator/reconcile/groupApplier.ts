import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { Findings, ResourceOutcome } from '../../kinds/outcome.ts';
import {
  type DeclaredGroups,
  databaseState,
  type GroupDrift,
  type GroupsOutcome,
  type GroupTargetState,
  isGroupsOutcome,
} from '../../kinds/resourceGroupConfiguration/kind.ts';
import { RESOURCE_GROUP_CONFIGURATION } from '../../kinds/resourceGroupConfiguration/spec.ts';
import { GatewayError } from '../../model/errors.ts';
import { type GroupTarget, noRows } from '../../model/groupsFile/declaredGroups.ts';
import { keyText, type ResourceKey } from '../../model/resource.ts';
import { isDatabaseAway } from '../../store/failures.ts';
import {
  type GroupOwner,
  type GroupOwnerRepository,
  type GroupPlace,
  PERIOD_ROOT,
  type SchemaStores,
} from '../../store/resourceGroupStore.ts';
import type { Fence } from '../../store/store.ts';
import { SerialWork } from './workQueue.ts';

/** Time between two comparisons of the tables with the resources, in milliseconds. */
const COMPARE_INTERVAL_MS = 60_000;
/** Time for which tables are left to a replica that wrote a later version: the source shows it within seconds. */
const BEHIND_MS = 60_000;
/** Name of the work that finds what is due: no database has it. */
const SCAN = '*';
/** Differences of a drift that are kept in words, and their longest text. */
const MAX_DIFFERENCES = 10;
const MAX_DIFFERENCE = 300;

export type GroupApplier = ReturnType<typeof groupApplier>;

/**
 * Writes the resource groups that resources declare into the tables that engines read (docs/resource-groups.md#as-a-resource).
 * @param stores null: switched off by `resourceGroups.enabled`
 */
export function groupApplier(
  stores: SchemaStores | null,
  owners: GroupOwnerRepository,
  outcomes: () => ReadonlyMap<string, ResourceOutcome>,
  findings: Findings,
  logger: Logger,
  intervalMs = COMPARE_INTERVAL_MS,
) {
  /** Work in progress, by database. */
  const work = new SerialWork();
  const declaredOutcomes = () => [...outcomes().values().filter(isGroupsOutcome)];
  const places = groupPlaces(stores, owners, declaredOutcomes, logger);
  const targets = (key: ResourceKey): readonly GroupTargetState[] => findings.of(keyText(key)).targets ?? [];
  const stateOf = (place: GroupPlace): GroupTargetState =>
    databaseState(targets(keyOfGroups(place)), place.database, place.environment) ?? emptyState(place);

  /** Works on each place that a resource declares, and removes what it owns elsewhere. @param outcome null: it was deleted */
  const sync = async (key: ResourceKey, outcome: GroupsOutcome | null, fence: Fence | null): Promise<void> => {
    const { databases, environment } = outcome?.declared ?? nothingDeclared;
    // If owners cannot be read, each declared place fails by that. Deleted resources are found again later.
    const owned = await owners.all().catch(() => []);
    const declared = databases.map((database): GroupPlace => ({ ...key, database, environment }));
    const all = [...declared, ...owned.filter(isOf(key))];
    const each = new Map(all.map((place) => [JSON.stringify([place.database, place.environment]), place])).values();
    const errors: unknown[] = [];
    const after = each.map(async (place, index) => {
      const { database, environment } = place;
      const before = stateOf(place);
      const wanted = index < databases.length ? outcome : null;
      try {
        return await work.run(database ?? '', () => places.sync(place, before, wanted, fence));
      } catch (error) {
        const { reason, message, isUnexpected } = failureOf(error);
        const fields = { resource: keyText(key), database, environment, reason, message };
        // Failures that a change of the resource or of the database ends are tried at each comparison.
        if (isUnexpected) errors.push(error);
        else if (before.failure !== message) logger.warn(fields, 'failed to apply resource groups');
        return { ...before, reason, failure: message };
      }
    });
    const present = (await Promise.all(after)).filter((state) => state !== null);
    findings.note(keyText(key), { targets: present });
    if (errors.length > 0) throw errors[0];
  };

  let timer: NodeJS.Timeout | undefined;
  let onDue: (key: ResourceKey) => void = () => undefined;
  const enqueue = (): void => {
    void work.run(SCAN, async () => {
      for (const { key } of declaredOutcomes()) onDue(key);
      // Resources that were deleted. The next comparison asks again.
      for (const owner of await owners.all().catch(() => [])) onDue(keyOfGroups(owner));
    });
  };
  return {
    /** Kind of the resources that it works on. */
    kind: RESOURCE_GROUP_CONFIGURATION,
    /** States of the groups that a resource declares, by database. */
    targets,
    compare: enqueue,
    start: (listener: typeof onDue): void => {
      onDue = listener;
      timer = setInterval(enqueue, intervalMs);
      enqueue();
    },
    stop: async (): Promise<void> => {
      clearInterval(timer);
      onDue = () => undefined;
      await work.settled();
    },
    /** @param fence null for a REST write, which leader and followers apply */
    apply: async (outcome: ResourceOutcome, fence: Fence | null): Promise<void> => {
      if (isGroupsOutcome(outcome) && outcome.declared !== null) await sync(outcome.key, outcome, fence);
    },
    remove: (key: ResourceKey, fence: Fence): Promise<void> => sync(key, null, fence),
    /**
     * Tries if a database can have what a resource is to declare. Nothing is left written. One that is unavailable counts as if it could,
     * and so does another than the owner's that has failed before. Rejects as the tables do.
     */
    check: async (owner: GroupPlace, declared: DeclaredGroups, database: string | null): Promise<void> => {
      const place = { ...owner, database, environment: declared.environment };
      const hasFailed = database !== owner.database && stateOf(place).failure !== undefined;
      await work
        .run(database ?? '', () => places.check(place, declared))
        .catch((error: unknown) => {
          if (!hasFailed && !isDatabaseAway(error)) throw error;
        });
    },
  };
}

/**
 * The places of resources. A root group is noted as owned before its rows are written, so that it can be removed whenever the process
 * ends in between.
 * @param outcomes of all resources
 */
function groupPlaces(
  stores: SchemaStores | null,
  owners: GroupOwnerRepository,
  outcomes: () => readonly GroupsOutcome[],
  logger: Logger,
) {
  /** Monotonic time at which a resource was found to have a later version at another replica. */
  const behindSince = new Map<string, number>();
  /** True while another replica wrote a later version. Never for long: generations of files may differ between replicas. */
  const isBehind = ({ resource: { metadata } }: GroupsOutcome, own: readonly GroupOwner[]): boolean => {
    const { uid, generation } = metadata;
    const isLate = own.some((each) => each.uid === uid && each.generation > generation);
    if (!isLate) behindSince.delete(uid);
    return isLate && performance.now() - behindSince.getOrInsert(uid, performance.now()) < BEHIND_MS;
  };
  const use: SchemaStores['use'] = (database, work) => {
    if (stores !== null) return stores.use(database, work);
    throw new GatewayError('EG_IMPOSSIBLE', "resourceGroups.enabled is false in the gateway's configuration");
  };
  /** @param all owners of all databases */
  const targetOf = (
    place: GroupPlace,
    { rows, prune, roots }: DeclaredGroups,
    all: readonly GroupOwner[],
  ): GroupTarget => {
    const { database, environment } = place;
    // Resources that own nothing yet are about to.
    const claims = outcomes().flatMap(({ key, declared }) => {
      if (declared?.environment !== environment || isOf(key)(place)) return [];
      return declared.databases.includes(database) ? [...declared.roots].map((root) => [root, 'other'] as const) : [];
    });
    const there = all.filter((owner) => owner.database === database);
    const owned = there
      .filter((owner) => owner.environment === environment)
      .map((owner) => [owner.root, isOf(place)(owner) || roots.has(owner.root) ? 'own' : 'other'] as const);
    const periods = there.filter(({ root }) => root === PERIOD_ROOT);
    const isPeriodOwned = periods.length > 0 && periods.every(isAt(place));
    return { rows, prune, environment, owners: new Map([...claims, ...owned]), isPeriodOwned };
  };
  return {
    /** Rejects if the tables cannot have what is declared. */
    check: async (place: GroupPlace, declared: DeclaredGroups): Promise<void> => {
      const target = targetOf(place, declared, await owners.all());
      await use(place.database, (store) => store.declare(target, true));
    },
    /**
     * Brings a place in step. Returns its state: the one before if leadership was lost.
     * @param outcome null: the resource has nothing there any more
     */
    sync: async (
      place: GroupPlace,
      state: GroupTargetState,
      outcome: GroupsOutcome | null,
      fence: Fence | null,
    ): Promise<GroupTargetState | null> => {
      const all = await owners.all();
      const own = all.filter(isAt(place));
      const version = outcome?.resource.metadata ?? own[0];
      if (version === undefined) return null;
      // A REST write, which has no fence, knows the latest version.
      if (outcome !== null && fence !== null && isBehind(outcome, own)) return state;
      const { uid, generation } = version;
      const declared = outcome?.declared ?? nothingDeclared;
      const { rows, roots, whenDrifted } = declared;
      const target = targetOf(place, declared, all);
      const apply = () => use(place.database, (store) => store.declare(target));
      const differences = outcome === null ? [''] : await use(place.database, (store) => store.compare(target));
      const isSame = differences.length === 0;
      // Rows may differ as another replica wrote a later version meanwhile.
      if (!isSame && outcome !== null && fence !== null) {
        const latest = (await owners.all()).filter(isAt(place));
        if (isBehind(outcome, latest)) return state;
      }
      const stateWith = (drift: GroupDrift | undefined): GroupTargetState => ({
        ...{ ...emptyState(place), appliedGeneration: generation },
        ...{ groups: rows.groups.length, selectors: rows.selectors.length },
        ...(drift === undefined ? {} : { drift }),
      });
      const isNoted = (each: GroupOwner) =>
        roots.has(each.root) && each.isApplied && each.uid === uid && each.generation === generation;
      if (outcome !== null && own.length === roots.size && own.every(isNoted)) {
        if (!isSame && whenDrifted === 'Repair') await apply();
        return stateWith(driftAfter(state.drift, differences, whenDrifted === 'Repair'));
      }
      const note = (each: ReadonlySet<string>, isApplied: boolean) =>
        owners.set(place, { uid, generation, roots: each, isApplied }, fence);
      if (!(await note(roots.union(new Set(own.map(({ root }) => root))), false))) return state;
      try {
        if (!isSame) await apply();
      } catch (error) {
        if (outcome !== null || failureOf(error).isUnexpected) throw error;
        // Nothing is left of them if the database or its tables are gone, or may not be used any more.
        const { database, environment } = place;
        logger.warn({ database, environment, err: error }, 'failed to remove resource groups of deleted resource');
      }
      if (!(await note(roots, true))) return state;
      if (outcome === null) return null;
      // A new version puts right what was only reported, unless it declares it.
      const { drift } = state;
      const isPast = drift === undefined || drift.repaired || isSame;
      return stateWith(isPast ? undefined : { ...drift, at: isoSeconds(), repaired: true });
    },
  };
}

const declaresNothing = { databases: [], environment: '', rows: noRows, roots: new Set<string>(), prune: false };
const nothingDeclared: DeclaredGroups = { ...declaresNothing, whenDrifted: 'Repair' };

const emptyState = ({ database, environment }: GroupPlace): GroupTargetState => ({
  ...{ ...(database === null ? {} : { name: database }), environment, groups: 0, selectors: 0 },
});

type ResourceName = Pick<ResourceKey, 'namespace' | 'name'>;

/** The key of a ResourceGroupConfiguration. */
export const keyOfGroups = ({ namespace, name }: ResourceName): ResourceKey => ({
  ...{ kind: RESOURCE_GROUP_CONFIGURATION, namespace, name },
});
const isOf = (resource: ResourceName) => (other: ResourceName) =>
  other.namespace === resource.namespace && other.name === resource.name;
const isAt = (place: GroupPlace) => (other: GroupPlace) =>
  isOf(place)(other) && other.database === place.database && other.environment === place.environment;

/** Drift of declared rows after a comparison. A repaired one stays to be read; a reported one ends with the differences. */
function driftAfter(before: GroupDrift | undefined, all: readonly string[], repaired: boolean): GroupDrift | undefined {
  if (all.length === 0) return before?.repaired === false ? undefined : before;
  const differences = all.slice(0, MAX_DIFFERENCES).map((text) => text.slice(0, MAX_DIFFERENCE));
  const drift = { at: isoSeconds(), repaired, rows: all.length, differences };
  return !repaired && isDeepStrictEqual({ ...before, at: drift.at }, drift) ? before : drift;
}

const isoSeconds = (): string => `${new Date().toISOString().slice(0, 19)}Z`;

const reasons: Readonly<Record<string, string>> = {
  EG_CONFLICT: 'GroupInUse',
  EG_DATABASE_UNAVAILABLE: 'DatabaseUnavailable',
  EG_NOT_FOUND: 'TablesNotFound',
};

/** @returns `isUnexpected`: true for a failure that may end by itself */
function failureOf(error: unknown) {
  // Words of a database hold values, and stay in the log.
  const message = "the database refused the rows; the gateway's log says why";
  if (!(error instanceof GatewayError)) return { reason: 'DatabaseError', message, isUnexpected: true };
  const reason = reasons[error.code] ?? 'NotPossible';
  return { reason, message: error.message, isUnexpected: isDatabaseAway(error) };
}
