import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { Fence } from '../../store/store.ts';
import { type KubeApi, type Lease, microTime } from '../sources/kubernetes/kubeApi.ts';
import { kubeCode, kubeReason } from '../sources/kubernetes/kubeErrors.ts';
import { type DatabaseLeadership, Leadership } from './leadership.ts';

/** Time that others leave a Lease alone that is not renewed, in milliseconds. */
const LEASE_MS = 15_000;
/** After this time without a renewal the holder takes itself for no leader any more. */
const RENEW_DEADLINE_MS = 10_000;
/** Time between tries. */
const RETRY_MS = 2_000;

/** Options of leadership by a Lease. */
export interface LeaseLeadershipOptions {
  readonly api: KubeApi;
  readonly namespace: string;
  readonly name: string;
  /** Name of this process, unique among replicas and restarts. */
  readonly holder: string;
  /** The database's epoch row, which fences what the leader writes there, not started by its owner; left out: none is taken. */
  readonly row?: DatabaseLeadership;
  /**
   * Only its leader is a candidate. So one of several gateways of a class, each with its own database and Lease, holds the Lease of the
   * class and writes statuses (docs/resources.md#several-gateways).
   */
  readonly candidate?: Leadership;
  readonly clock: Clock;
  readonly logger: Logger;
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
    // The other changes of the candidate are heard where it is followed itself.
    options.candidate?.onChange(() => void this.#cycle());
  }

  get isLeader(): boolean {
    const { clock, candidate } = this.#options;
    return this.#leading && clock.monotonic() < this.#until && candidate?.isLeader !== false;
  }

  get fence(): Fence | null {
    const { row, candidate } = this.#options;
    return this.isLeader ? ((row ?? candidate)?.fence ?? null) : null;
  }

  noteFenced(fence: Fence): void {
    const { row, candidate } = this.#options;
    (row ?? candidate)?.noteFenced(fence);
  }

  async start(): Promise<void> {
    this.#running = true;
    await this.#cycle();
  }

  async stop(): Promise<void> {
    this.#running = false;
    clearTimeout(this.#timer);
    await this.#turn;
    await this.#giveUp();
  }

  async #cycle(): Promise<void> {
    if (!this.#running) return;
    clearTimeout(this.#timer);
    this.#turn = this.#turn.then(() => (this.#options.candidate?.isLeader === false ? this.#giveUp() : this.#try()));
    await this.#turn;
    clearTimeout(this.#timer);
    if (this.#running) this.#timer = setTimeout(() => void this.#cycle(), RETRY_MS);
  }

  /** Ceases to lead, and releases the Lease. */
  async #giveUp(): Promise<void> {
    const wasLeader = this.#leading;
    await this.#lose();
    if (wasLeader) await this.#release();
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
    this.#until = requestedAt + RENEW_DEADLINE_MS;
    // Renewed too late, but no other replica took it: writes in between were skipped.
    if (lapsed) this.notify();
    if (this.#leading) return;
    this.#leading = true;
    logger.info({ lease: name }, 'Lease acquired');
    // The row notifies when it has been taken; it may still be the last leader's: taking it is retried.
    await row?.start();
    if (row === undefined || row.fence === null) this.notify();
  }

  /** One try to take or renew the Lease; false when another has it. */
  async #acquire(): Promise<boolean> {
    const { api, namespace, name, holder, clock } = this.#options;
    let lease: Lease;
    try {
      lease = await api.lease('GET', namespace, name);
    } catch (error) {
      if (kubeCode(error) !== 404) throw error;
      return await this.#write(() => api.lease('POST', namespace, name, this.#record(undefined)));
    }
    const owner = lease.spec?.holderIdentity ?? '';
    if (owner !== holder && owner !== '') {
      const record = `${owner} ${lease.metadata?.resourceVersion}`;
      const now = clock.monotonic();
      if (this.#observed?.record !== record) this.#observed = { record, since: now };
      const leaseMs = (lease.spec?.leaseDurationSeconds ?? 15) * 1_000;
      if (now - this.#observed.since < leaseMs) return false;
    }
    return await this.#write(() => api.lease('PUT', namespace, name, this.#record(lease)));
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
        leaseDurationSeconds: LEASE_MS / 1_000,
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
      const lease = await api.lease('GET', namespace, name);
      if (lease.spec?.holderIdentity !== holder) return;
      const record = this.#record(lease);
      const spec = { ...record.spec, holderIdentity: '', leaseDurationSeconds: 1 };
      await api.lease('PUT', namespace, name, { ...record, spec });
    } catch (error) {
      this.#options.logger.debug({ reason: kubeReason(error) }, 'failed to release Lease; it expires');
    }
  }
}
