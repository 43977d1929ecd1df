import type { PlainResponse } from '../../routing/refusal.ts';

/** Characters of the seconds of an id: `20261121_015745`. */
const STAMP_CHARACTERS = 15;

/** Address of the gateway and the query for a client. */
export interface QueuedPlace {
  /** Scheme, host and port as the client named them, with the path that a trusted proxy removed. */
  readonly base: string;
  readonly statementPath: string;
  readonly id: string;
  readonly slug: string;
}

export interface QueuedProgress {
  readonly token: number;
  /** Milliseconds in the queue. */
  readonly waitedMs: number;
  /** Headers that the gateway adds: names and values in turn. */
  readonly lines: readonly string[];
}

/** Statistics of a query that has not started. */
const noWork = {
  nodes: 0,
  totalSplits: 0,
  queuedSplits: 0,
  runningSplits: 0,
  completedSplits: 0,
  planningTimeMillis: 0,
  analysisTimeMillis: 0,
  cpuTimeMillis: 0,
  wallTimeMillis: 0,
  finishingTimeMillis: 0,
  physicalInputTimeMillis: 0,
  processedRows: 0,
  processedBytes: 0,
  physicalInputBytes: 0,
  physicalWrittenBytes: 0,
  internalNetworkInputBytes: 0,
  peakMemoryBytes: 0,
  spilledBytes: 0,
};

/** The response to a procedure call that the gateway executed itself. @param base as in `QueuedPlace` */
export function finishedCall(id: string, base: string): PlainResponse {
  return {
    status: 200,
    headers: ['Content-Type', 'application/json', 'Cache-Control', 'no-store'],
    body: JSON.stringify({
      id,
      infoUri: `${base}/ui/query.html?${id}`,
      stats: {
        state: 'FINISHED',
        queued: false,
        scheduled: true,
        ...noWork,
        queuedTimeMillis: 0,
        elapsedTimeMillis: 0,
      },
      updateType: 'CALL',
      warnings: [],
    }),
  };
}

/**
 * The response for a queued query, as an engine sends it for one in its own queue: contains every field of Trino's
 * first response (docs/protocol.md#queries-that-wait).
 */
export function queuedResponse(place: QueuedPlace, { token, waitedMs, lines }: QueuedProgress): PlainResponse {
  const { base, statementPath, id, slug } = place;
  const waited = Math.max(0, Math.round(waitedMs));
  return {
    status: 200,
    headers: ['Content-Type', 'application/json', 'Cache-Control', 'no-store', ...lines],
    body: JSON.stringify({
      id,
      infoUri: `${base}/ui/query.html?${id}`,
      nextUri: `${base}${statementPath}/queued/${id}/${slug}/${token}`,
      stats: {
        state: 'QUEUED',
        queued: true,
        scheduled: false,
        ...noWork,
        queuedTimeMillis: waited,
        elapsedTimeMillis: waited,
      },
      warnings: [],
    }),
  };
}

/** The parts of `/queued/{id}/{slug}/{token}` below a statement path; null for any other path. */
export function queuedTarget(path: string, statementPath: string): { slug: string; token: number } | null {
  const [empty, kind, , slug, token, ...more] = path.slice(statementPath.length).split('/');
  if (empty !== '' || kind !== 'queued' || more.length > 0 || slug === undefined || token === undefined) return null;
  return /^\d{1,9}$/.test(token) ? { slug, token: Number(token) } : null;
}

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/**
 * Maximum wait of a request: the query parameter `maxWait` (`500ms`, `1.50s`), if it is less than the limit.
 * @param limit milliseconds
 */
export function maxWaitOf(query: string | null, limit: number): number {
  if (query === null) return limit;
  const stated = /^(\d{1,9}(?:\.\d{1,9})?) ?(ns|us|ms|s|m|h|d)$/.exec(new URLSearchParams(query).get('maxWait') ?? '');
  return stated === null ? limit : Math.min(limit, Number(stated[1]) * (unitMs[stated[2] as string] ?? 1));
}

/** Creates ids of queued queries: `20261121_015745_471130200042_queue`, unique across replicas. */
export class QueuedIds {
  readonly #replica: string;
  readonly #suffix: string;
  #count = 0;

  /**
   * @param random number in [0, 1) that identifies this replica
   * @param suffix last part of all ids
   */
  constructor(random: number, suffix: string) {
    this.#replica = String(Math.floor(random * 10_000_000)).padStart(7, '0');
    this.#suffix = suffix;
  }

  /** @param now milliseconds since 1970 */
  next(now: number): string {
    const stamp = new Date(now).toISOString().replace(/[-:]/g, '').replace('T', '_').slice(0, STAMP_CHARACTERS);
    this.#count = (this.#count + 1) % 100_000;
    return `${stamp}_${this.#replica}${String(this.#count).padStart(5, '0')}_${this.#suffix}`;
  }
}
