import type { Clock } from '../../model/clock.ts';
import { userAgent } from '../../model/version.ts';
import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';
import type { Upstream, Upstreams } from '../upstreams/upstreams.ts';
import type { QueryOwner } from './queryOwner.ts';

/** Path at which clusters report the id of their coordinator, without credentials. */
const INFO_PATH = '/v1/info';
/** The five characters that the query ids of a coordinator end in. */
const coordinatorId = /^[a-z0-9]{5}$/;
/** Milliseconds for all responses. */
const TIME_LIMIT = 2_000;
/** Milliseconds for which responses count: a client that invents query ids causes one request a second to each cluster. */
const VALID_FOR = 1_000;

/**
 * Result of a search. `unknown`: no cluster has such a coordinator, or several claim it, or one that did not respond
 * may have it. `undecided`: no cluster responded.
 */
export type SearchResult = QueryOwner | 'unknown' | 'undecided';

interface Census {
  /** By suffix: the clusters whose coordinator has it. */
  readonly claimants: ReadonlyMap<string, readonly QueryOwner[]>;
  readonly hasResponse: boolean;
  /** Registry names of the clusters that did not report a coordinator. */
  readonly silent: readonly string[];
}

/**
 * Finds the cluster of a query that the gateway has never heard of, by asking all clusters which coordinator they are. The
 * request holds nothing of the client's: no credentials, no cookies, not even the query id, as the path of a follow-up
 * holds the secret with which anybody can fetch the query's results.
 *
 * A cluster is believed only where every other registered cluster reports another coordinator: one that stays silent may be
 * the owner, and any cluster can report what it likes.
 */
export class CoordinatorSearch {
  readonly #table: { readonly current: RoutingTable };
  readonly #upstreams: Pick<Upstreams, 'get'>;
  readonly #clock: Clock;
  #census: Promise<Census> | null = null;
  #validUntil = 0;

  constructor(table: { readonly current: RoutingTable }, upstreams: Pick<Upstreams, 'get'>, clock: Clock) {
    this.#table = table;
    this.#upstreams = upstreams;
    this.#clock = clock;
  }

  /**
   * The only cluster that has the coordinator; resolves within two seconds. Never rejects.
   * @param suffix last five characters of a query id
   */
  async find(suffix: string): Promise<SearchResult> {
    const { claimants, hasResponse, silent } = await this.#current();
    const owners = claimants.get(suffix) ?? [];
    const [owner] = owners;
    if (owner !== undefined && owners.length === 1 && silent.length === 0) return owner;
    return hasResponse ? 'unknown' : 'undecided';
  }

  #current(): Promise<Census> {
    const now = this.#clock.monotonic();
    if (this.#census === null || now >= this.#validUntil) {
      const asking = this.#ask();
      this.#census = asking;
      this.#validUntil = Number.POSITIVE_INFINITY;
      void asking.then(() => {
        this.#validUntil = this.#clock.monotonic() + VALID_FOR;
      });
    }
    return this.#census;
  }

  async #ask(): Promise<Census> {
    const clusters = new Map<Upstream, ClusterEntry>();
    const silent: string[] = [];
    for (const cluster of this.#table.current.clusters.values()) {
      const upstream = this.#upstreams.get(cluster.proxyTo);
      if (upstream === null) silent.push(cluster.name);
      else if (!clusters.has(upstream)) clusters.set(upstream, cluster);
    }
    const claimants = new Map<string, QueryOwner[]>();
    let hasResponse = false;
    const asking = [...clusters].map(async ([upstream, { name, proxyTo, uid }]) => {
      const suffix = await coordinatorAt(upstream).catch(() => undefined);
      if (suffix !== undefined) hasResponse = true;
      if (typeof suffix !== 'string') silent.push(name);
      else claimants.set(suffix, [...(claimants.get(suffix) ?? []), { cluster: name, proxyTo, uid }]);
    });
    await Promise.all(asking);
    return { claimants, hasResponse, silent };
  }
}

/** The coordinator's id; null if the cluster responds without one. @throws what the connection throws */
async function coordinatorAt(upstream: Upstream): Promise<string | null> {
  const headers = { accept: 'application/json', 'user-agent': userAgent };
  const { status, text } = await upstream.ask('GET', INFO_PATH, headers, TIME_LIMIT);
  return status === 200 && text !== null ? reportedId(text) : null;
}

function reportedId(text: string): string | null {
  try {
    const info: unknown = JSON.parse(text);
    const id = typeof info === 'object' && info !== null && 'coordinatorId' in info ? info.coordinatorId : null;
    return typeof id === 'string' && coordinatorId.test(id) ? id : null;
  } catch {
    return null;
  }
}
