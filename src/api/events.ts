import { Readable } from 'node:stream';
import { Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import { ChangeCount } from '../operator/registry/resourceWrites.ts';
import type { ApiContext } from './apiContext.ts';
import { callerOf } from './auth/guard.ts';
import { routes } from './routes.ts';
import { content, optionalTextField } from './schemas.ts';

/** Topics of events: lists of the API; `health` reports unavailable dependencies, as the probe does. */
export const topicNames = ['clusters', 'rules', 'groups', 'limits', 'queue', 'health'] as const;

export type TopicName = (typeof topicNames)[number];

/** Numbers of the present state of each topic, each greater than the number of any earlier state; null: not known now. */
export type TopicVersions = Readonly<Partial<Record<TopicName, () => number | Promise<number>>>>;

/** A version of something that is read from elsewhere as a text that changes with it. */
export function versionOfText(read: () => Promise<string>): () => Promise<number> {
  const versions = new ChangeCount();
  return async () => versions.of([await read()]);
}

/**
 * A version of a text that is read while others are looked at: a look gives the version of the text that was read last.
 * For what may take a second to read. @param read must not reject
 */
export function versionBeside(read: () => Promise<string>): () => number {
  const versions = new ChangeCount();
  let text = '';
  let isReading = false;
  return () => {
    if (!isReading) {
      isReading = true;
      void read().then((now) => {
        text = now;
        isReading = false;
      });
    }
    return versions.of([text]);
  };
}

/** Most streams of this gateway, and of a user. */
const MAX_STREAMS = 500;
const MAX_STREAMS_OF_USER = 20;
/** Interval of reading the versions, in milliseconds. */
const POLL_MS = 1_000;
/** Looks after which a stream ends: the page connects again, which shows that it still may. */
const POLLS_A_STREAM = 60;
/** Between two signs of life, in looks: who hears nothing for five seconds has lost the gateway. */
const POLLS_A_HEARTBEAT = 2;
/** Time that a browser waits before it connects again, in milliseconds. */
const RECONNECT_MS = 1_000;

/**
 * Streams of Server-Sent Events (docs/rest-api.md#events) that name the topics that changed, with their versions: no data. One look
 * at the versions a second serves all streams; a client that reads slowly gets the newest versions once it reads on.
 */
class EventStreams {
  readonly #api: ApiContext;
  readonly #topics: TopicVersions;
  readonly #streams = new Set<EventStream>();
  readonly #versions = new Map<TopicName, number>();
  #timer: NodeJS.Timeout | null = null;
  #polling: Promise<void> | null = null;
  #polls = 0;

  constructor(api: ApiContext, topics: TopicVersions) {
    this.#api = api;
    this.#topics = topics;
  }

  /**
   * Opens a stream that begins with the present versions. Its reader destroys it.
   * @throws GatewayError EG_TOO_MANY_STREAMS
   */
  async open(user: string, topics: readonly TopicName[]): Promise<Readable> {
    const ofUser = [...this.#streams].filter((stream) => stream.user === user).length;
    if (this.#streams.size >= MAX_STREAMS || ofUser >= MAX_STREAMS_OF_USER) {
      const owner = ofUser >= MAX_STREAMS_OF_USER ? `${JSON.stringify(user)} has` : 'this gateway has';
      const message = `${owner} as many event streams as are possible; close one, or ask for what is needed from time to time.`;
      throw new GatewayError('EG_TOO_MANY_STREAMS', message, { retryAfterSeconds: 30 });
    }
    const stream = new EventStream(user, topics);
    this.#streams.add(stream);
    stream.once('close', () => this.#forget(stream));
    this.#timer ??= setInterval(() => void this.#poll(), POLL_MS).unref();
    await this.#poll();
    stream.begin(this.#versions);
    // Pages go to another replica.
    if (this.#api.stopping()) stream.end();
    return stream;
  }

  close(): void {
    for (const stream of this.#streams) stream.end();
  }

  #forget(stream: EventStream): void {
    this.#streams.delete(stream);
    if (this.#streams.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  /** Looks at the versions of the topics that a user follows, and has the streams say what changed. Never rejects. */
  #poll(): Promise<void> {
    this.#polling ??= this.#readVersions()
      .then(() => {
        this.#polls += 1;
        for (const stream of this.#streams) {
          stream.update(this.#versions, this.#polls % POLLS_A_HEARTBEAT === 0);
          if (this.#api.stopping()) stream.end();
        }
      })
      .finally(() => {
        this.#polling = null;
      });
    return this.#polling;
  }

  async #readVersions(): Promise<void> {
    const requested = new Set([...this.#streams].flatMap(({ topics }) => topics));
    for (const topic of requested) {
      const version = this.#topics[topic];
      if (version === undefined) continue;
      try {
        const now = version();
        this.#versions.set(topic, typeof now === 'number' ? now : await now);
      } catch (error) {
        // A caller who asks for the list itself gets the error.
        this.#api.logger.debug({ err: error, topic }, 'failed to read version of topic');
      }
    }
  }
}

/** One stream. What its client did not take yet is never more than the newest versions. */
class EventStream extends Readable {
  readonly user: string;
  readonly topics: readonly TopicName[];
  readonly #published = new Map<TopicName, number>();
  #pollsLeft = POLLS_A_STREAM;
  #isOpen = false;
  #isFull = false;

  constructor(user: string, topics: readonly TopicName[]) {
    super({ highWaterMark: 4096 });
    this.user = user;
    this.topics = topics;
  }

  override _read(): void {
    this.#isFull = false;
  }

  begin(versions: ReadonlyMap<TopicName, number>): void {
    this.#isOpen = true;
    this.#write(`retry: ${RECONNECT_MS}\n\n`);
    this.update(versions, true);
  }

  update(versions: ReadonlyMap<TopicName, number>, isHeartbeat: boolean): void {
    if (!this.#isOpen || this.#isFull || this.destroyed) return;
    const changed = this.topics.filter((topic) => this.#published.get(topic) !== versions.get(topic));
    if (changed.length > 0) {
      const news = Object.fromEntries(changed.map((topic) => [topic, versions.get(topic)]));
      for (const topic of changed) this.#published.set(topic, versions.get(topic) ?? 0);
      this.#write(`event: versions\ndata: ${JSON.stringify(news)}\n\n`);
    } else if (isHeartbeat) this.#write('event: beat\ndata:\n\n');
    this.#pollsLeft -= 1;
    if (this.#pollsLeft <= 0) this.end();
  }

  end(): void {
    if (!this.#isOpen || this.destroyed) return;
    this.#isOpen = false;
    this.push(null);
  }

  #write(text: string): void {
    if (!this.push(text)) this.#isFull = true;
  }
}

const EventsQuery = Type.Object({
  topics: optionalTextField({
    maxLength: 200,
    description: `Some of ${topicNames.join(', ')}, separated by commas; all when absent.`,
  }),
});

/** The event stream: which lists changed, so that pages need not ask (docs/rest-api.md#events). */
export function eventRoutes(api: ApiContext, topics: TopicVersions): void {
  const streams = new EventStreams(api, topics);
  api.app.addHook('preClose', async () => streams.close());

  routes(api, 'events')('GET', '/api/events', {
    summary: 'Names of lists that changed, as Server-Sent Events',
    description:
      'An event `versions` with a JSON object of topics and their versions, at first of all, then of those that changed: what a version belongs to is read by the calls themselves. An event `beat` every two seconds says that the gateway is there. A stream ends after a minute; clients connect again.',
    query: EventsQuery,
    responses: { 200: content('The events, until the stream ends.', Type.String(), 'text/event-stream') },
    errors: [429],
    // A caller who asks for only the head would hold a stream.
    options: { exposeHeadRoute: false, config: { inNamespace: 'list' } },
    handle: async ({ request, reply, query }) => {
      const stream = await streams.open(callerOf(request).name, wantedTopics(query.topics, topics));
      // Proxies must pass on each event immediately.
      return reply
        .headers({ 'Content-Type': 'text/event-stream; charset=utf-8', 'X-Accel-Buffering': 'no' })
        .send(stream);
    },
  });
}

/** @throws GatewayError EG_MALFORMED for a name that is no topic */
function wantedTopics(list: string | undefined, topics: TopicVersions): readonly TopicName[] {
  const served = topicNames.filter((name) => topics[name] !== undefined);
  if (list === undefined) return served;
  const wanted = new Set(list.split(',').map((name) => name.trim()));
  for (const name of wanted) {
    if (topicNames.some((topic) => topic === name)) continue;
    const message = `topics has ${JSON.stringify(name)}; it may have ${topicNames.join(', ')}`;
    throw new GatewayError('EG_MALFORMED', message, { field: 'topics' });
  }
  return served.filter((name) => wanted.has(name));
}
