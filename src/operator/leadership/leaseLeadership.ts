import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { Fence } from '../../store/store.ts';
import { type KubeApi, type Lease, microTime } from '../sources/kubernetes/kubeApi.ts';
import { kubeCode, kubeReason } from '../sources/kubernetes/kubeErrors.ts';
import { type DatabaseLeadership, Leadership } from './leadership.ts';

/** Options of leadership by a Lease. Times in milliseconds. */
export interface LeaseLeadershipOptions {
  readonly api: KubeApi;
  readonly namespace: string;
  readonly name: string;
  /** Name of this process, unique among replicas and restarts. */
  readonly holder: string;
  /** The database's epoch row, which fences what the leader writes there, not started by its owner; null: none is taken. */
  readonly row: DatabaseLeadership | null;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Time that others leave a Lease alone that is not renewed: 15,000. */
  readonly leaseMs?: number;
  /** After this time without a renewal the holder takes itself for no leader any more: 10,000. */
  readonly renewDeadlineMs?: number;
  /** Time between tries: 2,000. */
  readonly retryMs?: number;
}

/**
 * Leadership by a Lease (coordination.k8s.io/v1), with the rules of client-go's leader election: others' times are not
 * compared with one's own clock, only whether the record changes. The holder then takes the database's epoch row as well.
 */
export class LeaseLeadership extends Leadership {
  readonly name: string;
  readonly #options: LeaseLeadershipOptions;
  /** Monotonic milliseconds until which the Lease surely holds. */
  #until = 0;
  #leading = false;
  /** Another's record as last seen, and since when it has been the same. */
  #observed: { readonly record: string; readonly since: number } | null = null;
  #timer: NodeJS.Timeout | undefined;
  #turn: Promise<void> = Promise.resolve();
  #running = false;
  #failing = false;

  constructor(options: LeaseLeadershipOptions) {
    super();
    this.#options = options;
    this.name = options.name;
    options.row?.onChange(() => this.notify());
  }

  get isLeader(): boolean {
    return this.#leading && this.#options.clock.monotonic() < this.#until;
  }

  get fence(): Fence | null {
    return this.isLeader ? (this.#options.row?.fence ?? null) : null;
  }

  noteFenced(fence: Fence): void {
    this.#options.row?.noteFenced(fence);
  }

  async start(): Promise<void> {
    this.#running = true;
    await this.#cycle();
  }

  async stop(): Promise<void> {
    this.#running = false;
    clearTimeout(this.#timer);
    await this.#turn;
    const wasLeader = this.#leading;
    await this.#lose();
    if (wasLeader) await this.#release();
  }

  async #cycle(): Promise<void> {
    this.#turn = this.#try();
    await this.#turn;
    if (this.#running) this.#timer = setTimeout(() => void this.#cycle(), this.#options.retryMs ?? 2_000);
  }

  async #try(): Promise<void> {
    const { clock, name, row, logger } = this.#options;
    const requestedAt = clock.monotonic();
    try {
      const isHolder = await this.#acquire();
      this.#failing = false;
      if (!isHolder) return await this.#lose();
    } catch (error) {
      if (!this.#failing) logger.warn({ reason: kubeReason(error) }, 'failed to renew Lease');
      this.#failing = true;
      // A held Lease stays held until its time is over.
      if (!this.isLeader) await this.#lose();
      return;
    }
    const lapsed = this.#leading && !this.isLeader;
    this.#until = requestedAt + (this.#options.renewDeadlineMs ?? 10_000);
    // Renewed too late, but no other replica took it: writes in between were skipped.
    if (lapsed) this.notify();
    if (this.#leading) return;
    this.#leading = true;
    logger.info({ lease: name }, 'Lease acquired');
    // The row notifies when it has been taken; it may still be the last leader's: taking it is retried.
    await row?.start();
    if (row === null || row.fence === null) this.notify();
  }

  /** One try to take or renew the Lease; false when another has it. */
  async #acquire(): Promise<boolean> {
    const { api, namespace, name, holder, clock } = this.#options;
    let lease: Lease;
    try {
      lease = await api.readLease(namespace, name);
    } catch (error) {
      if (kubeCode(error) !== 404) throw error;
      return await this.#write(() => api.createLease(namespace, this.#record(undefined)));
    }
    const owner = lease.spec?.holderIdentity ?? '';
    if (owner !== holder && owner !== '') {
      const record = `${owner} ${lease.metadata?.resourceVersion}`;
      const now = clock.monotonic();
      if (this.#observed?.record !== record) this.#observed = { record, since: now };
      const leaseMs = (lease.spec?.leaseDurationSeconds ?? 15) * 1_000;
      if (now - this.#observed.since < leaseMs) return false;
    }
    return await this.#write(() => api.replaceLease(namespace, name, this.#record(lease)));
  }

  async #write(write: () => Promise<Lease>): Promise<boolean> {
    try {
      await write();
      return true;
    } catch (error) {
      if (kubeCode(error) === 409) return false;
      throw error;
    }
  }

  #record(lease: Lease | undefined): Lease {
    const { holder, namespace, name, clock } = this.#options;
    const now = microTime(clock.now());
    const renewed = lease?.spec?.holderIdentity === holder;
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { ...lease?.metadata, name, namespace },
      spec: {
        holderIdentity: holder,
        leaseDurationSeconds: Math.max(1, Math.round((this.#options.leaseMs ?? 15_000) / 1_000)),
        acquireTime: renewed && lease.spec?.acquireTime !== undefined ? lease.spec.acquireTime : now,
        renewTime: now,
        leaseTransitions: (lease?.spec?.leaseTransitions ?? 0) + (lease === undefined || renewed ? 0 : 1),
      },
    };
  }

  async #lose(): Promise<void> {
    this.#until = 0;
    if (!this.#leading) return;
    this.#leading = false;
    this.#options.logger.info({ lease: this.#options.name }, 'Lease lost');
    this.notify();
    await this.#options.row?.stop();
  }

  async #release(): Promise<void> {
    const { api, namespace, name, holder } = this.#options;
    try {
      const lease = await api.readLease(namespace, name);
      if (lease.spec?.holderIdentity !== holder) return;
      const record = this.#record(lease);
      const spec = { ...record.spec, holderIdentity: '', leaseDurationSeconds: 1 };
      await api.replaceLease(namespace, name, { ...record, spec });
    } catch (error) {
      this.#options.logger.debug({ reason: kubeReason(error) }, 'failed to release Lease; it expires');
    }
  }
}
