import { type QueryKey, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useSyncExternalStore } from 'react';
import type { TopicName } from '../../api/events/topics.ts';

/** Between two looks while the stream says what changed: for what it may have missed. */
export const RARELY_MS = 120_000;
/** Between two looks while there is no stream. */
const POLL_MS = 5_000;
/** A stream that broke is back by then, or the gateway cannot be reached. Streams end each minute by themselves. */
const GRACE_MS = 1_500;
/** Streams beat every two seconds: without a beat for so long, the connection is dead. */
const SILENCE_MS = 3_000;
/** Before a stream that was refused is requested again. */
const REFUSED_MS = 20_000;
/** Pages that open and close within this time share a stream. */
const SETTLE_MS = 50;
/** What changes all the time is looked at so often at once, and then once in so many milliseconds. */
const BURST = 3;
const REFILL_MS = 6_000;

/** What is called when a topic changed. `isNew`: the version is the first one that a stream said. */
type Listener = (isNew: boolean) => void;

/** One topic: who follows it, and how often they may be called. */
interface Followed {
  readonly listeners: Set<Listener>;
  version: number | null;
  tokens: number;
  refilledAt: number;
  waiting: ReturnType<typeof setTimeout> | null;
}

/**
 * The stream of changes that all parts of the page share (docs/rest-api.md#events): open while something is followed and
 * the page is visible, as browsers allow few connections.
 */
class LiveTopics {
  readonly #topics = new Map<TopicName, Followed>();
  readonly #onState = new Set<() => void>();
  #source: EventSource | null = null;
  #requested = '';
  #isConnected = false;
  /** The stream broke, and nothing has come since. */
  #isBroken = false;
  #settling: ReturnType<typeof setTimeout> | null = null;
  #watchdog: ReturnType<typeof setTimeout> | null = null;

  constructor() {
    document.addEventListener('visibilitychange', () => this.#settle());
  }

  /** Whether changes come by themselves. */
  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** Registers a listener for `isConnected`; the answer removes it. */
  readonly onState = (listener: () => void): (() => void) => {
    this.#onState.add(listener);
    return () => void this.#onState.delete(listener);
  };

  /** Registers a listener for changes of a topic; the answer removes it. */
  follow(topic: TopicName, listener: Listener): () => void {
    const followed = this.#topics.get(topic) ?? {
      listeners: new Set(),
      version: null,
      tokens: BURST,
      refilledAt: Date.now(),
      waiting: null,
    };
    this.#topics.set(topic, followed);
    followed.listeners.add(listener);
    this.#settle();
    return () => {
      followed.listeners.delete(listener);
      if (followed.listeners.size === 0) {
        if (followed.waiting !== null) clearTimeout(followed.waiting);
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
    // Browsers connect again by themselves, except after a refusal.
    source.addEventListener('error', () => {
      const isRefused = source.readyState === EventSource.CLOSED;
      // Each attempt that fails is an error of its own: the time runs from the first one.
      if (isRefused || !this.#isBroken) this.#watch(isRefused ? 0 : GRACE_MS);
      this.#isBroken = true;
    });
    this.#watch(SILENCE_MS);
  }

  /** Takes the stream for lost unless something comes within a time; null: there is none. */
  #watch(ms: number | null): void {
    if (this.#watchdog !== null) clearTimeout(this.#watchdog);
    this.#watchdog = ms === null ? null : setTimeout(() => this.#lost(), ms);
  }

  #lost(): void {
    const wasRefused = this.#source?.readyState === EventSource.CLOSED;
    const isSilent = this.#source?.readyState === EventSource.OPEN;
    this.#setConnected(false);
    // What follows shows whether the gateway can be reached, and whether there still is a session.
    for (const { listeners } of this.#topics.values()) for (const listener of listeners) listener(false);
    if (!wasRefused && !isSilent) return;
    this.#source?.close();
    this.#watchdog = setTimeout(() => this.#open(this.#requested), wasRefused ? REFUSED_MS : 0);
  }

  #setConnected(isConnected: boolean): void {
    if (this.#isConnected === isConnected) return;
    this.#isConnected = isConnected;
    for (const listener of this.#onState) listener();
    // What failed meanwhile is asked for once more.
    if (isConnected) for (const followed of this.#topics.values()) followed.version = null;
  }

  #note(topic: TopicName, version: number): void {
    const followed = this.#topics.get(topic);
    if (followed === undefined || followed.version === version) return;
    const isNew = followed.version === null;
    followed.version = version;
    const now = Date.now();
    const refilled = Math.floor((now - followed.refilledAt) / REFILL_MS);
    if (refilled > 0) {
      followed.tokens = Math.min(BURST, followed.tokens + refilled);
      followed.refilledAt += refilled * REFILL_MS;
    }
    if (followed.waiting !== null) return;
    const call = () => {
      followed.waiting = null;
      followed.tokens = Math.max(0, followed.tokens - 1);
      for (const listener of followed.listeners) listener(isNew);
    };
    if (followed.tokens > 0) call();
    else followed.waiting = setTimeout(call, followed.refilledAt + REFILL_MS - now);
  }
}

const live = new LiveTopics();

/**
 * Has a query read again whenever a topic of the gateway's event stream changes. Returns its `refetchInterval`: two minutes
 * while the stream is open, else the time between two looks.
 */
export function useLive(topic: TopicName, queryKey: QueryKey): number {
  const client = useQueryClient();
  // A key that is written in place is another object each time.
  const key = useRef(queryKey);
  useEffect(
    () =>
      live.follow(topic, (isNew) => {
        // What is on its way as the stream begins is new enough.
        void client.refetchQueries({ queryKey: key.current, exact: true, type: 'active' }, { cancelRefetch: !isNew });
      }),
    [client, topic],
  );
  return useSyncExternalStore(live.onState, () => live.isConnected) ? RARELY_MS : POLL_MS;
}
