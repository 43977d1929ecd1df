import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { OtherClient, RawConnection, startTarget, type Target } from './target.ts';

/** Connections to the cluster, which readers must not take for good. */
const CONNECTIONS = 60;
/** Few, as the kernel alone takes up to 10 MB for each. */
const READERS = 100;
const SENDERS = 500;
/** What a connection may cost the gateway, in MB: buffers of both sides, and what Node keeps of it. */
const MB_PER_READER = 1;
const MB_PER_SENDER = 0.1;
/** What the gateway's memory moves by itself. */
const MB_ASIDE = 80;

describe('slow clients', { retry: 2 }, () => {
  let target: Target;
  let other: OtherClient;
  let memory: number;
  const connections: RawConnection[] = [];
  beforeAll(async () => {
    target = await startTarget({
      server: { headersTimeout: '3s', requestTimeout: '6s' },
      serverConfig: {
        'http-server.net.max-idle-time': '5s',
        'proxy.http-client.max-connections-per-server': CONNECTIONS,
      },
    });
  });
  afterAll(() => target?.close());
  beforeEach(() => {
    memory = target.memory();
    other = new OtherClient(target);
  });
  afterEach(async () => {
    for (const { socket } of connections.splice(0)) socket.destroy();
    expect((await other.stop()).served).toBeGreaterThan(0);
  });
  const open = async (count: number): Promise<readonly RawConnection[]> => {
    const opened = await Promise.all(Array.from({ length: count }, () => new RawConnection(target.port).open()));
    connections.push(...opened);
    return opened;
  };
  /** Sends a byte of a text to every connection again and again, until all are closed. */
  const trickle = async (senders: readonly RawConnection[], text: string): Promise<void> => {
    let at = 0;
    const timer = setInterval(() => {
      for (const sender of senders) if (!sender.closed) sender.send(text.charAt(at % text.length));
      at++;
    }, 250);
    try {
      await expect.poll(() => senders.every((sender) => sender.closed), { timeout: 60_000, interval: 200 }).toBe(true);
    } finally {
      clearInterval(timer);
    }
  };

  test('a client that sends the head byte by byte gets 408 after server.headersTimeout', async () => {
    const senders = await open(SENDERS);
    for (const sender of senders) sender.send('GET /v1/query/a HTTP/1.1\r\nHost: x\r\n');
    await trickle(senders, 'X-Header: value\r\n');
    expect([...new Set(senders.flatMap((sender) => sender.statuses))]).toEqual([408]);
    expect(target.memory() - memory).toBeLessThan(MB_ASIDE + SENDERS * MB_PER_SENDER);
  });

  test('who sends nothing at all is closed as well', async () => {
    const silent = await open(SENDERS);
    await expect.poll(() => silent.every((each) => each.closed), { timeout: 60_000, interval: 200 }).toBe(true);
  });

  test('a client that sends the body byte by byte gets 408 after server.requestTimeout; nothing of it reaches a cluster', async () => {
    const senders = await open(SENDERS);
    for (const sender of senders)
      sender.send('POST /v1/statement HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n');
    await trickle(senders, 'never finished ');
    expect([...new Set(senders.flatMap((sender) => sender.statuses))]).toEqual([408]);
    expect(target.memory() - memory).toBeLessThan(MB_ASIDE + SENDERS * MB_PER_SENDER);
    expect(target.reached.filter(({ body }) => body.startsWith('never'))).toEqual([]);
  });

  test('who does not read an endless answer costs a bounded memory, and is cut off in the end', async () => {
    const readers = await open(READERS);
    for (const reader of readers) {
      reader.socket.pause();
      reader.send('GET /ui/endless HTTP/1.1\r\nHost: x\r\n\r\n');
    }
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, target.memory());
    }, 200);
    try {
      // Those that wait behind the readers are served once these are cut off.
      const running = () => target.metric('cluster_requests_in_flight');
      await expect.poll(running, { timeout: 60_000, interval: 200 }).toBeGreaterThan(READERS / 2);
      await expect.poll(running, { timeout: 60_000, interval: 200 }).toBeLessThan(5);
    } finally {
      clearInterval(watch);
    }
    expect(most - memory).toBeLessThan(MB_ASIDE + READERS * MB_PER_READER);
  });
});
