import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import { type GroupsOutcome, isGroupsOutcome } from '../../kinds/resourceGroupConfiguration/groupsProgram.ts';
import type {
  GroupDrift,
  GroupTargetState,
  GroupTargets,
} from '../../kinds/resourceGroupConfiguration/groupTargets.ts';
import { RESOURCE_GROUP_CONFIGURATION } from '../../kinds/resourceGroupConfiguration/spec.ts';
import { GatewayError } from '../../model/errors.ts';
import { type GroupChanges, type GroupTarget, isUnchanged, noRows } from '../../model/groupsFile/declaredGroups.ts';
import { keyText, type ResourceKey } from '../../model/resource.ts';
import {
  type GroupOwner,
  type GroupOwnerRepository,
  type GroupPlace,
  PERIOD_ROOT,
} from '../../store/declaredGroups.ts';
import { isDatabaseAway } from '../../store/failures.ts';
import type { ResourceGroupStore, SchemaStores } from '../../store/resourceGroupStore.ts';
import type { Fence } from '../../store/store.ts';
import { SerialWork } from './serialWork.ts';

/** Time between two comparisons of the tables with the resources, in milliseconds. */
const COMPARE_INTERVAL_MS = 60_000;
/** Time for which tables are left to a replica that wrote a later version: the source shows it within seconds. */
const BEHIND_MS = 60_000;
/** Differences of a drift that are kept in words, and their longest text. */
const MAX_DIFFERENCES = 10;
const MAX_DIFFERENCE = 300;
const MAX_LISTED = 5;

/** Thrown if leadership was lost during a write. */
class Fenced extends Error {}

/** Rejects to write while groups without an owner are in the way of declared ones. @throws GatewayError EG_CONFLICT */
function requireUnblocked({ blocked }: GroupChanges): void {
  if (blocked.length === 0) return;
  const more = blocked.length > MAX_LISTED ? `, and ${blocked.length - MAX_LISTED} more` : '';
  const listed = `${blocked.slice(0, MAX_LISTED).join(', ')}${more}`;
  const message = `no resource declares ${listed}, below groups of this one: declare or delete those, or set prune; nothing is written until then`;
  throw new GatewayError('EG_CONFLICT', message);
}

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
  #timer: NodeJS.Timeout | null = null;
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
      for (const outcome of this.#outcomes().values()) if (isGroupsOutcome(outcome)) this.#onDue(outcome.key);
      try {
        const owned = new Map((await this.#owners.all()).map((owner) => [keyText(keyOf(owner)), keyOf(owner)]));
        for (const key of owned.values()) this.#onDue(key);
      } catch (error) {
        // The next look asks again.
        if (!isDatabaseAway(error)) this.#logger.warn({ err: error }, 'failed to read owners of resource groups');
      }
    });
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#onDue = () => undefined;
    await this.#look;
    await this.#work.settled();
  }

  /** @param fence null for a REST write, which leader and followers apply */
  async apply(outcome: ResourceOutcome, fence: Fence | null): Promise<void> {
    if (!isGroupsOutcome(outcome) || outcome.declared === null) return;
    const { key, declared } = outcome;
    const { namespace, name } = key;
    const { environment } = declared;
    const declaredPlaces = declared.databases.map((database) => ({ namespace, name, database, environment }));
    const errors: unknown[] = [];
    const failed = (place: GroupPlace, error: unknown): GroupTargetState => {
      if (error instanceof Fenced) throw error;
      const before = this.#stateOf(place);
      const failure = failureOf(error);
      // Failures that a change of the resource or of the database ends are tried at each comparison.
      if (!(error instanceof GatewayError) || isDatabaseAway(error)) errors.push(error);
      else if (before?.failure?.message !== failure.message) {
        const { database } = place;
        this.#logger.warn(
          { resource: keyText(key), database, environment, ...failure },
          'failed to apply resource groups',
        );
      }
      return { ...(before ?? emptyState(place)), failure };
    };
    try {
      // Where owners cannot be read, each declared place fails by that.
      const former = await this.#placesOf(key).catch(() => []);
      const isDeclared = (place: GroupPlace) => declaredPlaces.some((each) => isDeepStrictEqual(each, place));
      const all = [...declaredPlaces, ...former.filter((place) => !isDeclared(place))];
      const states = await Promise.all(
        all.map((place) =>
          this.#sync(place, isDeclared(place) ? outcome : null, fence).catch((error: unknown) => failed(place, error)),
        ),
      );
      this.#states.set(
        keyText(key),
        states.filter((state) => state !== null),
      );
    } catch (error) {
      if (error instanceof Fenced) return;
      throw error;
    }
    if (errors.length > 0) throw errors[0];
  }

  async remove(key: ResourceKey, fence: Fence): Promise<void> {
    if (key.kind !== RESOURCE_GROUP_CONFIGURATION) return;
    this.#states.delete(keyText(key));
    this.#behindSince.delete(keyText(key));
    try {
      for (const place of await this.#placesOf(key)) await this.#sync(place, null, fence);
    } catch (error) {
      if (!(error instanceof Fenced)) throw error;
    }
  }

  async #placesOf({ namespace, name }: ResourceKey): Promise<readonly GroupPlace[]> {
    const own = (await this.#owners.all()).filter((owner) => owner.namespace === namespace && owner.name === name);
    const places = own.map(({ database, environment }) => ({ namespace, name, database, environment }));
    return [...new Map(places.map((place) => [JSON.stringify(place), place])).values()];
  }

  #stateOf(place: GroupPlace): GroupTargetState | null {
    const isOf = (state: GroupTargetState) =>
      state.database === place.database && state.environment === place.environment;
    return this.#states.get(keyText(keyOf(place)))?.find(isOf) ?? null;
  }

  /** Works on one place; one after the other in a database. @param outcome null: the resource has nothing there any more */
  #sync(place: GroupPlace, outcome: GroupsOutcome | null, fence: Fence | null): Promise<GroupTargetState | null> {
    return this.#work.run(place.database ?? '', async () => {
      const owners = (await this.#owners.all()).filter(({ database }) => database === place.database);
      const isOwn = (owner: GroupOwner): boolean =>
        isOfResource(owner, place) && owner.environment === place.environment;
      const own = owners.filter(isOwn);
      const others = owners.filter((owner) => !isOwn(owner));
      if (outcome?.declared == null) {
        if (own.length > 0) await this.#removeFrom(place, own, others, fence);
        return null;
      }
      return await this.#applyTo(place, outcome, own, others, fence);
    });
  }

  async #applyTo(
    place: GroupPlace,
    outcome: GroupsOutcome,
    own: readonly GroupOwner[],
    others: readonly GroupOwner[],
    fence: Fence | null,
  ): Promise<GroupTargetState> {
    const { environment } = place;
    const { rows = noRows, roots: groups = [], prune = false, onDrift = 'repair' } = outcome.declared ?? {};
    const { uid, generation } = outcome.resource.metadata;
    const roots = new Set([...groups, ...(rows.cpuQuotaPeriod === null ? [] : [PERIOD_ROOT])]);
    const before = this.#stateOf(place);
    const state = {
      ...{ database: place.database, environment, appliedGeneration: generation, drift: null, failure: null },
      ...{ groups: rows.groups.length, selectors: rows.selectors.length },
    };
    // A REST write, which has no fence, knows the latest version.
    if (fence !== null && this.#isBehind(outcome, own)) return before ?? emptyState(place);
    const isCurrent =
      own.length === roots.size &&
      own.every((each) => roots.has(each.root) && each.isApplied && each.uid === uid && each.generation === generation);
    const target: GroupTarget = { ...{ environment, rows, prune }, ...this.#ownership(place, own, others, roots) };
    const changes = await this.#use(place.database, ({ declared }) => declared.compare(target));
    requireUnblocked(changes);
    if (isCurrent) {
      const isReported = onDrift === 'report';
      if (!isUnchanged(changes) && !isReported) await this.#write(place, target);
      return { ...state, drift: driftAfter(before?.drift ?? null, changes, isReported) };
    }
    const owned = { uid, generation };
    const union = new Set([...roots, ...own.map(({ root }) => root)]);
    await this.#set(place, { ...owned, roots: union, isApplied: false }, fence);
    if (!isUnchanged(changes)) await this.#write(place, target);
    await this.#set(place, { ...owned, roots, isApplied: true }, fence);
    // A new version puts right what was only reported, unless it declares it.
    const drift = before?.drift;
    return drift?.repaired === false && !isUnchanged(changes)
      ? { ...state, drift: { ...drift, at: isoSeconds(), repaired: true } }
      : state;
  }

  /** Removes all that a resource owns in a place. */
  async #removeFrom(place: GroupPlace, own: readonly GroupOwner[], others: readonly GroupOwner[], fence: Fence | null) {
    const { database, environment } = place;
    const [{ uid = '', generation = 0 } = {}] = own;
    const owned = own.map(({ root }) => root);
    // Only the leader may remove them.
    await this.#set(place, { roots: owned, uid, generation, isApplied: false }, fence);
    try {
      const ownership = this.#ownership(place, own, others, new Set());
      await this.#write(place, { environment, rows: noRows, prune: false, ...ownership });
    } catch (error) {
      // Nothing is left of them if the database or its tables are gone, or may not be used any more.
      if (!(error instanceof GatewayError) || isDatabaseAway(error)) throw error;
      this.#logger.warn({ database, environment, err: error }, 'failed to remove resource groups of deleted resource');
    }
    await this.#set(place, { roots: [], uid, generation, isApplied: true }, fence);
  }

  #ownership(
    place: GroupPlace,
    own: readonly GroupOwner[],
    others: readonly GroupOwner[],
    roots: ReadonlySet<string>,
  ): Pick<GroupTarget, 'ownedRoots' | 'othersRoots' | 'isPeriodOwned'> {
    const { database, environment } = place;
    const ofPlace = others.filter((owner) => owner.environment === environment).map(({ root }) => root);
    // Resources that own nothing yet are about to.
    const declared = [...this.#outcomes().values()].flatMap((outcome) => {
      if (!isGroupsOutcome(outcome) || isOfResource(outcome.key, place) || outcome.declared === null) return [];
      const { declared: each } = outcome;
      return each.databases.includes(database) && each.environment === environment ? [...each.roots] : [];
    });
    const transferred = ofPlace.filter((root) => roots.has(root));
    const isPeriodShared = others.some(({ root }) => root === PERIOD_ROOT);
    return {
      ownedRoots: new Set([...own.map(({ root }) => root), ...transferred]),
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

  #use<T>(database: string | null, work: (store: ResourceGroupStore) => Promise<T>): Promise<T> {
    if (this.#stores !== null) return this.#stores.use(database, work);
    throw new GatewayError('EG_IMPOSSIBLE', "resourceGroups.enabled is false in the gateway's configuration");
  }

  async #write(place: GroupPlace, target: GroupTarget): Promise<void> {
    requireUnblocked(await this.#use(place.database, ({ declared }) => declared.apply(target)));
  }

  async #set(place: GroupPlace, owned: Parameters<GroupOwnerRepository['set']>[1], fence: Fence | null): Promise<void> {
    if ((await this.#owners.set(place, owned, fence)) === 'fenced') throw new Fenced();
  }
}

const keyOf = ({ namespace, name }: GroupPlace): ResourceKey => ({
  kind: RESOURCE_GROUP_CONFIGURATION,
  namespace,
  name,
});

function isOfResource(a: Pick<GroupPlace, 'namespace' | 'name'>, b: Pick<GroupPlace, 'namespace' | 'name'>): boolean {
  return a.namespace === b.namespace && a.name === b.name;
}

function emptyState({ database, environment }: GroupPlace): GroupTargetState {
  return { database, environment, groups: 0, selectors: 0, drift: null, appliedGeneration: null, failure: null };
}

/** Drift of declared rows after a comparison. A repaired one stays to be read; a reported one ends with the differences. */
function driftAfter(before: GroupDrift | null, changes: GroupChanges, isReported: boolean): GroupDrift | null {
  if (isUnchanged(changes)) return before?.repaired === false ? null : before;
  const count = changes.differences.length;
  const differences = changes.differences.slice(0, MAX_DIFFERENCES).map((text) => text.slice(0, MAX_DIFFERENCE));
  const isSame = before?.count === count && isDeepStrictEqual(before.differences, differences);
  if (isReported && before?.repaired === false && isSame) return before;
  return { at: isoSeconds(), repaired: !isReported, count, differences };
}

const isoSeconds = (): string => `${new Date().toISOString().slice(0, 19)}Z`;

const reasons: Readonly<Record<string, string>> = {
  EG_CONFLICT: 'GroupInUse',
  EG_DATABASE_UNAVAILABLE: 'DatabaseUnavailable',
  EG_NOT_FOUND: 'TablesNotFound',
};

function failureOf(error: unknown): NonNullable<GroupTargetState['failure']> {
  // Words of a database hold values, and stay in the log.
  if (!(error instanceof GatewayError)) {
    return { reason: 'DatabaseError', message: "the database refused the rows; the gateway's log says why" };
  }
  return { reason: reasons[error.code] ?? 'NotPossible', message: error.message };
}
