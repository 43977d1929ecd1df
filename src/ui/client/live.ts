import { type QueryKey, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useSyncExternalStore } from 'react';
import type { TopicName } from '../../api/events.ts';
import { basePath } from '../app/gateway.ts';

/** Polling interval while the stream reports changes, in case an event was missed. */
export const RARELY_MS = 120_000;
const POLL_MS = 5_000;
/**
 * A broken stream reconnects within this time, or the gateway is unavailable. Streams end each minute by themselves.
 */
const GRACE_MS = 1_500;
/** Streams send a heartbeat every two seconds: after this time without one, the connection is dead. */
const SILENCE_MS = 3_000;
/** Retry delay after a rejected stream. */
const REJECTED_MS = 20_000;
/** Pages that open and close within this time share a stream. */
const SETTLE_MS = 50;
/** Rate limit of refetches: this many immediately, then one per interval. */
const BURST = 3;
const REFILL_MS = 6_000;

/** Called when a topic changed. `isNew`: the version is the first one of a stream. */
type Listener = (isNew: boolean) => void;

/** Followers and rate limit of a topic. */
interface TopicState {
  readonly listeners: Set<Listener>;
  version: number | null;
  tokens: number;
  refilledAt: number;
  waiting: ReturnType<typeof setTimeout> | null;
}

/**
 * The stream of changes that all parts of the page share (docs/rest-api.md#events): open while a topic is followed and
 * the page is visible, as browsers allow few connections.
 */
class LiveTopics {
  readonly #topics = new Map<TopicName, TopicState>();
  readonly #onState = new Set<() => void>();
  #source: EventSource | null = null;
  #requested = '';
  #isConnected = false;
  /** The stream broke, and nothing was received since. */
  #isBroken = false;
  #settling: ReturnType<typeof setTimeout> | null = null;
  #watchdog: ReturnType<typeof setTimeout> | null = null;

  constructor() {
    document.addEventListener('visibilitychange', () => this.#settle());
  }

  /** True if the stream reports changes. */
  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** Registers a listener for `isConnected`; returns its removal. */
  readonly onState = (listener: () => void): (() => void) => {
    this.#onState.add(listener);
    return () => void this.#onState.delete(listener);
  };

  /** Registers a listener for changes of a topic; returns its removal. */
  follow(topic: TopicName, listener: Listener): () => void {
    const state = this.#topics.get(topic) ?? {
      listeners: new Set(),
      version: null,
      tokens: BURST,
      refilledAt: Date.now(),
      waiting: null,
    };
    this.#topics.set(topic, state);
    state.listeners.add(listener);
    this.#settle();
    return () => {
      state.listeners.delete(listener);
      if (state.listeners.size === 0) {
        if (state.waiting !== null) clearTimeout(state.waiting);
        this.#topics.delete(topic);
      }
      this.#settle();
    };
  }

  #settle(): void {
    if (this.#settling !== null) clearTimeout(this.#settling);
    this.#settling = setTimeout(() => {
      this.#settling = null;
      const wanted = document.hidden ? '' : [...this.#topics.keys()].sort().join(',');
      if (wanted !== this.#requested) this.#open(wanted);
    }, SETTLE_MS);
  }

  #open(topics: string): void {
    this.#source?.close();
    this.#source = null;
    this.#isBroken = false;
    this.#requested = topics;
    this.#watch(null);
    if (topics === '') return;
    const source = new EventSource(`/api/events?topics=${encodeURIComponent(topics)}`);
    this.#source = source;
    source.addEventListener('versions', ({ data }: MessageEvent<string>) => {
      this.#isBroken = false;
      this.#setConnected(true);
      this.#watch(SILENCE_MS);
      for (const [topic, version] of Object.entries(JSON.parse(data) as Record<TopicName, number>)) {
        this.#note(topic as TopicName, version);
      }
    });
    source.addEventListener('beat', () => this.#watch(SILENCE_MS));
    // Browsers reconnect by themselves, except after a rejection.
    source.addEventListener('error', () => {
      const isRejected = source.readyState === EventSource.CLOSED;
      // Each failed attempt is a separate error: the time runs from the first one.
      if (isRejected || !this.#isBroken) this.#watch(isRejected ? 0 : GRACE_MS);
      this.#isBroken = true;
    });
    this.#watch(SILENCE_MS);
  }

  /** Treats the stream as lost unless data arrives within a time; null stops the timer. */
  #watch(ms: number | null): void {
    if (this.#watchdog !== null) clearTimeout(this.#watchdog);
    this.#watchdog = ms === null ? null : setTimeout(() => this.#lost(), ms);
  }

  #lost(): void {
    const wasRejected = this.#source?.readyState === EventSource.CLOSED;
    const isSilent = this.#source?.readyState === EventSource.OPEN;
    this.#setConnected(false);
    // The refetches show whether the gateway is available, and whether the session is still valid.
    for (const { listeners } of this.#topics.values()) for (const listener of listeners) listener(false);
    if (!wasRejected && !isSilent) return;
    this.#source?.close();
    this.#watchdog = setTimeout(() => this.#open(this.#requested), wasRejected ? REJECTED_MS : 0);
  }

  #setConnected(isConnected: boolean): void {
    if (this.#isConnected === isConnected) return;
    this.#isConnected = isConnected;
    for (const listener of this.#onState) listener();
    // Refetches what failed meanwhile.
    if (isConnected) for (const state of this.#topics.values()) state.version = null;
  }

  #note(topic: TopicName, version: number): void {
    const state = this.#topics.get(topic);
    if (state === undefined || state.version === version) return;
    const isNew = state.version === null;
    state.version = version;
    const now = Date.now();
    const refilled = Math.floor((now - state.refilledAt) / REFILL_MS);
    if (refilled > 0) {
      state.tokens = Math.min(BURST, state.tokens + refilled);
      state.refilledAt += refilled * REFILL_MS;
    }
    if (state.waiting !== null) return;
    const call = () => {
      state.waiting = null;
      state.tokens = Math.max(0, state.tokens - 1);
      for (const listener of state.listeners) listener(isNew);
    };
    if (state.tokens > 0) call();
    else state.waiting = setTimeout(call, state.refilledAt + REFILL_MS - now);
  }
}

const live = new LiveTopics();

/**
 * Refetches a query whenever a topic of the gateway's event stream changes. Returns its `refetchInterval`: two minutes
 * while the stream is open, else the polling interval.
 */
export function useLive(topic: TopicName, queryKey: QueryKey): number {
  const client = useQueryClient();
  // An inline key is a new object on each render.
  const key = useRef(queryKey);
  useEffect(
    () =>
      live.follow(topic, (isNew) => {
        // Requests in flight when the stream begins are new enough.
        void client.refetchQueries({ queryKey: key.current, exact: true, type: 'active' }, { cancelRefetch: !isNew });
      }),
    [client, topic],
  );
  return useSyncExternalStore(live.onState, () => live.isConnected) ? RARELY_MS : POLL_MS;
}

/** Polling interval without the event stream, in milliseconds. */
const HEALTH_MS = 2_500;
/** Timeout of a poll. Together with the silence of the stream before it, a loss shows within five seconds. */
const TIMEOUT_MS = 1_900;

export interface Unavailable {
  readonly name: 'database' | 'resource source';
  /** Start and cause, as the gateway reports them. */
  readonly message: string;
}

interface Health {
  readonly isReachable: boolean;
  readonly unavailable: readonly Unavailable[];
}

const allWell: Health = { isReachable: true, unavailable: [] };

const HEALTH = ['health'];

/** Health of the gateway, as {@link HealthByStream} or {@link HealthPolling} keeps it up to date. */
export function useHealth(): Health {
  return useQuery({ queryKey: HEALTH, queryFn: ({ signal }) => health(signal), staleTime: HEALTH_MS }).data ?? allWell;
}

/** Follows the health of the gateway by the event stream, for users who are known: one of these is in the page. */
export function HealthByStream() {
  const interval = useLive('health', HEALTH);
  useFollowedHealth(interval > HEALTH_MS * 4 ? interval : HEALTH_MS);
  return null;
}

/** Polls the health if there is no event stream, before the login. */
export function HealthPolling() {
  useFollowedHealth(HEALTH_MS);
  return null;
}

/** Keeps the health up to date, and refetches failed queries when the gateway or a dependency is available again. */
function useFollowedHealth(interval: number): void {
  const client = useQueryClient();
  const { data = allWell } = useQuery({
    queryKey: HEALTH,
    queryFn: ({ signal }) => health(signal),
    refetchInterval: interval,
    staleTime: HEALTH_MS,
  });
  const lacks = data.isReachable ? data.unavailable.map(({ name }) => name).join() : 'gateway';
  const before = useRef(lacks);
  useEffect(() => {
    if (before.current !== '' && before.current !== lacks) {
      void client.refetchQueries({ type: 'active', predicate: ({ state }) => state.error !== null });
    }
    before.current = lacks;
  }, [client, lacks]);
}

/** Parses the lines of the probe (docs/rest-api.md#probes). Never throws, except for an aborted poll. */
async function health(signal: AbortSignal): Promise<Health> {
  try {
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
    const response = await fetch(`${basePath}/readyz?verbose`, { signal: deadline });
    return {
      isReachable: response.status === 200 || response.status === 503,
      unavailable: unavailableOf(await response.text()),
    };
  } catch (error) {
    if (signal.aborted) throw error;
    return { isReachable: false, unavailable: [] };
  }
}

function unavailableOf(lines: string): readonly Unavailable[] {
  return [...lines.matchAll(/^\[-\] (database|resource source): (.*)$/gm)].flatMap(([, name, message = '']) => {
    // A source that is read and has mistakes is available.
    if (name === 'resource source' && !/ is unavailable/.test(message)) return [];
    return [{ name: name as Unavailable['name'], message }];
  });
}
