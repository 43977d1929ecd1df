import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { connect, type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { certificateFolder, hasOpenssl } from '../support/certificates.ts';
import { type Http2Client, http2Client } from '../support/http2Client.ts';
import { manifest } from '../support/manifest.ts';
import { frame, headBlock, headFrames } from '../support/rawHttp2.ts';
import { OtherClient, RawConnection, startTarget, type Target } from './target.ts';

const MEGABYTE = 1024 ** 2;
/** The memory that heads may add, MB: half of the limit of the manifests. */
const ADDED_MB = 256;
/** `server.maxHttp2Connections` by default under that limit. */
const HTTP2_CONNECTIONS = 64;
/** What a connection itself takes, MB, over HTTP/1.1 and over TLS. */
const MB_PER_CONNECTION = 0.03;
const MB_PER_TLS_CONNECTION = 0.1;
/** Streams that a connection may have at once. */
const STREAMS = 250;
/** For how long heads are sent, milliseconds. */
const ATTACK_MS = 15_000;
/** Leads requests to a cluster of their own, so that they do not wait before those of others. */
const TO_STUCK = { 'x-engine-routing-group': 'stuck' };

/** Adds a cluster that is the only one of its group; the same program under another name. */
async function addStuckCluster(folder: string, clusterUrl: string): Promise<void> {
  const spec = { proxyTo: clusterUrl.replace('127.0.0.1', 'localhost'), routingGroup: 'stuck' };
  await writeFile(join(folder, 'stuck.yaml'), stringify(manifest('EngineCluster', 'stuck', spec)));
}

/** The connection preface, with empty settings. */
const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0, Buffer.alloc(0))]);

describe.skipIf(!hasOpenssl)('large heads on many connections', { retry: 2 }, () => {
  let target: Target;
  let folder: ReturnType<typeof certificateFolder>;
  let authority: ReturnType<typeof folder.authority>;
  let port: number;
  let other: OtherClient;
  let otherHttp2: OtherHttp2;
  let before: number;
  let peak: number;
  let watch: NodeJS.Timeout;
  const sockets: { destroy(): unknown }[] = [];

  beforeAll(async () => {
    folder = certificateFolder();
    authority = folder.authority('clients');
    target = await startTarget(
      {
        serverConfig: {
          'http-server.https.enabled': true,
          'http-server.https.port': 0,
          'http-server.https.keystore.path': authority.issue(['DNS:localhost', 'IP:127.0.0.1']).file,
        },
      },
      { prepare: addStuckCluster },
    );
    port = Number(new URL(String(target.gateway.listening.httpsUrl)).port);
  });
  afterAll(async () => {
    await target?.close();
    folder?.dispose();
  });
  beforeEach(async () => {
    otherHttp2 = await OtherHttp2.open(`https://localhost:${port}`, authority.cert);
    await target.loop();
    other = new OtherClient(target, true);
    before = target.memory();
    peak = 0;
    watch = setInterval(() => {
      peak = Math.max(peak, target.memory() - before);
    }, 50);
  });
  /** Others were served by both protocols, and the memory stayed within its limits. */
  const ended = async (name: string, connections: number, mbEach: number) => {
    const { served, slowestMs } = await other.stop();
    const overHttp2 = await otherHttp2.stop();
    const { cpuMs } = await target.loop();
    console.log(
      `${name}: peak ${Math.round(peak)} MB more (${Math.round(target.memory())} now), blocked ${Math.round(cpuMs)} ms; others: ${served} served, slowest ${Math.round(slowestMs)} ms, ${overHttp2} over HTTP/2`,
    );
    expect(served).toBeGreaterThan(0);
    expect(overHttp2).toBeGreaterThan(0);
    expect(peak).toBeLessThan(ADDED_MB + connections * mbEach);
  };
  afterEach(async () => {
    clearInterval(watch);
    for (const socket of sockets.splice(0)) socket.destroy();
    await otherHttp2.stop();
  });

  /** Connections over TLS that ask for HTTP/2, before anything is sent on them. */
  const open = async (count: number): Promise<readonly TLSSocket[]> => {
    const opened: TLSSocket[] = [];
    while (opened.length < count) {
      const some = Array.from({ length: Math.min(20, count - opened.length) }, async () => {
        const socket = connect({ port, host: 'localhost', ca: authority.cert, ALPNProtocols: ['h2', 'http/1.1'] });
        sockets.push(socket);
        await once(socket, 'secureConnect');
        socket.on('error', () => undefined);
        return socket;
      });
      opened.push(...(await Promise.all(some)));
    }
    return opened;
  };
  /** Waits until the gateway has read what was sent, as far as it ever will. */
  const settled = async (senders: readonly { writableLength: number; destroyed: boolean }[]) => {
    let last = -1;
    let still = 0;
    await expect
      .poll(
        () => {
          const now = senders.reduce((sum, socket) => sum + (socket.destroyed ? 0 : socket.writableLength), 0);
          still = now === last ? still + 1 : 0;
          last = now;
          return still;
        },
        { timeout: 100_000, interval: 100 },
      )
      .toBeGreaterThan(20);
  };

  test.each([20, 60, 200])('%d HTTP/2 connections, each with 250 heads of 58 kB', async (count) => {
    const block = headBlock('GET', '/ui/stuck', { ...TO_STUCK, 'x-large': '~'.repeat(58_000) });
    const senders = (await open(count)).filter(({ alpnProtocol }) => alpnProtocol === 'h2');
    await Promise.all(senders.map((socket) => sendStreams(socket, block)));
    await ended(`${count} HTTP/2 connections (${senders.length} taken)`, count, MB_PER_TLS_CONNECTION);
  });

  test('400 HTTP/2 connections, each with a head of 140 kB that does not end', async () => {
    const block = headBlock('GET', '/ui/stuck', {
      ...TO_STUCK,
      'x-a': '~'.repeat(60_000),
      'x-b': '~'.repeat(60_000),
      'x-c': '~'.repeat(20_000),
    });
    const opened = await open(400);
    const senders = opened.filter(({ alpnProtocol }) => alpnProtocol === 'h2');
    for (const socket of senders) {
      socket.resume();
      socket.write(Buffer.concat([PREFACE, ...headFrames(1, block, true, true)]));
    }
    await settled(senders);
    expect(senders.length).toBeLessThanOrEqual(HTTP2_CONNECTIONS);
    const further = opened.find(({ alpnProtocol }) => alpnProtocol === 'http/1.1') as TLSSocket;
    further.write('GET /v1/node HTTP/1.1\r\nHost: x\r\n\r\n');
    expect(String(await once(further, 'data'))).toMatch(/^HTTP\/1\.1 200 /);
    await ended(`heads without an end (${senders.length} taken)`, 400, MB_PER_TLS_CONNECTION);
  });

  test('200 HTTP/2 connections, each with 250 small requests whose answers may not be sent', async () => {
    const block = headBlock('GET', '/v1/nothing', { 'x-small': '~'.repeat(3_500) });
    // A window of 0 for the bodies of answers.
    const settings = frame(4, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0]));
    const senders = (await open(200)).filter(({ alpnProtocol }) => alpnProtocol === 'h2');
    await Promise.all(senders.map((socket) => sendStreams(socket, block, settings)));
    await ended(`answers that may not be sent (${senders.length} taken)`, 200, MB_PER_TLS_CONNECTION);
  });

  test.each([
    ['partial', 120_000, ''],
    ['whole', 120_000, '\r\n\r\n'],
    ['too large', MEGABYTE, ''],
  ])('600 HTTP/1.1 connections with a %s head of %d bytes', async (name, bytes, end) => {
    const count = 600;
    const senders = await Promise.all(Array.from({ length: count }, () => new RawConnection(target.port).open()));
    sockets.push(...senders.map(({ socket }) => socket));
    const lines = Array.from({ length: 16 }, (_, index) => `x-${index}: ${'~'.repeat(bytes / 16)}`).join('\r\n');
    const head = Buffer.from(`GET /ui/stuck HTTP/1.1\r\nHost: x\r\nX-Engine-Routing-Group: stuck\r\n${lines}${end}`);
    for (const [index, sender] of senders.entries()) {
      sender.send(head);
      // The cluster is in this process too.
      if (index % 10 === 9) await pause(20);
    }
    await settled(senders.map(({ socket }) => socket));
    const statuses = senders.flatMap((sender) => sender.statuses);
    expect([...new Set(statuses)]).toEqual(name === 'too large' ? [431] : []);
    await ended(`HTTP/1.1, ${name} heads (${statuses.length} rejected)`, count, MB_PER_CONNECTION);
  });
});

/** Sends a request with the head on each stream, as fast as the gateway takes them, for a while or until it ends the connection. */
async function sendStreams(socket: TLSSocket, block: Buffer, settings: Buffer = Buffer.alloc(0)): Promise<void> {
  const closed = new Promise<void>((resolve) => socket.once('close', resolve));
  socket.resume();
  socket.write(Buffer.concat([PREFACE, settings]));
  const until = performance.now() + ATTACK_MS;
  for (let stream = 0; stream < STREAMS && !socket.destroyed && performance.now() < until; stream++) {
    const sent = new Promise<void>((resolve) =>
      socket.write(Buffer.concat(headFrames(2 * stream + 1, block, true)), () => resolve()),
    );
    await Promise.race([sent, closed]);
  }
}

/**
 * Another client over HTTP/2, which sends statements one after the other. As clients do, it connects again if its connection was
 * ended while it was idle (RFC 9113 §8.7), and obeys Retry-After.
 */
class OtherHttp2 {
  #client: Http2Client;
  readonly #connect: () => Promise<Http2Client>;
  #served = 0;
  #stopped = false;
  readonly #work: Promise<void>;

  private constructor(client: Http2Client, reconnect: () => Promise<Http2Client>) {
    this.#client = client;
    this.#connect = reconnect;
    this.#work = this.#run();
  }

  static async open(url: string, ca: string): Promise<OtherHttp2> {
    const reconnect = () => http2Client(url, { ca });
    return new OtherHttp2(await reconnect(), reconnect);
  }

  /** Ends it. @returns how many statements were served @throws when one was not */
  async stop(): Promise<number> {
    if (!this.#stopped) {
      this.#stopped = true;
      await this.#work;
      await this.#client.close();
    }
    return this.#served;
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      const headers = { ':method': 'POST', ':path': '/v1/statement', 'x-engine-user': 'other' };
      const { session } = this.#client;
      const sent = session.closed || session.destroyed ? 'ended' : await this.#send(headers);
      if (sent === 'ended') {
        this.#client = await this.#connect();
        continue;
      }
      const { status, headers: answered, text } = sent;
      if (status === 503 && answered['retry-after'] === '1' && text.includes('short of memory')) {
        await pause(1_000);
        continue;
      }
      if (status !== 200 || text.includes('"error"')) throw new Error(`HTTP ${status}: ${text}`);
      this.#served++;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Sends a statement; `ended` if the connection ended before the gateway looked at it. */
  async #send(headers: Readonly<Record<string, string>>): Promise<Awaited<ReturnType<Http2Client['send']>> | 'ended'> {
    try {
      return await this.#client.send(headers, 'SELECT 1');
    } catch (error) {
      const isUnseen = String(error).includes('NGHTTP2_REFUSED_STREAM') || this.#client.session.closed;
      if (!isUnseen) throw error;
      return 'ended';
    }
  }
}
