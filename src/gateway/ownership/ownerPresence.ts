import type { Clock } from '../../model/clock.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { Upstreams } from '../upstreams/upstreams.ts';

/**
 * When each owner of queries showed its last sign of life: a response to any request, or, while it is registered, a
 * health check that does not find it UNHEALTHY. A cluster that was deleted is present for as long as its queries are
 * followed.
 */
export class OwnerPresence {
  readonly #table: { readonly current: RoutingTable };
  readonly #upstreams: Pick<Upstreams, 'peek'>;
  readonly #clock: Clock;
  readonly #lastAlive = new Map<string, number>();

  constructor(table: { readonly current: RoutingTable }, upstreams: Pick<Upstreams, 'peek'>, clock: Clock) {
    this.#table = table;
    this.#upstreams = upstreams;
    this.#clock = clock;
  }

  /**
   * Notes who is alive now; called every second.
   * @param owners `proxyTo` of all known owners
   */
  sample(owners: Iterable<string>): void {
    const now = this.#clock.monotonic();
    const present = new Set(owners);
    // One that is seen for the first time, after a start, is given the whole time.
    for (const proxyTo of present) if (!this.#lastAlive.has(proxyTo)) this.#lastAlive.set(proxyTo, now);
    for (const { proxyTo, health } of this.#table.current.clusters.values()) {
      present.add(proxyTo);
      const isAlive =
        health.status !== 'UNHEALTHY' && (this.#upstreams.peek(proxyTo)?.unreachableSince ?? null) === null;
      if (isAlive || !this.#lastAlive.has(proxyTo)) this.#lastAlive.set(proxyTo, now);
    }
    for (const proxyTo of this.#lastAlive.keys()) if (!present.has(proxyTo)) this.#lastAlive.delete(proxyTo);
  }

  /** Milliseconds since the last sign of life at a `proxyTo`; 0 for one that was never sampled. */
  silentFor(proxyTo: string): number {
    const now = this.#clock.monotonic();
    return now - Math.max(this.#lastAlive.get(proxyTo) ?? now, this.#upstreams.peek(proxyTo)?.lastResponded ?? 0);
  }
}
