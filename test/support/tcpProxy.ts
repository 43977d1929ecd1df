import { connect, createServer, type Socket } from 'node:net';

/** A TCP proxy that can be made to misbehave, between a client and a real server. */
export interface TcpProxy {
  readonly port: number;
  /** Connections accepted so far. */
  readonly accepted: number;
  /** Resets all connections. */
  reset(): void;
  /** From now on nothing passes, without an error on either side: a half-open connection. */
  stall(): void;
  /** Ends stalling for connections made afterwards; stalled ones stay silent. */
  resume(): void;
  /** Connections made afterwards go to another port of this machine, as a load balancer does when a server is gone. */
  forwardTo(port: number): void;
  /** Refuses (by resetting) or accepts new connections. */
  refuse(refusing: boolean): void;
  close(): Promise<void>;
}

/** Starts a proxy before a port of this machine. */
export async function startTcpProxy(target: number): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let port = target;
  let stalled = false;
  let refusing = false;
  let accepted = 0;
  const server = createServer((client) => {
    accepted += 1;
    client.on('error', () => undefined);
    if (refusing) {
      client.resetAndDestroy();
      return;
    }
    const upstream = connect(port, '127.0.0.1');
    upstream.on('error', () => client.destroy());
    const pair = [client, upstream] as const;
    pairs.add(pair);
    let silent = stalled;
    const pass = (from: Socket, to: Socket): void => {
      from.on('data', (chunk) => {
        silent ||= stalled;
        if (!silent) to.write(chunk);
      });
      from.on('close', () => {
        pairs.delete(pair);
        if (!silent) to.destroy();
      });
    };
    pass(client, upstream);
    pass(upstream, client);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as { port: number }).port,
    get accepted() {
      return accepted;
    },
    reset: () => {
      for (const [client, upstream] of pairs) {
        client.resetAndDestroy();
        upstream.destroy();
      }
    },
    stall: () => {
      stalled = true;
    },
    resume: () => {
      stalled = false;
    },
    forwardTo: (other) => {
      port = other;
    },
    refuse: (value) => {
      refusing = value;
    },
    close: async () => {
      for (const pair of pairs) for (const socket of pair) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
