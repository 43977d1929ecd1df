import type { Logger } from 'pino';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import {
  type DeclaredGroups,
  type GroupsOutcome,
  isGroupsOutcome,
} from '../../kinds/resourceGroupConfiguration/groupsOutcome.ts';
import type { GroupTargetState, GroupTargets } from '../../kinds/resourceGroupConfiguration/groupTargets.ts';
import { RESOURCE_GROUP_CONFIGURATION } from '../../kinds/resourceGroupConfiguration/spec.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import { noRows, rootOf } from '../../model/groupsFile/declaredGroups.ts';
import { type GroupChanges, type GroupTarget, isUnchanged } from '../../model/groupsFile/groupChanges.ts';
import { keyText, type ResourceKey } from '../../model/resource.ts';
import { isDatabaseAway } from '../../store/failures.ts';
import type { SchemaStores } from '../../store/schemaStores.ts';
import type { Fence, GroupClaim, GroupClaimRepository, GroupDrift, ResourceRepository } from '../../store/store.ts';
import type { ResourceEffects } from '../reconcile/resourceEffects.ts';
import { SerialWork } from './serialWork.ts';

/** Time between two looks at the tables, in milliseconds. */
const LOOK_INTERVAL_MS = 30_000;
/** How long tables are left to a replica that knows a later version: the source shows it within seconds. */
const BEHIND_MS = 60_000;
/** Differences of a drift that are kept in words, and their longest text. */
const MAX_DIFFERENCES = 10;
const MAX_DIFFERENCE = 300;
/** Periods of changes that were interrupted one after the other. */
const MAX_PERIODS = 4;
/** Paths that a message lists. */
const MAX_LISTED = 5;

export interface GroupApplierOptions {
  /** Null: switched off by `resourceGroups.enabled`. */
  readonly stores: SchemaStores | null;
  readonly claims: GroupClaimRepository;
  /** Resources as the database has them. */
  readonly resources: Pick<ResourceRepository, 'get'>;
  /** What resources mean now, by `keyText`. */
  readonly outcomes: () => ReadonlyMap<string, ResourceOutcome>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly lookIntervalMs?: number;
}

/** Leadership was lost while something was written. */
class Fenced extends Error {}

/** Where groups go: one environment of a database. */
interface Place {
  /** Null: the gateway's own. */
  readonly database: string | null;
  readonly environment: string;
}

/** What a claim says of a resource of which nothing was applied yet. */
const nothing = { generation: 0, digest: '', groups: 0, selectors: 0 };

/** What is known before tables are written. */
interface WriteState {
  /** Whether the claim says that all of it is there. */
  readonly isCurrent: boolean;
  /** Whether what somebody else changed is only reported. */
  readonly isReported: boolean;
  readonly isSuperseded: () => Promise<boolean>;
}

/**
 * Has the tables that engines read say what resources declare (docs/resource-groups.md#as-a-resource). What a resource gets is
 * claimed before it is written, so that it can be removed whenever the process ends in between. Of one database one thing
 * at a time is done here.
 */
export class GroupApplier implements ResourceEffects {
  readonly #options: GroupApplierOptions;
  readonly #states = new Map<string, readonly GroupTargetState[]>();
  /** What is under way, by database. */
  readonly #work = new SerialWork();
  /** Resources of which the database has a later version than the one here: since when, in monotonic milliseconds. */
  readonly #behind = new Map<string, { readonly generation: number; readonly since: number }>();
  #timer: NodeJS.Timeout | null = null;
  #onDue: (key: ResourceKey) => void = () => undefined;
  #look: Promise<void> = Promise.resolve();
  readonly targets: GroupTargets;

  constructor(options: GroupApplierOptions) {
    this.#options = options;
    this.targets = { of: (key) => this.#states.get(keyText(key)) ?? null };
  }

  start(onDue: (key: ResourceKey) => void): void {
    this.#onDue = onDue;
    this.#timer = setInterval(() => this.look(), this.#options.lookIntervalMs ?? LOOK_INTERVAL_MS);
    this.look();
  }

  look(): void {
    this.#look = this.#look.then(async () => {
      for (const outcome of this.#options.outcomes().values()) if (isGroupsOutcome(outcome)) this.#onDue(outcome.key);
      try {
        for (const claim of await this.#options.claims.all()) this.#onDue(keyOfClaim(claim));
      } catch (error) {
        // The next look asks again.
        if (!isDatabaseAway(error))
          this.#options.logger.warn({ err: error }, 'claims of resource groups were not read');
      }
    });
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#onDue = () => undefined;
    await this.#look;
    await this.#work.settled();
  }

  /** @param fence null for a REST write, which leader and follower alike apply */
  async apply(outcome: ResourceOutcome, fence: Fence | null): Promise<void> {
    if (!isGroupsOutcome(outcome)) return;
    const key = keyText(outcome.key);
    const { declared } = outcome;
    let claims: readonly GroupClaim[];
    try {
      claims = (await this.#options.claims.all()).filter((claim) => isOf(claim, outcome.key));
    } catch (error) {
      const places = declared?.databases.map((database) => ({ database, environment: declared.environment })) ?? [];
      this.#states.set(
        key,
        places.map((place) => failedState(place, null, error)),
      );
      throw error;
    }
    if (declared === null) {
      this.#states.set(
        key,
        claims.map((claim) => stateOf(claim, null)),
      );
      return;
    }
    const { databases, environment } = declared;
    const isDeclared = (claim: GroupClaim) => claim.environment === environment && databases.includes(claim.database);
    const errors: unknown[] = [];
    const tried = async (place: Place, work: () => Promise<GroupTargetState | null>): Promise<GroupTargetState[]> => {
      try {
        const state = await this.#work.run(place.database ?? '', work);
        return state === null ? [] : [state];
      } catch (error) {
        if (error instanceof Fenced) throw error;
        // What only a change of the resource or of the database helps against is tried at each look.
        if (!(error instanceof GatewayError) || isDatabaseAway(error)) errors.push(error);
        const claim = claims.find((each) => each.database === place.database && each.environment === place.environment);
        const state = failedState(place, claim ?? null, error);
        if (errors.at(-1) !== error) this.#logRefused(key, state);
        return [state];
      }
    };
    try {
      const states = await Promise.all([
        ...databases.map((database) =>
          tried({ database, environment }, () => this.#applyTo(outcome, declared, database, fence)),
        ),
        ...claims
          .filter((claim) => !isDeclared(claim))
          .map((claim) => tried(claim, () => this.#removeFrom(claim, fence))),
      ]);
      this.#states.set(key, states.flat());
    } catch (error) {
      if (error instanceof Fenced) return;
      throw error;
    }
    if (errors.length > 0) throw errors[0];
  }

  async remove(key: ResourceKey, fence: Fence): Promise<void> {
    if (key.kind !== RESOURCE_GROUP_CONFIGURATION) return;
    this.#states.delete(keyText(key));
    this.#behind.delete(keyText(key));
    const claims = (await this.#options.claims.all()).filter((claim) => isOf(claim, key));
    try {
      for (const claim of claims) await this.#work.run(claim.database ?? '', () => this.#removeFrom(claim, fence));
    } catch (error) {
      if (!(error instanceof Fenced)) throw error;
    }
  }

  async #applyTo(
    outcome: GroupsOutcome,
    declared: DeclaredGroups,
    database: string | null,
    fence: Fence | null,
  ): Promise<GroupTargetState> {
    const { environment, rows, roots, digest } = declared;
    const { namespace, name, uid, generation } = outcome.resource.metadata;
    const all = (await this.#options.claims.all()).filter((claim) => claim.database === database);
    const isOwn = (claim: GroupClaim) => claim.namespace === namespace && claim.name === name;
    const own = all.find((claim) => isOwn(claim) && claim.environment === environment) ?? null;
    const others = all.filter((claim) => !isOwn(claim));
    const paths = rows.groups.map(({ path }) => path);
    const wanted = new Set(paths);
    const former = (own?.paths ?? []).filter((path) => !wanted.has(path));
    const isCurrent = own?.isApplied === true && own.digest === digest && own.uid === uid && former.length === 0;
    const present: GroupClaim = {
      ...{ namespace, name, uid, database, environment, generation, digest, paths, isApplied: true, drift: null },
      ...{ period: rows.cpuQuotaPeriod, groups: rows.groups.length, selectors: rows.selectors.length },
    };
    // A REST write, which has no fence, knows the latest version.
    const isSuperseded = async () => fence !== null && (await this.#isBehind(outcome));
    if (!isCurrent) {
      if (await isSuperseded()) return stateOf(own ?? { ...present, ...nothing }, null);
      const claimed: GroupClaim = {
        ...(own ?? { ...present, ...nothing }),
        period: notedPeriod(own?.period ?? null, rows.cpuQuotaPeriod),
        uid,
        isApplied: false,
        paths: [...paths, ...former],
      };
      await this.#put([claimed, ...released(others, environment, roots)], fence);
    }
    const target: GroupTarget = {
      environment,
      rows,
      formerPaths: [...paths, ...former],
      formerPeriods: periodsOf(own?.period ?? null),
      ...this.#others(database, environment, others, roots),
      prune: declared.prune,
    };
    const isReported = isCurrent && declared.onDrift === 'report';
    const result = await this.#write(database, target, { isCurrent, isReported, isSuperseded });
    if (result === 'superseded') return stateOf(own ?? { ...present, ...nothing }, null);
    const { changes, isDrift } = result;
    const drift = isCurrent ? this.#drift(own.drift, changes, isDrift, isReported) : null;
    const { blocked } = changes;
    const applied = { ...present, drift, paths: [...paths, ...blocked] };
    if (!isCurrent || drift !== own.drift || own.generation !== generation) await this.#put([applied], fence);
    return stateOf(applied, blocked.length === 0 ? null : blockedFailure(blocked));
  }

  /** Logs why a database cannot have what a resource declares, once for each cause. */
  #logRefused(resource: string, { database, environment, failure }: GroupTargetState): void {
    const before = this.#states
      .get(resource)
      ?.find((each) => each.database === database && each.environment === environment);
    if (failure === null || before?.failure?.message === failure.message) return;
    this.#options.logger.warn(
      { resource, database, environment, ...failure },
      'resource groups of a resource are not applied',
    );
  }

  /**
   * Writes what is to be written.
   * @returns `superseded` where another replica writes a later version
   */
  async #write(
    database: string | null,
    target: GroupTarget,
    { isCurrent, isReported, isSuperseded }: WriteState,
  ): Promise<{ readonly changes: GroupChanges; readonly isDrift: boolean } | 'superseded'> {
    return await this.#stores().use(database, async ({ declared }) => {
      if (!isCurrent) {
        if (await isSuperseded()) return 'superseded';
        return { changes: await declared.apply(target), isDrift: false };
      }
      // Looking locks nothing.
      const changes = await declared.compare(target);
      if (isUnchanged(changes)) return { changes, isDrift: false };
      if (await isSuperseded()) return 'superseded';
      return { changes: isReported ? changes : await declared.apply(target), isDrift: true };
    });
  }

  /**
   * Whether the database has a later version of a resource than is known here: another replica took a REST write, and writes it
   * into the tables itself. Never for long, as generations that files have need not be the same on all replicas.
   */
  async #isBehind({ key, resource: { metadata } }: GroupsOutcome): Promise<boolean> {
    const text = keyText(key);
    const stored = await this.#options.resources.get(key);
    if (stored === null || stored.uid !== metadata.uid || stored.generation <= metadata.generation) {
      this.#behind.delete(text);
      return false;
    }
    const now = this.#options.clock.monotonic();
    const before = this.#behind.get(text);
    if (before?.generation === metadata.generation) return now - before.since < BEHIND_MS;
    this.#behind.set(text, { generation: metadata.generation, since: now });
    return true;
  }

  #drift(before: GroupDrift | null, changes: GroupChanges, isDrift: boolean, isReported: boolean): GroupDrift | null {
    // One that is only reported is over when the rows are as declared; one that was repaired stays to be read.
    if (!isDrift) return before?.repaired === false ? null : before;
    const { differences } = changes;
    const listed = differences.slice(0, MAX_DIFFERENCES).map((text) => text.slice(0, MAX_DIFFERENCE));
    const isSame =
      isReported &&
      before?.repaired === false &&
      before.count === differences.length &&
      `${listed}` === `${before.differences}`;
    if (isSame) return before;
    const at = `${new Date(this.#options.clock.now()).toISOString().slice(0, 19)}Z`;
    return { at, repaired: !isReported, count: differences.length, differences: listed };
  }

  /** Removes what a claim has. What groups that no resource declares need stays, as nobody's. */
  async #removeFrom({ namespace, name, database, environment }: GroupClaim, fence: Fence | null): Promise<null> {
    const { claims, logger } = this.#options;
    const all = (await claims.all()).filter((claim) => claim.database === database);
    const isOwn = (claim: GroupClaim) =>
      claim.namespace === namespace && claim.name === name && claim.environment === environment;
    const own = all.find(isOwn);
    if (own === undefined) return null;
    const others = all.filter((claim) => !isOwn(claim));
    const target: GroupTarget = {
      ...{ environment, rows: noRows, formerPaths: own.paths, formerPeriods: periodsOf(own.period), prune: false },
      ...this.#others(database, environment, others, new Set()),
    };
    try {
      // Only who leads may have it gone.
      await this.#put([{ ...own, isApplied: false }], fence);
      const { blocked } = await this.#stores().use(database, ({ declared }) => declared.apply(target));
      if (blocked.length > 0)
        logger.warn({ database, environment, blocked }, 'resource groups stay, as others are below them');
    } catch (error) {
      // Nothing is left of it where the database or its tables are gone, or may not be used any more.
      if (!(error instanceof GatewayError) || isDatabaseAway(error)) throw error;
      logger.warn({ database, environment, err: error }, 'resource groups of a resource that is gone are not removed');
    }
    if ((await claims.remove(own, fence)) === 'fenced') throw new Fenced();
    return null;
  }

  /** What other resources have, or are to get, in the same place. @param roots that are not theirs */
  #others(
    database: string | null,
    environment: string,
    claims: readonly GroupClaim[],
    roots: ReadonlySet<string>,
  ): Pick<GroupTarget, 'othersRoots' | 'isPeriodOfAnother'> {
    const othersRoots = new Set<string>();
    let isPeriodOfAnother = claims.some(({ period }) => period !== null);
    for (const claim of claims) {
      if (claim.environment === environment) for (const path of claim.paths) othersRoots.add(rootOf(path));
    }
    for (const outcome of this.#options.outcomes().values()) {
      if (!isGroupsOutcome(outcome) || outcome.declared?.databases.includes(database) !== true) continue;
      const { declared } = outcome;
      if (roots.size === 0 && declared.rows.cpuQuotaPeriod !== null) isPeriodOfAnother = true;
      if (declared.environment === environment) for (const root of declared.roots) othersRoots.add(root);
    }
    for (const root of roots) othersRoots.delete(root);
    return { othersRoots, isPeriodOfAnother };
  }

  #stores(): SchemaStores {
    const { stores } = this.#options;
    if (stores !== null) return stores;
    throw new GatewayError('EG_IMPOSSIBLE', "resourceGroups.enabled is false in the gateway's configuration");
  }

  async #put(claims: readonly GroupClaim[], fence: Fence | null): Promise<void> {
    if ((await this.#options.claims.put(claims, fence)) === 'fenced') throw new Fenced();
  }
}

/** Periods that a claim may have stored: while one replaces another, either. */
function periodsOf(period: string | null): readonly string[] {
  return period === null ? [] : period.split(',');
}

/** The periods of a claim that is about to store one. */
function notedPeriod(former: string | null, period: string | null): string | null {
  const all = new Set([...periodsOf(former), ...periodsOf(period)]);
  // As many as the column has room for: more changes that were interrupted one after the other there are hardly.
  return all.size === 0 ? null : [...all].slice(-MAX_PERIODS).join(',');
}

/** Claims of others without what another resource has from now on. */
function released(
  others: readonly GroupClaim[],
  environment: string,
  roots: ReadonlySet<string>,
): readonly GroupClaim[] {
  return others.flatMap((claim) => {
    if (claim.environment !== environment) return [];
    const paths = claim.paths.filter((path) => !roots.has(rootOf(path)));
    return paths.length === claim.paths.length ? [] : [{ ...claim, paths }];
  });
}

function keyOfClaim({ namespace, name }: GroupClaim): ResourceKey {
  return { kind: RESOURCE_GROUP_CONFIGURATION, namespace, name };
}

function isOf(claim: GroupClaim, { namespace, name }: ResourceKey): boolean {
  return claim.namespace === namespace && claim.name === name;
}

function stateOf(claim: GroupClaim, failure: GroupTargetState['failure']): GroupTargetState {
  const { database, environment, groups, selectors, drift, generation } = claim;
  return { database, environment, groups, selectors, drift, failure, appliedGeneration: generation || null };
}

function failedState(place: Place, claim: GroupClaim | null, error: unknown): GroupTargetState {
  const failure = failureOf(error);
  if (claim !== null) return stateOf(claim, failure);
  const { database, environment } = place;
  return { database, environment, groups: 0, selectors: 0, drift: null, appliedGeneration: null, failure };
}

const reasons: Readonly<Record<string, string>> = {
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

function blockedFailure(paths: readonly string[]): NonNullable<GroupTargetState['failure']> {
  const listed = paths.slice(0, MAX_LISTED).join(', ');
  const more = paths.length > MAX_LISTED ? `, and ${paths.length - MAX_LISTED} more` : '';
  const message = `${listed}${more} cannot be deleted: groups that no resource declares are below; delete or move those`;
  return { reason: 'GroupInUse', message };
}
