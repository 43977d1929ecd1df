import path from 'node:path';
import { type ChildClient, startChildClient } from '../childClient.ts';

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
export type SequentialClient = ChildClient<Portion, Times>;

/** Starts one, in a process of its own. */
export function startSequentialClient(): SequentialClient {
  return startChildClient(path.join(import.meta.dirname, 'client.ts'));
}
