import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { type Kind, keyOf, keyTextOf, type Resource, type ResourceKey } from '../../model/resource.ts';

/** Deletions within this time count as one loss, in milliseconds. */
const AT_ONCE_MS = 60_000;
/** A deletion that may be the first of many is served after this time, in milliseconds. */
const SETTLE_MS = 500;
/** Names in the log and in answers. */
const LISTED_NAMES = 20;

/** `resources.massDeletion`; times in milliseconds. */
export interface DeletionGuardSettings {
  readonly enabled: boolean;
  /** Losses of fewer resources of a kind are believed. */
  readonly minimum: number;
  /** Time after which a loss is believed; null: never without a confirmation. */
  readonly confirmAfter: number | null;
}

/** A loss that is not believed yet. */
export interface HeldDeletions {
  readonly kind: Kind;
  /** Resources that are gone from the source and still routed. */
  readonly held: number;
  /** Resources of the kind that the source still has. */
  readonly left: number;
  /** Milliseconds since 1970. */
  readonly since: number;
  /** Milliseconds since 1970 at which the loss is believed; null: when it is confirmed. */
  readonly until: number | null;
  /** `namespace/name` of the first of them. */
  readonly names: readonly string[];
}

/** Losses that somebody else notices: of Services that clusters are made of. */
export interface OtherLosses {
  readonly losses: readonly HeldDeletions[];
  /** Believes all of them. */
  confirm(): void;
}

export interface DeletionGuardOptions {
  readonly kind: Kind;
  readonly settings: () => DeletionGuardSettings;
  /** Whether a resource is still there and another gateway's: it is not lost. */
  readonly isOfAnother: (key: ResourceKey) => boolean;
  /** Whether resources are deleted through other replicas as well, of which `forgive` hears: a loss is reported only then. */
  readonly isForgiving: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called when resources are to be served again, as a time is over. Must not throw. */
  readonly onDue: () => void;
}

interface MissingResource {
  readonly resource: Resource;
  /** Monotonic milliseconds. */
  readonly at: number;
}

/**
 * Keeps resources of a kind routed where the source loses more than half of them at once, until that is confirmed
 * (docs/reliability.md#a-source-that-loses-most-of-its-resources).
 */
export class DeletionGuard {
  readonly #options: DeletionGuardOptions;
  #present: ReadonlyMap<string, Resource> = new Map();
  readonly #missing = new Map<string, MissingResource>();
  /**
   * Keys that somebody deleted through the gateway, and when: a source that was being read meanwhile may have one of them
   * for another moment, and lose it again.
   */
  readonly #deliberate = new Map<string, number>();
  /**
   * Monotonic and wall-clock milliseconds at which the loss was noticed, and whether it is one: known once the database has said
   * what was deleted through another replica. Null: nothing is held.
   */
  #loss: { readonly at: number; readonly since: number; readonly isSure: boolean } | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: DeletionGuardOptions) {
    this.#options = options;
  }

  /** Takes what was served before the source was read: what it lacks of that is a loss as well. */
  restore(resources: readonly Resource[]): void {
    this.#present = byKey(resources);
  }

  /** Resources to be routed where the source has these. */
  serve(listed: readonly Resource[]): readonly Resource[] {
    const present = this.#compare(listed.filter(({ metadata }) => metadata.deletionTimestamp === undefined));
    this.#decide(present.size);
    clearTimeout(this.#timer);
    if (this.#missing.size === 0) return listed;
    const retained = byKey(this.#retained(present.size));
    return retained.size === 0
      ? listed
      : [...listed.filter((each) => !retained.has(keyTextOf(each))), ...retained.values()];
  }

  /** Notes that a resource is deleted through the gateway: it is no loss. */
  expect(key: string): void {
    this.#missing.delete(key);
    this.#deliberate.set(key, this.#options.clock.monotonic());
  }

  /** Takes back `expect`: the resource was not deleted. */
  unexpect(key: string): void {
    this.#deliberate.delete(key);
  }

  /**
   * Takes resources with these uids for deleted through the gateway, by another replica. What else is missing by then is a loss.
   * @param askedAt monotonic milliseconds at which the database was asked for them
   */
  forgive(uids: ReadonlySet<string>, askedAt: number): void {
    for (const [key, { resource }] of this.#missing) if (uids.has(resource.metadata.uid)) this.#missing.delete(key);
    if (this.#loss === null) return;
    // What is left may be no more than anybody deletes.
    if (!this.#isMass(this.#present.size)) this.#believe();
    else if (!this.#loss.isSure && this.#loss.at <= askedAt) this.#report(this.#loss);
  }

  /** Whether most resources are missing, and the database has not said yet which were deleted through another replica. */
  get isSuspicious(): boolean {
    return this.#loss?.isSure === false;
  }

  /** Believes what is held; without effect when nothing is. */
  confirm(): void {
    if (this.#loss === null) return;
    const { kind, logger } = this.#options;
    logger.warn(
      { kind, deletions: this.#missing.size },
      'the deletion of most resources was confirmed; they are removed',
    );
    this.#believe();
  }

  /** The loss that is not believed yet; null when there is none. */
  get held(): HeldDeletions | null {
    if (this.#loss === null || !this.#loss.isSure) return null;
    const { confirmAfter } = this.#options.settings();
    const { since } = this.#loss;
    return {
      kind: this.#options.kind,
      held: this.#missing.size,
      left: this.#present.size,
      since,
      until: confirmAfter === null ? null : since + confirmAfter,
      names: this.#names(),
    };
  }

  /** Whether a resource is routed although the source has lost it. */
  holds(key: string): boolean {
    return this.#loss !== null && this.#missing.has(key);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #compare(listed: readonly Resource[]): ReadonlyMap<string, Resource> {
    const now = this.#options.clock.monotonic();
    const present = byKey(listed);
    for (const [key, at] of this.#deliberate) if (now - at > AT_ONCE_MS) this.#deliberate.delete(key);
    const { isOfAnother } = this.#options;
    for (const [key, resource] of this.#present) {
      if (present.has(key) || this.#deliberate.has(key) || isOfAnother(keyOf(resource))) continue;
      this.#missing.set(key, { resource, at: now });
    }
    for (const [key, { at, resource }] of this.#missing) {
      const isOver = this.#loss === null && now - at > AT_ONCE_MS;
      if (isOver || present.has(key) || isOfAnother(keyOf(resource))) this.#missing.delete(key);
    }
    this.#present = present;
    return present;
  }

  #decide(left: number): void {
    const { kind, settings, clock, logger } = this.#options;
    const { enabled, confirmAfter } = settings();
    if (this.#loss === null) {
      if (!enabled || !this.#isMass(left)) return;
      this.#loss = { at: clock.monotonic(), since: clock.now(), isSure: false };
      if (!this.#options.isForgiving) this.#report(this.#loss);
    } else if (!enabled || this.#missing.size === 0) this.#believe();
    else if (confirmAfter !== null && clock.monotonic() - this.#loss.at >= confirmAfter) {
      logger.warn({ kind, deletions: this.#missing.size }, 'most resources stayed deleted; they are removed');
      this.#believe();
    }
  }

  #report({ at, since }: { readonly at: number; readonly since: number }): void {
    const { kind, settings, logger } = this.#options;
    this.#loss = { at, since, isSure: true };
    logger.error(
      {
        ...{ kind, deletions: this.#missing.size, left: this.#present.size },
        ...{ names: this.#names(), confirmAfterMs: settings().confirmAfter },
      },
      'the resource source lost more than half of its resources at once; they stay routed until POST /api/heldDeletions/confirm',
    );
  }

  #isMass(left: number): boolean {
    return this.#missing.size >= this.#options.settings().minimum && this.#missing.size > left;
  }

  #believe(): void {
    this.#loss = null;
    this.#missing.clear();
  }

  /** Resources that are served beside the listed ones; has them looked at again in time. */
  #retained(left: number): readonly Resource[] {
    const { settings, clock } = this.#options;
    const { enabled, minimum, confirmAfter } = settings();
    const now = clock.monotonic();
    if (this.#loss !== null) {
      if (confirmAfter !== null) this.#plan(this.#loss.at + confirmAfter - now);
      return this.#missing
        .values()
        .map(({ resource }) => resource)
        .toArray();
    }
    // Fewer than could be a loss are gone at once.
    if (!enabled || left + this.#missing.size < minimum) return [];
    const recent = [...this.#missing.values()].filter(({ at }) => now - at < SETTLE_MS);
    if (recent.length > 0) this.#plan(Math.min(...recent.map(({ at }) => at)) + SETTLE_MS - now);
    return recent.map(({ resource }) => resource);
  }

  #plan(waitMs: number): void {
    // Timers of more than 24 days begin at once.
    this.#timer = setTimeout(this.#options.onDue, Math.min(Math.max(waitMs, 1), 86_400_000));
  }

  #names(): readonly string[] {
    return this.#missing
      .values()
      .map(({ resource }) => `${resource.metadata.namespace}/${resource.metadata.name}`)
      .take(LISTED_NAMES)
      .toArray();
  }
}

function byKey(resources: readonly Resource[]): ReadonlyMap<string, Resource> {
  return new Map(resources.map((resource) => [keyTextOf(resource), resource]));
}
