import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Upstream, Upstreams } from '../../../src/gateway/upstreams/upstreams.ts';
import { verifyingTls } from '../../support/defaults.ts';

const MINUTE = 60_000;
const deleted = 'http://deleted.example:8080';

let time = 0;
let upstreams: Upstreams;
let upstream: Upstream;

beforeEach(() => {
  time = 0;
  upstreams = new Upstreams(
    {
      ...{ connections: 1, maxQueued: 1, connectTimeout: 1, bodyTimeout: 1, idleTimeout: 1, maxHeaderSize: 1024 },
      tls: verifyingTls,
    },
    { now: () => 0, monotonic: () => time },
  );
  upstream = upstreams.get(deleted)!;
});

afterEach(() => upstreams.destroy());

/** One request of a given time, whose answer arrived or not. */
function request(answered: boolean, duration = 0): void {
  upstream.requestStarted();
  upstream.noteReachable(answered);
  time += duration;
  upstream.requestEnded();
}

/** Whether the pool is still open after a sweep. */
function survivesSweep(registered: readonly string[] = []): boolean {
  upstreams.sweep(new Set(registered));
  expect(upstreams.peek(deleted)).toBe(upstream.pool.closed ? undefined : upstream);
  return !upstream.pool.closed;
}

test.each([
  ['answered', true],
  ['failing to connect', false],
])('the pool of a deleted cluster with a request %s every nine minutes stays open for hours', (_name, answered) => {
  for (let sweep = 0; sweep < 20; sweep++) {
    time += 9 * MINUTE;
    expect(survivesSweep()).toBe(true);
    request(answered);
  }
});

test('the pool of a deleted cluster is closed ten minutes after its last request ended, however long that took', () => {
  request(true, 30 * MINUTE);
  time += 10 * MINUTE - 1;
  expect(survivesSweep()).toBe(true);
  time += 1;
  expect(survivesSweep()).toBe(false);
});

test('a pool with a request in flight stays open', () => {
  upstream.requestStarted();
  time += 60 * MINUTE;
  expect(survivesSweep()).toBe(true);
});

test('the pool of a registered cluster stays open without any request', () => {
  time += 60 * MINUTE;
  expect(survivesSweep([deleted])).toBe(true);
});

test('how long a deleted cluster has refused connections is not forgotten between requests', () => {
  for (let minutes = 0; minutes < 45; minutes += 5) {
    request(false);
    time += 5 * MINUTE;
    upstreams.sweep(new Set());
  }
  expect(upstreams.get(deleted)?.unreachableFor()).toBe(45 * MINUTE);
});
