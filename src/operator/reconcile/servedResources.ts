import type { Logger } from 'pino';
import { liveOf } from '../../kinds/outcome.ts';
import type { Clock } from '../../model/clock.ts';
import { areAlike } from '../../model/record.ts';
import { type Kind, keyOf, keyText, keyTextOf, type Resource, type ResourceKey } from '../../model/resource.ts';
import type { StoredResource } from '../../store/store.ts';
import { resourceOfStored } from '../sources/source.ts';
import type { ControllerContext } from './controller.ts';
import type { ResourceLists } from './routingState.ts';

/**
 * The resources that are routed: those of the source, or the database's copy of them until the source has been read; and
 * those that the source lost with most of their kind, until that is confirmed.
 */
export class ServedResources {
  readonly #options: ControllerContext;
  readonly #onDue: () => void;
  readonly #guards: ReadonlyMap<Kind, DeletionGuard>;
  /** True while the database's copy is served in place of the source. */
  #isCopy = false;
  /** The copy until it is served; then outcomes have its resources. */
  #copy: ResourceLists | null = null;
  #emptySince: number | null = null;
  #emptyTimer: NodeJS.Timeout | undefined;

  /** @param onDue called when the source is to be asked again; must not throw */
  constructor(options: ControllerContext, onDue: () => void) {
    this.#options = options;
    this.#onDue = onDue;
    const { kinds, source, deletionGuard: settings, clock, logger } = options;
    const isOfAnother = source.isOfAnother.bind(source);
    this.#guards = new Map(
      kinds.names.map((kind) => [kind, new DeletionGuard({ kind, settings, isOfAnother, clock, logger, onDue })]),
    );
  }

  /** True if the source is served: only then does what is missing count as gone, and is anything written. */
  get fromSource(): boolean {
    return this.#options.source.state().synced && !this.#isCopy;
  }

  get loss(): readonly DeletionHold[] {
    return [...this.#guards.values()].flatMap(({ held }) => held);
  }

  /** Serves the database's copy from now on, unless the source has been read already. */
  restore(stored: readonly StoredResource[]): void {
    if (this.#options.source.state().synced) return;
    this.#copy = Map.groupBy(stored.map(resourceOfStored), ({ kind }) => kind);
    this.#isCopy = true;
  }

  /** @param served resources of a kind that were served last */
  lists(served: (kind: Kind) => readonly Resource[]): ResourceLists {
    const { kinds, source, clock } = this.#options;
    const before: ResourceLists = this.#copy ?? new Map(kinds.names.map((kind) => [kind, served(kind)]));
    this.#copy = null;
    if (!source.state().synced)
      return this.#isCopy ? before : new Map(kinds.names.map((kind) => [kind, source.list(kind)]));
    const lists: ResourceLists = new Map(
      this.#guards.entries().map(([kind, guard]) => [kind, guard.serve(source.list(kind), before.get(kind) ?? [])]),
    );
    if (!this.#isCopy) return lists;
    if (lists.values().every(({ length }) => length === 0) && this.#hasLost(before)) {
      // Everything gone while the gateway did not watch is likelier a source that is not what it should be.
      const confirmMs = this.#options.confirmEmptyMs ?? 5_000;
      this.#emptySince ??= clock.monotonic();
      const waitMs = this.#emptySince + confirmMs - clock.monotonic();
      if (waitMs > 0) {
        clearTimeout(this.#emptyTimer);
        this.#emptyTimer = setTimeout(this.#onDue, waitMs);
        return before;
      }
    }
    this.#isCopy = false;
    return lists;
  }

  /** True if the source lacks any of these resources, rather than has all of them for other gateways. */
  #hasLost(copy: ResourceLists): boolean {
    return copy.values().some((resources) => resources.some((each) => !this.#options.source.isOfAnother(keyOf(each))));
  }

  /** Notes that a resource is about to be deleted through the gateway; the response takes that back. */
  expectDeletion(key: ResourceKey): () => void {
    return this.#guards.get(key.kind)?.expect(keyText(key)) ?? (() => undefined);
  }

  /** True if it is still to be found out which of many missing resources were deleted through another replica. */
  get isSuspicious(): boolean {
    return this.#guards.values().some((guard) => guard.isSuspicious);
  }

  /**
   * Takes resources with these uids for deleted through the gateway, by another replica.
   * @param askedAt monotonic milliseconds at which the database was asked for them
   */
  forgive(uids: ReadonlySet<string>, askedAt: number): void {
    for (const guard of this.#guards.values()) guard.forgive(uids, askedAt);
  }

  confirmDeletions(): void {
    for (const guard of this.#guards.values()) guard.confirm();
  }

  /** Losses that resources of a kind are held for, by namespace. */
  heldOf(kind: Kind): readonly DeletionHold[] {
    return this.#guards.get(kind)?.held ?? [];
  }

  stop(): void {
    clearTimeout(this.#emptyTimer);
    for (const guard of this.#guards.values()) guard.stop();
  }
}

/** Deletions within this time count as one loss, in milliseconds. */
const AT_ONCE_MS = 60_000;
/** A deletion is served after this time without another one, in milliseconds: those of a deleted CRD come one by one. */
const SETTLE_MS = 3000;
/** A deletion is served after this time at most, in milliseconds. */
const MAX_SETTLE_MS = 10_000;
/** Names in the log and in responses. */
const LISTED_NAMES = 20;
/** Timers of more than 24 days begin immediately. */
const MAX_TIMER_MS = 86_400_000;

/** `resources.massDeletion`; times in milliseconds. */
export interface DeletionGuardSettings {
  readonly enabled: boolean;
  /** Losses of fewer resources of a kind are believed. */
  readonly minimum: number;
  /** Time after which a loss is believed; null: never without a confirmation. */
  readonly confirmAfter: number | null;
}

/** A loss in one namespace that is not believed yet. */
export interface DeletionHold {
  readonly kind: Kind;
  readonly namespace: string;
  /** Resources that are missing in the source and still routed. */
  readonly held: number;
  /** Resources of the kind and namespace that the source still has. */
  readonly left: number;
  /** Milliseconds since 1970. */
  readonly since: number;
  /** Milliseconds since 1970 at which the loss is believed; null: when it is confirmed. */
  readonly until: number | null;
  /** `namespace/name` of the first of them. */
  readonly names: readonly string[];
}

/** Losses that another part notices: of Services that clusters are made of. */
export interface OtherLosses {
  readonly losses: readonly DeletionHold[];
  confirm(): void;
}

export interface DeletionGuardOptions {
  readonly kind: Kind;
  readonly settings: DeletionGuardSettings;
  /** True for a resource that is there and another gateway's: it is not lost. */
  readonly isOfAnother: (key: ResourceKey) => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called when resources are to be served again, as a time is over. Must not throw. */
  readonly onDue: () => void;
}

/** A loss; `isSure` false: the database has not stated yet what was deleted through another replica. */
interface Loss {
  /** Monotonic milliseconds. */
  readonly at: number;
  /** Milliseconds since 1970. */
  readonly since: number;
  readonly isSure: boolean;
}

/**
 * Keeps resources of a kind routed if the source loses more than half of those of a namespace, or of all, within a minute, until that
 * is confirmed (docs/reliability.md#a-source-that-loses-most-of-its-resources).
 */
export class DeletionGuard {
  readonly #options: DeletionGuardOptions;
  /** Numbers of listed resources by namespace, without those under deletion. */
  #left = new Map<string, number>();
  #total = 0;
  /** Resources that the source does not have, with monotonic milliseconds. */
  readonly #missing = new Map<string, { readonly resource: Resource; readonly at: number }>();
  /** Times of the last series of deletions: those since `since` are served until `until`, as they may be the first of many. */
  #burst = { since: 0, until: 0 };
  /** Keys that were deleted through the gateway, and when: a source may show one for another moment, and lose it again. */
  readonly #deliberate = new Map<string, number>();
  /** Keys of losses that were believed since resources were served. */
  #believed = new Set<string>();
  /** By namespace. */
  readonly #losses = new Map<string, Loss>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: DeletionGuardOptions) {
    this.#options = options;
  }

  /** Returns the resources to be routed if the source has these. @param before those that were routed last */
  serve(listed: readonly Resource[], before: readonly Resource[]): readonly Resource[] {
    const present = liveOf(listed);
    const believed = this.#believed;
    this.#believed = new Set();
    const isWhole = this.#missing.size + this.#losses.size === 0;
    if (isWhole && areAlike(present, before, isSameKey)) return listed;
    this.#compare(byKey(present), before, believed);
    this.#decide();
    clearTimeout(this.#timer);
    const retained = byKey(this.#retained());
    if (retained.size === 0) return listed;
    return [...listed.filter((each) => !retained.has(keyTextOf(each))), ...retained.values()];
  }

  /** Notes that a resource is deleted through the gateway, which is no loss; the response takes that back. */
  expect(key: string): () => void {
    this.#missing.delete(key);
    this.#deliberate.set(key, this.#options.clock.monotonic());
    return () => this.#deliberate.delete(key);
  }

  /**
   * Treats resources with these uids as deleted through the gateway, by another replica. Other missing resources are a loss, which is
   * reported only now.
   * @param askedAt monotonic milliseconds at which the database was asked for them
   */
  forgive(uids: ReadonlySet<string>, askedAt: number): void {
    for (const [key, { resource }] of this.#missing) if (uids.has(resource.metadata.uid)) this.#drop(key);
    const isMass = this.#isMass(null);
    for (const [namespace, loss] of this.#losses) {
      // The rest may be no more than users delete.
      if (!isMass && !this.#isMass(namespace)) this.#believe(namespace);
      else if (!loss.isSure && loss.at <= askedAt) {
        this.#losses.set(namespace, { ...loss, isSure: true });
        const message =
          'the resource source lost more than half of its resources at once; they stay routed until POST /api/heldDeletions/confirm';
        this.#log('error', namespace, message);
      }
    }
  }

  /** True while the database has not stated which of many missing resources were deleted through another replica. */
  get isSuspicious(): boolean {
    return this.#losses.values().some(({ isSure }) => !isSure);
  }

  /** Believes all losses. */
  confirm(): void {
    for (const namespace of this.#losses.keys()) {
      this.#log('warn', namespace, 'the deletion of most resources was confirmed; they are removed');
      this.#believe(namespace);
    }
  }

  /** Losses that are not believed yet. */
  get held(): readonly DeletionHold[] {
    const { kind, settings } = this.#options;
    const { confirmAfter } = settings;
    return [...this.#losses].flatMap(([namespace, { since, isSure }]) => {
      if (!isSure) return [];
      const until = confirmAfter === null ? null : since + confirmAfter;
      return [{ kind, namespace, since, until, ...this.#counts(namespace) }];
    });
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #compare(present: Map<string, Resource>, before: readonly Resource[], believed: ReadonlySet<string>): void {
    const { clock, isOfAnother } = this.#options;
    const now = clock.monotonic();
    this.#left = new Map();
    this.#total = present.size;
    for (const { metadata } of present.values())
      this.#left.set(metadata.namespace, (this.#left.get(metadata.namespace) ?? 0) + 1);
    for (const [key, at] of this.#deliberate) if (now - at > AT_ONCE_MS) this.#deliberate.delete(key);
    for (const [key, resource] of byKey(before)) {
      if (present.has(key) || this.#missing.has(key) || this.#deliberate.has(key) || believed.has(key)) continue;
      this.#missing.set(key, { resource, at: now });
      const since = now < this.#burst.until ? this.#burst.since : now;
      this.#burst = { since, until: Math.min(now + SETTLE_MS, since + MAX_SETTLE_MS) };
    }
    for (const [key, { at, resource }] of this.#missing) {
      const isOver = now - at > AT_ONCE_MS && !this.#losses.has(resource.metadata.namespace);
      if (isOver || present.has(key) || isOfAnother(keyOf(resource))) this.#missing.delete(key);
    }
  }

  #decide(): void {
    const { settings, clock } = this.#options;
    const { enabled, confirmAfter } = settings;
    const namespaces = new Set(this.#missing.values().map(({ resource }) => resource.metadata.namespace));
    for (const [namespace, { at }] of this.#losses) {
      const isOver = confirmAfter !== null && clock.monotonic() - at >= confirmAfter;
      if (enabled && namespaces.has(namespace) && !isOver) continue;
      if (isOver) this.#log('warn', namespace, 'most resources stayed deleted; they are removed');
      this.#believe(namespace);
      namespaces.delete(namespace);
    }
    const isMass = this.#isMass(null);
    for (const namespace of namespaces) {
      if (!enabled || this.#losses.has(namespace) || (!isMass && !this.#isMass(namespace))) continue;
      this.#losses.set(namespace, { at: clock.monotonic(), since: clock.now(), isSure: false });
    }
  }

  #log(level: 'warn' | 'error', namespace: string, message: string): void {
    const { kind, settings, logger } = this.#options;
    const { held: deletions, left, names } = this.#counts(namespace);
    logger[level]({ kind, namespace, deletions, left, names, confirmAfterMs: settings.confirmAfter }, message);
  }

  /** @param namespace null: all of them */
  #isMass(namespace: string | null): boolean {
    const { held, left } = this.#counts(namespace);
    return held >= this.#options.settings.minimum && held > left;
  }

  #counts(namespace: string | null): Pick<DeletionHold, 'held' | 'left' | 'names'> {
    const isOf = ({ metadata }: Resource): boolean => namespace === null || metadata.namespace === namespace;
    const missing = [...this.#missing.values()].flatMap(({ resource }) => (isOf(resource) ? [resource] : []));
    const names = missing.slice(0, LISTED_NAMES).map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
    return { held: missing.length, left: namespace === null ? this.#total : (this.#left.get(namespace) ?? 0), names };
  }

  #believe(namespace: string): void {
    this.#losses.delete(namespace);
    for (const [key, { resource }] of this.#missing) {
      if (resource.metadata.namespace === namespace) this.#drop(key);
    }
  }

  #drop(key: string): void {
    this.#missing.delete(key);
    this.#believed.add(key);
  }

  /** Resources that are served in addition to the listed ones; has them served again in time. */
  #retained(): readonly Resource[] {
    const { settings, clock, onDue } = this.#options;
    const { enabled, minimum, confirmAfter } = settings;
    const now = clock.monotonic();
    // Fewer than could be a loss are served immediately.
    const settles = enabled && this.#total + this.#missing.size >= minimum;
    const settleMs = settles ? this.#burst.until - now : 0;
    let dueMs = Number.POSITIVE_INFINITY;
    const retained = [...this.#missing.values()].filter(({ resource, at }) => {
      const loss = this.#losses.get(resource.metadata.namespace);
      const restMs = at < this.#burst.since ? 0 : settleMs;
      const endMs = loss === undefined ? restMs : loss.at + (confirmAfter ?? MAX_TIMER_MS) - now;
      if (loss === undefined && endMs <= 0) return false;
      dueMs = Math.min(dueMs, endMs);
      return true;
    });
    if (retained.length > 0) this.#timer = setTimeout(onDue, Math.min(Math.max(dueMs, 1), MAX_TIMER_MS));
    return retained.map(({ resource }) => resource);
  }
}

const isSameKey = (a: Resource, b: Resource): boolean => keyTextOf(a) === keyTextOf(b);

function byKey(resources: readonly Resource[]): Map<string, Resource> {
  return new Map(resources.map((resource) => [keyTextOf(resource), resource]));
}
