import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import {
  type DeclaredGroups,
  type GroupsOutcome,
  isGroupsOutcome,
} from '../../kinds/resourceGroupConfiguration/groupsProgram.ts';
import {
  databaseState,
  type GroupDrift,
  type GroupTargetState,
  type GroupTargets,
} from '../../kinds/resourceGroupConfiguration/groupsStatus.ts';
import { RESOURCE_GROUP_CONFIGURATION } from '../../kinds/resourceGroupConfiguration/spec.ts';
import { GatewayError } from '../../model/errors.ts';
import { type GroupTarget, noRows } from '../../model/groupsFile/declaredGroups.ts';
import { keyText, type ResourceKey } from '../../model/resource.ts';
import {
  type GroupOwner,
  type GroupOwnerRepository,
  type GroupPlace,
  PERIOD_ROOT,
} from '../../store/declaredGroups.ts';
import { isDatabaseAway } from '../../store/failures.ts';
import type { SchemaStores } from '../../store/resourceGroupStore.ts';
import type { Fence } from '../../store/store.ts';
import { SerialWork } from './serialWork.ts';

/** Time between two comparisons of the tables with the resources, in milliseconds. */
const COMPARE_INTERVAL_MS = 60_000;
/** Time for which tables are left to a replica that wrote a later version: the source shows it within seconds. */
const BEHIND_MS = 60_000;
/** Differences of a drift that are kept in words, and their longest text. */
const MAX_DIFFERENCES = 10;
const MAX_DIFFERENCE = 300;

/** Thrown if leadership was lost during a write. */
class Fenced extends Error {}

/**
 * Writes the resource groups that resources declare into the tables that engines read (docs/resource-groups.md#as-a-resource).
 * A root group is noted as owned before its rows are written, so that it can be removed whenever the process ends in between.
 */
export class GroupApplier {
  readonly #stores: SchemaStores | null;
  readonly #owners: GroupOwnerRepository;
  readonly #outcomes: () => ReadonlyMap<string, ResourceOutcome>;
  readonly #logger: Logger;
  readonly #intervalMs: number;
  readonly #states = new Map<string, readonly GroupTargetState[]>();
  /** Work in progress, by database. */
  readonly #work = new SerialWork();
  /** Monotonic time at which a resource was found to have a later version at another replica. */
  readonly #behindSince = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #onDue: (key: ResourceKey) => void = () => undefined;
  #look: Promise<void> = Promise.resolve();
  readonly targets: GroupTargets = { of: (key) => this.#states.get(keyText(key)) ?? null };

  /** @param stores null: switched off by `resourceGroups.enabled` */
  constructor(
    stores: SchemaStores | null,
    owners: GroupOwnerRepository,
    outcomes: () => ReadonlyMap<string, ResourceOutcome>,
    logger: Logger,
    intervalMs = COMPARE_INTERVAL_MS,
  ) {
    this.#stores = stores;
    this.#owners = owners;
    this.#outcomes = outcomes;
    this.#logger = logger;
    this.#intervalMs = intervalMs;
  }

  start(onDue: (key: ResourceKey) => void): void {
    this.#onDue = onDue;
    this.#timer = setInterval(() => this.look(), this.#intervalMs);
    this.look();
  }

  look(): void {
    this.#look = this.#look.then(async () => {
      for (const { key } of this.#outcomes().values().filter(isGroupsOutcome)) this.#onDue(key);
      // Resources that were deleted. The next look asks again.
      for (const owner of await this.#owners.all().catch(() => [])) this.#onDue(keyOf(owner));
    });
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#onDue = () => undefined;
    await this.#look;
    await this.#work.settled();
  }

  /** @param fence null for a REST write, which leader and followers apply */
  async apply(outcome: ResourceOutcome, fence: Fence | null): Promise<void> {
    if (isGroupsOutcome(outcome) && outcome.declared !== null) await this.#sync(outcome.key, outcome, fence);
  }

  async remove(key: ResourceKey, fence: Fence): Promise<void> {
    if (key.kind !== RESOURCE_GROUP_CONFIGURATION) return;
    await this.#sync(key, null, fence);
    this.#states.delete(keyText(key));
    this.#behindSince.delete(keyText(key));
  }

  /** Works on each place that a resource declares, and removes what it owns elsewhere. @param outcome null: it was deleted */
  async #sync(key: ResourceKey, outcome: GroupsOutcome | null, fence: Fence | null): Promise<void> {
    const { namespace, name } = key;
    const { databases = [], environment: declared = '' } = outcome?.declared ?? {};
    // If owners cannot be read, each declared place fails by that.
    const owners = await this.#owners.all().catch((error: unknown) => {
      if (outcome === null) throw error;
      return [];
    });
    const all = [...databases.map((database) => ({ database, environment: declared })), ...owners.filter(isOf(key))];
    const places = all.map(({ database, environment }): GroupPlace => ({ namespace, name, database, environment }));
    const errors: unknown[] = [];
    const states = await Promise.all(
      new Map(places.map((place) => [JSON.stringify(place), place])).values().map(async (place, index) => {
        try {
          const wanted = index < databases.length ? outcome : null;
          return await this.#work.run(place.database ?? '', () => this.#syncPlace(place, wanted, fence));
        } catch (error) {
          const before = this.#databaseState(place);
          const { reason, message } = failureOf(error);
          // Failures that a change of the resource or of the database ends are tried at each comparison.
          if (isUnexpected(error)) errors.push(error);
          else if (before.failure !== message) {
            const { database, environment } = place;
            const fields = { resource: keyText(key), database, environment, reason, message };
            this.#logger.warn(fields, 'failed to apply resource groups');
          }
          return { ...before, reason, failure: message };
        }
      }),
    );
    if (errors.some((error) => error instanceof Fenced)) return;
    this.#states.set(
      keyText(key),
      states.filter((state) => state !== null),
    );
    if (errors.length > 0) throw errors[0];
  }

  #databaseState({ database, environment, ...resource }: GroupPlace): GroupTargetState {
    const place = { ...(database === null ? {} : { name: database }), environment };
    const states = this.targets.of(keyOf(resource)) ?? [];
    return databaseState(states, database, environment) ?? { ...place, groups: 0, selectors: 0 };
  }

  /** Brings a place in step. @param outcome null: the resource has nothing there any more */
  async #syncPlace(
    place: GroupPlace,
    outcome: GroupsOutcome | null,
    fence: Fence | null,
  ): Promise<GroupTargetState | null> {
    const { database, environment } = place;
    const owners = (await this.#owners.all()).filter((owner) => owner.database === database);
    const isOwn = (owner: GroupOwner) => isOf(place)(owner) && owner.environment === environment;
    const own = owners.filter(isOwn);
    if (outcome?.declared == null && own.length === 0) return null;
    const { rows, roots: groups, prune, onDrift } = outcome?.declared ?? nothingDeclared;
    const { uid, generation } = outcome?.resource.metadata ?? own[0] ?? { uid: '', generation: 0 };
    const { drift, failure: _failure, reason: _reason, ...before } = this.#databaseState(place);
    // A REST write, which has no fence, knows the latest version.
    if (outcome !== null && fence !== null && this.#isBehind(outcome, own)) return this.#databaseState(place);
    const roots = new Set([...groups, ...(rows.cpuQuotaPeriod === null ? [] : [PERIOD_ROOT])]);
    const others = owners.filter((owner) => !isOwn(owner));
    const target = { rows, prune, ...this.#ownership(place, own, others, roots) };
    const state = (now: GroupDrift | undefined): GroupTargetState => ({
      ...{ ...before, appliedGeneration: generation, groups: rows.groups.length, selectors: rows.selectors.length },
      ...(now === undefined ? {} : { drift: now }),
    });
    const differences = outcome === null ? null : await this.#use(database, ({ declared }) => declared.compare(target));
    const isSame = differences?.length === 0;
    const isCurrent =
      own.length === roots.size &&
      own.every((each) => roots.has(each.root) && each.isApplied && each.uid === uid && each.generation === generation);
    if (isCurrent && differences !== null) {
      const isRepaired = onDrift === 'repair';
      if (!isSame && isRepaired) await this.#use(database, ({ declared }) => declared.apply(target));
      return state(driftAfter(drift, differences, isRepaired));
    }
    const owned = { uid, generation, roots: new Set([...roots, ...own.map(({ root }) => root)]), isApplied: false };
    await this.#set(place, owned, fence);
    try {
      if (!isSame) await this.#use(database, ({ declared }) => declared.apply(target));
    } catch (error) {
      if (outcome !== null || isUnexpected(error)) throw error;
      // Nothing is left of them if the database or its tables are gone, or may not be used any more.
      this.#logger.warn({ database, environment, err: error }, 'failed to remove resource groups of deleted resource');
    }
    await this.#set(place, { uid, generation, roots, isApplied: true }, fence);
    if (outcome === null) return null;
    // A new version puts right what was only reported, unless it declares it.
    if (drift === undefined || drift.repaired || isSame) return state(undefined);
    return state({ ...drift, at: isoSeconds(), repaired: true });
  }

  #ownership(
    { namespace, name, database, environment }: GroupPlace,
    own: readonly GroupOwner[],
    others: readonly GroupOwner[],
    roots: ReadonlySet<string>,
  ): Omit<GroupTarget, 'rows' | 'prune'> {
    const ofPlace = others.filter((owner) => owner.environment === environment).map(({ root }) => root);
    // Resources that own nothing yet are about to.
    const declared = [...this.#outcomes().values()].filter(isGroupsOutcome).flatMap(({ key, declared: each }) => {
      if (each?.environment !== environment || isOf(key)({ namespace, name })) return [];
      return each.databases.includes(database) ? [...each.roots] : [];
    });
    const isPeriodShared = others.some(({ root }) => root === PERIOD_ROOT);
    return {
      environment,
      ownedRoots: new Set([...own.map(({ root }) => root), ...ofPlace.filter((root) => roots.has(root))]),
      othersRoots: new Set([...ofPlace, ...declared].filter((root) => !roots.has(root))),
      isPeriodOwned: own.some(({ root }) => root === PERIOD_ROOT) && !isPeriodShared,
    };
  }

  /** True while another replica wrote a later version. Never for long: generations of files may differ between replicas. */
  #isBehind({ key, resource: { metadata } }: GroupsOutcome, own: readonly GroupOwner[]): boolean {
    const text = keyText(key);
    if (own.every(({ uid, generation }) => uid !== metadata.uid || generation <= metadata.generation)) {
      this.#behindSince.delete(text);
      return false;
    }
    const since = this.#behindSince.get(text) ?? performance.now();
    this.#behindSince.set(text, since);
    return performance.now() - since < BEHIND_MS;
  }

  #use: SchemaStores['use'] = (database, work) => {
    if (this.#stores !== null) return this.#stores.use(database, work);
    throw new GatewayError('EG_IMPOSSIBLE', "resourceGroups.enabled is false in the gateway's configuration");
  };

  async #set(place: GroupPlace, owned: Parameters<GroupOwnerRepository['set']>[1], fence: Fence | null): Promise<void> {
    if ((await this.#owners.set(place, owned, fence)) === 'fenced') throw new Fenced();
  }
}

const nothingDeclared: Pick<DeclaredGroups, 'rows' | 'roots' | 'prune' | 'onDrift'> = {
  ...{ rows: noRows, roots: new Set<string>(), prune: false, onDrift: 'repair' },
};

type ResourceName = Pick<GroupPlace, 'namespace' | 'name'>;

const keyOf = ({ namespace, name }: ResourceName): ResourceKey => ({
  ...{ kind: RESOURCE_GROUP_CONFIGURATION, namespace, name },
});
const isOf = (resource: ResourceName) => (other: ResourceName) =>
  other.namespace === resource.namespace && other.name === resource.name;

/** Drift of declared rows after a comparison. A repaired one stays to be read; a reported one ends with the differences. */
function driftAfter(before: GroupDrift | undefined, all: readonly string[], repaired: boolean): GroupDrift | undefined {
  if (all.length === 0) return before?.repaired === false ? undefined : before;
  const differences = all.slice(0, MAX_DIFFERENCES).map((text) => text.slice(0, MAX_DIFFERENCE));
  const drift = { at: isoSeconds(), repaired, rows: all.length, differences };
  return !repaired && isDeepStrictEqual({ ...before, at: drift.at }, drift) ? before : drift;
}

const isoSeconds = (): string => `${new Date().toISOString().slice(0, 19)}Z`;

/** True for a failure that may end by itself. */
function isUnexpected(error: unknown): boolean {
  return !(error instanceof GatewayError) || isDatabaseAway(error);
}

const reasons: Readonly<Record<string, string>> = {
  EG_CONFLICT: 'GroupInUse',
  EG_DATABASE_UNAVAILABLE: 'DatabaseUnavailable',
  EG_NOT_FOUND: 'TablesNotFound',
};

function failureOf(error: unknown): { readonly reason: string; readonly message: string } {
  // Words of a database hold values, and stay in the log.
  if (!(error instanceof GatewayError)) {
    return { reason: 'DatabaseError', message: "the database refused the rows; the gateway's log says why" };
  }
  return { reason: reasons[error.code] ?? 'NotPossible', message: error.message };
}
