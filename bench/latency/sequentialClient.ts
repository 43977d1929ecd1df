import { fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';

/** Requests of one connection, one after the other. */
export interface Portion {
  readonly port: number;
  /** Request line and headers, each with its line end. */
  readonly head: string;
  /** A request each: its body; empty for none. */
  readonly texts: readonly string[];
  /** What each answer holds. */
  readonly expected: string;
  /** Milliseconds before each request. */
  readonly pause: number;
}

/** What a portion took. */
export interface Times {
  /** Milliseconds from the request's first byte to the answer's last one. */
  readonly times: readonly number[];
  /** Answers other than 200, or that do not hold what is expected. */
  readonly failed: number;
}

/** A client that sends one request after the other on a connection that it keeps. */
export interface SequentialClient {
  ask(portion: Portion): Promise<Times>;
  stop(): void;
}

/** Starts one, in a process of its own. */
export function startSequentialClient(): SequentialClient {
  const child = fork(path.join(import.meta.dirname, 'client.ts'));
  const ended = once(child, 'exit').then(() => {
    throw new Error('the client ended');
  });
  // It ends when it is stopped, too.
  ended.catch(() => undefined);
  return {
    async ask(portion) {
      const answered = new Promise((resolve) => child.once('message', (times) => resolve([times])));
      child.send(portion);
      const [times] = (await Promise.race([answered, ended])) as [Times];
      return times;
    },
    stop: () => child.kill(),
  };
}
