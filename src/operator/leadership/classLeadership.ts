import type { Logger } from 'pino';
import type { Fence } from '../../store/store.ts';
import type { Leadership } from './leadership.ts';

export interface ClassLeadershipOptions {
  readonly leader: Leadership;
  /** The Lease that all gateways of the class have in common; started and stopped here. */
  readonly lease: Leadership;
  readonly logger: Logger;
}

/**
 * Leadership for statuses if several gateways, each with its own database and Lease, have the same class: the leader of
 * one of them, which also holds the Lease of the class (docs/resources.md#several-gateways).
 */
export class ClassLeadership implements Leadership {
  readonly #options: ClassLeadershipOptions;
  readonly #stops: (() => unknown)[] = [];
  /** Starts and stops of the Lease follow each other. */
  #turn: Promise<void> = Promise.resolve();
  #isCandidate = false;

  constructor(options: ClassLeadershipOptions) {
    this.#options = options;
  }

  get isLeader(): boolean {
    const { leader, lease } = this.#options;
    return leader.isLeader && lease.isLeader;
  }

  get fence(): Fence | null {
    return this.isLeader ? this.#options.leader.fence : null;
  }

  onChange(listener: () => void): () => void {
    // The other changes of the leader are heard where it is followed itself.
    return this.#options.lease.onChange(listener);
  }

  get name(): string {
    return this.#options.lease.name;
  }

  noteFenced(fence: Fence): void {
    this.#options.leader.noteFenced(fence);
  }

  async start(): Promise<void> {
    this.#stops.push(this.#options.leader.onChange(() => this.#follow()));
    this.#follow();
  }

  async stop(): Promise<void> {
    for (const stop of this.#stops.splice(0)) stop();
    this.#turn = this.#turn.then(() => this.#setCandidate(false));
    await this.#turn;
  }

  #follow(): void {
    this.#turn = this.#turn.then(() => this.#setCandidate(this.#options.leader.isLeader));
  }

  async #setCandidate(isCandidate: boolean): Promise<void> {
    if (this.#isCandidate === isCandidate) return;
    this.#isCandidate = isCandidate;
    const { lease, logger } = this.#options;
    if (!isCandidate) {
      await lease.stop();
      return;
    }
    await lease.start();
    if (!lease.isLeader) logger.info('another gateway of the same class writes the statuses of its resources');
  }
}
