import { connect as connectHttp2 } from 'node:http2';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { certificateFolder, hasOpenssl } from '../support/certificates.ts';
import { OtherClient, RawConnection, startTarget, type Target } from './target.ts';

const MEGABYTE = 1024 ** 2;
/** `server.requestMemory`, MB. */
const BUDGET_MB = 64;
/** What a byte of a buffered body takes: pieces, joined, and as text. */
const BYTES_PER_BYTE = 3;
/** What the connections themselves take, MB each. */
const MB_PER_CONNECTION = 0.03;
const SENDERS = 600;
/** What an answer that its client does not read may take, MB: buffers of both connections and of the stream. */
const MB_PER_RESPONSE = 0.3;

describe('bodies of many clients at once', { retry: 2 }, () => {
  let target: Target;
  let other: OtherClient;
  let before: number;
  let peak: number;
  let watch: NodeJS.Timeout;
  const connections: RawConnection[] = [];
  beforeAll(async () => {
    target = await startTarget({ server: { requestMemory: `${BUDGET_MB}MB` } });
  });
  afterAll(() => target?.close());
  beforeEach(() => {
    before = target.memory();
    peak = 0;
    watch = setInterval(() => {
      peak = Math.max(peak, target.memory() - before);
    }, 50);
    other = new OtherClient(target);
  });
  afterEach(async () => {
    clearInterval(watch);
    for (const { socket } of connections.splice(0)) socket.destroy();
    const { served, slowestMs } = await other.stop();
    console.log(`peak ${Math.round(peak)} MB more; others: ${served} served, slowest ${Math.round(slowestMs)} ms`);
    expect(served).toBeGreaterThan(0);
    expect(peak).toBeLessThan(BUDGET_MB * BYTES_PER_BYTE + SENDERS * MB_PER_CONNECTION);
  });
  const open = async (count: number): Promise<readonly RawConnection[]> => {
    const opened = await Promise.all(Array.from({ length: count }, () => new RawConnection(target.port).open()));
    connections.push(...opened);
    return opened;
  };
  /** Connections of which bytes were read; idle ones are closed when memory is short, and their clients make others. */
  const begin = async (
    count: number,
    start: string | Buffer,
    isDone: (senders: readonly RawConnection[]) => boolean | Promise<boolean> = async () =>
      (await inUse(target)) >= count,
  ): Promise<readonly RawConnection[]> => {
    await expect.poll(() => inUse(target), { timeout: 60_000 }).toBe(0);
    let senders: readonly RawConnection[] = [];
    const isRead = async () => {
      senders = senders.filter(({ closed, statuses }) => !closed || statuses.length > 0);
      const more = await open(count - senders.length);
      for (const sender of more) sender.send(start);
      senders = [...senders, ...more];
      return await isDone(senders);
    };
    await expect.poll(isRead, { timeout: 60_000, interval: 200 }).toBe(true);
    return senders;
  };
  const head = (...lines: readonly string[]) =>
    `POST /v1/statement HTTP/1.1\r\nHost: x\r\nX-Engine-User: u\r\n${lines.join('\r\n')}\r\n\r\n`;
  /** Waits until the gateway has read what was sent, as far as it ever will. */
  const settled = async (senders: readonly RawConnection[]) => {
    const unsent = () => senders.reduce((sum, { socket, closed }) => sum + (closed ? 0 : socket.writableLength), 0);
    await expect.poll(unsent, { timeout: 60_000, interval: 100 }).toBe(0);
  };

  test('600 slow submissions of 1 MB: those beyond server.requestMemory are answered 503, others are served in the end', async () => {
    const senders = await begin(SENDERS, `${head(`Content-Length: ${MEGABYTE}`)} `);
    const piece = Buffer.alloc(MEGABYTE / 16, ' ');
    for (let round = 0; round < 15; round++) {
      for (const sender of senders) if (!sender.closed && sender.statuses.length === 0) sender.send(piece);
      await settled(senders);
      await pause(100);
    }
    const refused = senders.filter((sender) => sender.statuses.length > 0);
    expect([...new Set(refused.flatMap((sender) => sender.statuses))]).toEqual([503]);
    expect(refused.every(({ received }) => /\r\nretry-after: 1\r\n/i.test(received))).toBe(true);
    expect(refused.every(({ received }) => received.includes('server.requestMemory'))).toBe(true);
    const taken = senders.filter((sender) => sender.statuses.length === 0);
    console.log(`${taken.length} taken, ${refused.length} refused`);
    expect(taken.length).toBeGreaterThan(BUDGET_MB / 8);
    expect(refused.length).toBeGreaterThan(SENDERS / 2);
    for (const sender of taken) sender.send(piece.subarray(1));
    // The last pieces need memory too.
    await expect.poll(() => taken.every(({ statuses }) => statuses.length > 0), { timeout: 60_000 }).toBe(true);
    expect([...new Set(taken.flatMap(({ statuses }) => statuses))].filter((status) => status !== 503)).toEqual([200]);
    expect(taken.filter(({ statuses }) => statuses[0] === 200).length).toBeGreaterThan(BUDGET_MB / 8);
    expect(await inUse(target)).toBeLessThan(MEGABYTE);
  });

  test('bodies in chunks of one byte cost no more than others', async () => {
    const senders = await begin(20, `${head('Transfer-Encoding: chunked')}1\r\n \r\n`);
    const chunks = Buffer.from('1\r\n \r\n'.repeat(20_000));
    for (let round = 0; round < 4; round++) {
      for (const sender of senders) sender.send(chunks);
      await settled(senders);
    }
    await expect
      .poll(() => inUse(target), { timeout: 60_000, interval: 500 })
      .toBeGreaterThanOrEqual(senders.length * 80_000);
    for (const sender of senders) sender.send('0\r\n\r\n');
    await expect.poll(() => senders.every(({ statuses }) => statuses[0] === 200), { timeout: 60_000 }).toBe(true);
  });

  test('uploads to a cluster that does not read them: those beyond server.requestMemory are answered 503', async () => {
    const body = 'x'.repeat(300_000);
    const upload = Buffer.from(`POST /ui/stuck HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    const refused = (all: readonly RawConnection[]) => all.filter(({ statuses }) => statuses.length > 0);
    // Each may take 128 KiB of three quarters of the budget.
    const room = (BUDGET_MB * MEGABYTE * 0.75) / (128 * 1024);
    const senders = await begin(SENDERS, upload, (all) => refused(all).length >= SENDERS - room);
    expect([...new Set(refused(senders).flatMap(({ statuses }) => statuses))]).toEqual([503]);
    expect(await inUse(target)).toBeLessThanOrEqual(BUDGET_MB * MEGABYTE);
  });
});

describe('uploads in chunks of one byte to a cluster that does not read them', { retry: 2 }, () => {
  // Enough that what they add outweighs what a collection of garbage leaves for later, which differs by 25 MB from run to run.
  const UPLOADS = 200;
  /** What one may add, MB: twice what is counted for an upload (128 KiB), and what the connections take. */
  const MB_PER_UPLOAD = 0.3;
  /** What a gateway that begins to work adds whatever the requests are, MB. */
  const WARM_UP_MB = 40;
  let target: Target;
  beforeAll(async () => {
    target = await startTarget({ server: { requestMemory: `${BUDGET_MB}MB` } });
  });
  afterAll(() => target?.close());

  test('cost no more than others, and others are served', async () => {
    const senders = await Promise.all(Array.from({ length: UPLOADS }, () => new RawConnection(target.port).open()));
    const before = target.memory();
    const other = new OtherClient(target);
    const chunks = Buffer.from('1\r\n \r\n'.repeat(80_000));
    for (const sender of senders) {
      sender.send('POST /ui/stuck HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
      sender.send(chunks);
    }
    let peak = 0;
    let unsent = Number.POSITIVE_INFINITY;
    let still = 0;
    // Until the gateway has read what it ever will.
    await expect
      .poll(
        () => {
          peak = Math.max(peak, target.memory() - before);
          const now = senders.reduce((sum, { socket }) => sum + socket.writableLength, 0);
          still = now === unsent && now < UPLOADS * chunks.length ? still + 1 : 0;
          unsent = now;
          return still;
        },
        { timeout: 90_000, interval: 200 },
      )
      .toBeGreaterThan(20);
    console.log(`uploads in chunks of one byte: peak ${Math.round(peak)} MB more`);
    expect(senders.filter(({ closed, statuses }) => closed || statuses.length > 0)).toEqual([]);
    for (const { socket } of senders) socket.destroy();
    expect((await other.stop()).served).toBeGreaterThan(0);
    expect(peak).toBeLessThan(WARM_UP_MB + UPLOADS * MB_PER_UPLOAD);
  });
});

describe.skipIf(!hasOpenssl)('one HTTP/2 connection', { retry: 2 }, () => {
  const STREAMS = 250;
  let target: Target;
  let folder: ReturnType<typeof certificateFolder>;
  let authority: ReturnType<typeof folder.authority>;
  beforeAll(async () => {
    folder = certificateFolder();
    authority = folder.authority('clients');
    target = await startTarget({
      server: { requestMemory: `${BUDGET_MB}MB` },
      serverConfig: {
        'http-server.https.enabled': true,
        'http-server.https.port': 0,
        'http-server.https.keystore.path': authority.issue(['DNS:localhost', 'IP:127.0.0.1']).file,
      },
    });
  });
  afterAll(async () => {
    await target?.close();
    folder?.dispose();
  });

  test('takes no more than the memory for bodies, and others are served', async () => {
    const before = target.memory();
    const other = new OtherClient(target);
    const session = connectHttp2(target.gateway.listening.httpsUrl as string, {
      ca: authority.cert,
      maxSessionMemory: 1_000,
    });
    session.on('error', () => undefined);
    const statuses: number[] = [];
    const piece = Buffer.alloc(MEGABYTE - 1, ' ');
    for (let index = 0; index < STREAMS; index++) {
      const stream = session.request({
        ':method': 'POST',
        ':path': '/v1/statement',
        'x-engine-user': 'u',
        'content-length': MEGABYTE,
      });
      stream.on('error', () => undefined);
      stream.on('response', (headers) => statuses.push(Number(headers[':status'])));
      stream.write(piece);
    }
    const share = BUDGET_MB * 0.75;
    let peak = 0;
    await expect
      .poll(
        () => {
          peak = Math.max(peak, target.memory() - before);
          return statuses.length;
        },
        { timeout: 60_000, interval: 50 },
      )
      .toBeGreaterThanOrEqual(STREAMS - share - 1);
    expect([...new Set(statuses)]).toEqual([503]);
    expect(await inUse(target)).toBeLessThanOrEqual(BUDGET_MB * MEGABYTE);
    const { served } = await other.stop();
    session.destroy();
    expect(served).toBeGreaterThan(0);
    console.log(`one HTTP/2 connection: peak ${Math.round(peak)} MB more`);
    expect(peak).toBeLessThan(BUDGET_MB * BYTES_PER_BYTE);
    await expect.poll(() => inUse(target), { timeout: 20_000 }).toBe(0);
  });

  test('that does not read 250 endless answers holds a bounded part of each, and others are served', async () => {
    const before = target.memory();
    const other = new OtherClient(target);
    const session = connectHttp2(target.gateway.listening.httpsUrl as string, { ca: authority.cert });
    session.on('error', () => undefined);
    for (let index = 0; index < STREAMS; index++) {
      session.request({ ':path': '/ui/endless' }).on('error', () => undefined);
    }
    const running = () => target.metric('cluster_requests_in_flight');
    await expect.poll(running, { timeout: 20_000 }).toBeGreaterThanOrEqual(STREAMS);
    let peak = 0;
    let still = 0;
    // As long as the gateway takes more of the answers, its memory grows.
    await expect
      .poll(
        () => {
          const now = target.memory() - before;
          still = now > peak + 2 ? 0 : still + 1;
          peak = Math.max(peak, now);
          return still;
        },
        { timeout: 30_000, interval: 200 },
      )
      .toBeGreaterThan(10);
    session.destroy();
    expect((await other.stop()).served).toBeGreaterThan(0);
    console.log(`250 unread answers: peak ${Math.round(peak)} MB more`);
    expect(peak).toBeLessThan(STREAMS * MB_PER_RESPONSE);
  });
});

/** What the gateway says that bodies hold, bytes. */
const inUse = (target: Target): Promise<number> => target.metric('request_memory_bytes');
