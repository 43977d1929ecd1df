import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { Fence, Store } from '../../store/store.ts';

/**
 * Name of the Lease that all gateways of a class have in common; of that of a gateway, unless it is configured; and of
 * leadership in metrics.
 */
export function leaseNameOf(gatewayClass: string | null): string {
  return gatewayClass === null ? 'engine-gateway' : `engine-gateway-${gatewayClass}`;
}

/** Leadership of one replica at a time, which writes the database's copy of the resources and their statuses (docs/decisions/0005-guarded-projection.md). */
export abstract class Leadership {
  /** Name of the Lease, or of what stands for it, for metrics. */
  abstract readonly name: string;
  readonly #listeners = new Set<() => void>();

  abstract get isLeader(): boolean;
  /** Proof for database transactions; null while the database has not given one. */
  abstract get fence(): Fence | null;

  /** Registers a listener for becoming or ceasing to be leader, and for a new fence; the response removes it. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A transaction found that another is the leader. */
  abstract noteFenced(fence: Fence): void;
  abstract start(): Promise<void>;
  /** Releases leadership, so that another replica takes over immediately. */
  abstract stop(): Promise<void>;

  protected notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Options of leadership by the database's row. Times in milliseconds. */
export interface DatabaseLeadershipOptions {
  readonly store: Pick<Store, 'leader'>;
  /** Name of this process, unique among replicas and restarts. */
  readonly holder: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Time that leadership lasts without renewal: 15,000. */
  readonly ttlMs?: number;
  /** Time between renewals, and between tries of those who wait: 2,000. */
  readonly retryMs?: number;
}

/** Leadership by the row of `eg_leader`, which is the lease where there is no Kubernetes. */
export class DatabaseLeadership extends Leadership {
  readonly name = leaseNameOf(null);
  readonly #options: DatabaseLeadershipOptions;
  #fence: Fence | null = null;
  /** Monotonic milliseconds until which the fence surely holds: counted from before the asking. */
  #until = 0;
  #timer: NodeJS.Timeout | undefined;
  #turn: Promise<void> = Promise.resolve();
  #running = false;
  #loggedFailure = false;

  constructor(options: DatabaseLeadershipOptions) {
    super();
    this.#options = options;
  }

  get isLeader(): boolean {
    return this.fence !== null;
  }

  get fence(): Fence | null {
    return this.#options.clock.monotonic() < this.#until ? this.#fence : null;
  }

  noteFenced(fence: Fence): void {
    if (this.#fence?.epoch === fence.epoch) this.#set(null, 0);
  }

  async start(): Promise<void> {
    this.#running = true;
    await this.#renew();
  }

  async stop(): Promise<void> {
    this.#running = false;
    clearTimeout(this.#timer);
    await this.#turn;
    const fence = this.#fence;
    this.#set(null, 0);
    if (fence !== null) await this.#options.store.leader.release(fence).catch(() => undefined);
  }

  async #renew(): Promise<void> {
    this.#turn = this.#acquire();
    await this.#turn;
    if (!this.#running) return;
    this.#timer = setTimeout(() => void this.#renew(), this.#options.retryMs ?? 2_000);
  }

  async #acquire(): Promise<void> {
    const { clock, store, holder, logger, ttlMs = 15_000 } = this.#options;
    const requestedAt = clock.monotonic();
    try {
      const fence = await store.leader.acquire(holder, ttlMs);
      this.#set(fence, fence === null ? 0 : requestedAt + ttlMs);
      this.#loggedFailure = false;
    } catch (error) {
      // Until the time is over this replica is still the leader; no other can become it.
      if (!this.#loggedFailure) logger.warn({ err: error }, 'failed to renew leadership');
      this.#loggedFailure = true;
      if (this.#fence !== null && clock.monotonic() >= this.#until) this.#set(null, 0);
    }
  }

  #set(fence: Fence | null, until: number): void {
    const before = this.#fence;
    // Renewed too late, but no other replica took it: writes in between were skipped.
    const lapsed = fence !== null && before !== null && this.fence === null;
    this.#fence = fence;
    this.#until = until;
    const same = before?.epoch === fence?.epoch && before?.holder === fence?.holder;
    if (same && !lapsed) return;
    if (!same) {
      this.#options.logger.info(
        fence === null ? {} : { epoch: fence.epoch },
        fence === null ? 'no longer leader' : 'leader',
      );
    }
    this.notify();
  }
}
