import type { Logger } from 'pino';
import type { Fence } from '../../store/store.ts';
import { Leadership } from './leadership.ts';

/**
 * Leadership for statuses if several gateways, each with its own database and Lease, have the same class: the leader of
 * one of them, which also holds the Lease of the class (docs/resources.md#several-gateways).
 */
export class ClassLeadership extends Leadership {
  readonly name: string;
  readonly #leader: Leadership;
  readonly #lease: Leadership;
  readonly #logger: Logger;
  readonly #stops: (() => unknown)[] = [];
  /** Starts and stops of the Lease follow each other. */
  #turn: Promise<void> = Promise.resolve();
  #isCandidate = false;

  /** @param lease the Lease that all gateways of the class have in common; started and stopped here */
  constructor(leader: Leadership, lease: Leadership, logger: Logger) {
    super();
    this.name = lease.name;
    this.#leader = leader;
    this.#lease = lease;
    this.#logger = logger;
    // The other changes of the leader are heard where it is followed itself.
    lease.onChange(() => this.notify());
  }

  get isLeader(): boolean {
    return this.#leader.isLeader && this.#lease.isLeader;
  }

  get fence(): Fence | null {
    return this.isLeader ? this.#leader.fence : null;
  }

  noteFenced(fence: Fence): void {
    this.#leader.noteFenced(fence);
  }

  async start(): Promise<void> {
    this.#stops.push(this.#leader.onChange(() => this.#follow()));
    this.#follow();
  }

  async stop(): Promise<void> {
    for (const stop of this.#stops.splice(0)) stop();
    this.#turn = this.#turn.then(() => this.#setCandidate(false));
    await this.#turn;
  }

  #follow(): void {
    this.#turn = this.#turn.then(() => this.#setCandidate(this.#leader.isLeader));
  }

  async #setCandidate(isCandidate: boolean): Promise<void> {
    if (this.#isCandidate === isCandidate) return;
    this.#isCandidate = isCandidate;
    if (!isCandidate) return await this.#lease.stop();
    await this.#lease.start();
    if (!this.#lease.isLeader) this.#logger.info('another gateway of the same class writes the statuses');
  }
}
