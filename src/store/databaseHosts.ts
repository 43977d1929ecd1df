import type { Clock, Random } from '../model/clock.ts';

/** Where a server of a database listens. */
export interface DatabaseHost {
  readonly host: string;
  readonly port: number;
}

/** How the hosts of a URL are chosen from, as the Java drivers say it. */
export interface HostChoice {
  /** pgJDBC's `loadBalanceHosts`, Connector/J's `loadbalance:`: in any order; else as they are listed. */
  readonly isShuffled: boolean;
  /** `primary`: only a server that takes writes. `preferPrimary`: one that does where there is one. */
  readonly role: 'any' | 'primary' | 'preferPrimary';
  /** Connector/J's `failOverReadOnly`: connections to others than the first host only read. */
  readonly isReadOnlyAfterFirst: boolean;
  /** Time after which a host that failed is tried in its turn again, and connections to a later host go back. */
  readonly recheckMs: number;
}

/** What URLs with one host, and without parameters about hosts, mean. */
export const plainChoice: HostChoice = {
  ...{ isShuffled: false, role: 'any', isReadOnlyAfterFirst: false, recheckMs: 10_000 },
};

/** Hosts of a database server, with what is known of them. */
export class DatabaseHosts {
  readonly choice: HostChoice;
  readonly #hosts: readonly DatabaseHost[];
  readonly #clock: Clock;
  readonly #random: Random;
  /** Until when a host comes last. */
  readonly #failedUntil = new Map<DatabaseHost, number>();

  constructor(hosts: readonly DatabaseHost[], choice: HostChoice, clock: Clock, random: Random) {
    this.#hosts = hosts;
    this.choice = choice;
    this.#clock = clock;
    this.#random = random;
  }

  /** All hosts in the order in which they are tried: those that failed lately last, as one of them may be all there is. */
  candidates(): readonly DatabaseHost[] {
    const now = this.#clock.monotonic();
    const hosts = this.choice.isShuffled ? shuffled(this.#hosts, this.#random) : this.#hosts;
    const isFailed = (host: DatabaseHost): boolean => (this.#failedUntil.get(host) ?? 0) > now;
    return [...hosts.filter((host) => !isFailed(host)), ...hosts.filter(isFailed)];
  }

  /** Notes that a host did not answer, or that it was not what is looked for; answers whether that is new. */
  failed(host: DatabaseHost): boolean {
    const isNew = !this.#failedUntil.has(host);
    this.#failedUntil.set(host, this.#clock.monotonic() + this.choice.recheckMs);
    return isNew;
  }

  /** Notes that a host is in use; answers whether it had failed. */
  answered(host: DatabaseHost): boolean {
    return this.#failedUntil.delete(host);
  }

  isFirst(host: DatabaseHost): boolean {
    return host === this.#hosts[0];
  }

  /**
   * How long a connection to a host is used before a better one is looked for, milliseconds; Infinity: there is none.
   * @param isMakeshift the host is not of the kind that is preferred
   */
  lifetimeOf(host: DatabaseHost, isMakeshift: boolean): number {
    const { isShuffled, role, recheckMs } = this.choice;
    const isBest = !isMakeshift && (isShuffled || role !== 'any' || this.isFirst(host));
    return isBest ? Number.POSITIVE_INFINITY : recheckMs;
  }
}

function shuffled<T>(items: readonly T[], random: Random): readonly T[] {
  const order = [...items];
  for (let last = order.length - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    [order[last], order[other]] = [order[other] as T, order[last] as T];
  }
  return order;
}
