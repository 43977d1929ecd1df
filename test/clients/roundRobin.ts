import type { AddressInfo } from 'node:net';
import { connect, createServer, type Socket } from 'node:net';

/** A load balancer of TCP connections. */
export interface RoundRobin {
  readonly port: number;
  close(): Promise<void>;
}

/** Starts one on a free port of 127.0.0.1, which gives each connection to the next of the ports. */
export async function startRoundRobin(ports: readonly number[]): Promise<RoundRobin> {
  const sockets = new Set<Socket>();
  let next = 0;
  const server = createServer((client) => {
    const upstream = connect(ports[next % ports.length] ?? 0, '127.0.0.1');
    next += 1;
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from.once('error', () => to.destroy());
      from.once('close', () => {
        sockets.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
