import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { ChangeCount } from '../model/changeCount.ts';
import type { Clock } from '../model/clock.ts';

/**
 * Makes good answers to the instance's GETs carry an ETag, and answers 304 to callers who have that version already
 * (RFC 9110 §8.8.3, §13.1.2): a page can ask every second or two, and is sent something only when something changed.
 * Browsers keep the answer and send `If-None-Match` by themselves; nothing is used without asking again.
 */
export function revalidate(app: FastifyInstance): void {
  app.addHook('onSend', async (request, reply, payload) => {
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    if (!isRead || reply.statusCode !== 200 || typeof payload !== 'string') return payload;
    const ownTag = reply.getHeader('etag');
    const tag = typeof ownTag === 'string' ? ownTag : tagOf(payload);
    reply.headers({ ETag: tag, 'Cache-Control': 'private, no-cache', Vary: 'Authorization, Cookie' });
    if (!matches(request.headers['if-none-match'], tag)) return payload;
    reply.code(304).removeHeader('content-type');
    return null;
  });
}

/** Weak: the same content, whatever compresses it on its way. The same at every replica that answers the same. */
function tagOf(payload: string): string {
  return `W/"${createHash('sha256').update(payload).digest('base64url')}"`;
}

/** An answer as it is sent. */
interface Body {
  readonly version: number;
  readonly text: string;
  readonly tag: string;
}

/**
 * A long list that is made once for all callers, and again only when something that it is made of changed: a call in between
 * costs a look at the version. The routes' instance must {@link revalidate}.
 */
export class VersionedAnswer {
  readonly #version: () => number;
  readonly #make: () => unknown;
  #latest: Body | null = null;
  #making: { readonly version: number; readonly body: Promise<Body> } | null = null;

  /**
   * @param version grows whenever `make` may answer something else
   * @param make the body, or a promise of it
   */
  constructor(version: () => number, make: () => unknown) {
    this.#version = version;
    this.#make = make;
  }

  /** Answers with the list as it is now. */
  async send(reply: FastifyReply): Promise<FastifyReply> {
    const { text, tag } = await this.#present();
    return reply.header('ETag', tag).type('application/json; charset=utf-8').send(text);
  }

  #present(): Body | Promise<Body> {
    const version = this.#version();
    if (this.#latest?.version === version) return this.#latest;
    if (this.#making?.version === version) return this.#making.body;
    const body = this.#makeNow(version).finally(() => {
      if (this.#making?.body === body) this.#making = null;
    });
    this.#making = { version, body };
    return body;
  }

  async #makeNow(version: number): Promise<Body> {
    const text = JSON.stringify(await this.#make());
    const body = { version, text, tag: tagOf(text) };
    if (this.#latest === null || this.#latest.version < version) this.#latest = body;
    return body;
  }
}

/** An answer about one of many objects, and what it was made of. */
interface ObjectAnswer {
  readonly versions: ChangeCount;
  version: number;
  body: Pick<Body, 'text' | 'tag'>;
}

/**
 * Answers about one of many objects each: made again only when something that one is made of changed. Those that were asked for last are
 * kept, as many as a bound. The routes' instance must {@link revalidate}.
 */
export class VersionedAnswers {
  readonly #most: number;
  readonly #answers = new Map<string, ObjectAnswer>();

  /** @param most answers that are kept at a time */
  constructor(most: number) {
    this.#most = most;
  }

  /**
   * Answers about an object as it is now.
   * @param parts what it is made of: one of them is another object or value whenever `make` may answer something else
   * @param make the body; where it throws, nothing is kept
   */
  send(reply: FastifyReply, name: string, parts: readonly unknown[], make: () => unknown): FastifyReply {
    const { text, tag } = this.#present(name, parts, make);
    return reply.header('ETag', tag).type('application/json; charset=utf-8').send(text);
  }

  #present(name: string, parts: readonly unknown[], make: () => unknown): Pick<Body, 'text' | 'tag'> {
    const present = this.#answers.get(name);
    this.#answers.delete(name);
    const versions = present?.versions ?? new ChangeCount();
    const version = versions.of(parts);
    if (present?.version === version) {
      this.#answers.set(name, present);
      return present.body;
    }
    const text = JSON.stringify(make());
    const body = { text, tag: tagOf(text) };
    const [oldest] = this.#answers.size >= this.#most ? this.#answers.keys() : [];
    if (oldest !== undefined) this.#answers.delete(oldest);
    this.#answers.set(name, { versions, version, body });
    return body;
  }
}

/** An answer that is made, and when that began. */
interface KeptAnswer {
  readonly at: number;
  readonly body: Promise<Body>;
}

/** Longest answer that is kept, in characters. */
const MAX_KEPT_TEXT = 1_000_000;

/**
 * How old an answer may be by `Cache-Control: max-age` of a request, milliseconds (RFC 9111 §5.2.1.1); 0 where it says nothing.
 * @param mostMs older ones are not given in any case
 */
export function acceptedAge({ headers }: FastifyRequest, mostMs: number): number {
  const directives = headers['cache-control'] ?? '';
  const [, seconds] = /(?:^|[\s,])max-age=(\d{1,9})(?:$|[\s,])/i.exec(directives) ?? [];
  return seconds === undefined || /no-(?:cache|store)/i.test(directives)
    ? 0
    : Math.min(Number(seconds) * 1_000, mostMs);
}

/**
 * Answers that cost the database something: each is made once for all callers, and kept for a time. As many as a bound are kept.
 * The routes' instance must {@link revalidate}.
 */
export class KeptAnswers {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #most: number;
  readonly #answers = new Map<string, KeptAnswer>();

  /** @param most answers that are kept at a time */
  constructor(clock: Pick<Clock, 'monotonic'>, most: number) {
    this.#clock = clock;
    this.#most = most;
  }

  /**
   * Answers with what is kept under a key, or makes it.
   * @param keepMs how old what is kept may be, milliseconds; 0: it is made now, and not kept
   * @param make the body; where it rejects, nothing is kept
   */
  async send(reply: FastifyReply, key: string, keepMs: number, make: () => Promise<unknown>): Promise<FastifyReply> {
    const { text, tag } = await this.#present(key, keepMs, make);
    return reply.header('ETag', tag).type('application/json; charset=utf-8').send(text);
  }

  #present(key: string, keepMs: number, make: () => Promise<unknown>): Promise<Body> {
    const now = this.#clock.monotonic();
    const present = this.#answers.get(key);
    if (present !== undefined && now - present.at < keepMs) return present.body;
    const body = make().then((answer) => {
      const text = JSON.stringify(answer);
      return { version: 0, text, tag: tagOf(text) };
    });
    if (keepMs === 0) return body;
    const mine = { at: now, body };
    this.#answers.delete(key);
    const [oldest] = this.#answers.size >= this.#most ? this.#answers.keys() : [];
    if (oldest !== undefined) this.#answers.delete(oldest);
    this.#answers.set(key, mine);
    const drop = () => {
      if (this.#answers.get(key) === mine) this.#answers.delete(key);
    };
    body.then(({ text }) => {
      if (text.length > MAX_KEPT_TEXT) drop();
    }, drop);
    return body;
  }
}

/** Whether one of the tags is this one by the weak comparison; `*` is any. */
function matches(ifNoneMatch: string | undefined, tag: string): boolean {
  const opaque = tag.slice('W/'.length);
  return (ifNoneMatch ?? '')
    .split(',')
    .map((each) => each.trim())
    .some((each) => each === '*' || each === tag || each === opaque);
}

/** Description of the answer to a caller who has the present version. */
export const notModified: Record<string, TSchema> = {
  304: Type.Null({ description: 'Nothing changed since the version that `If-None-Match` names.' }),
};
