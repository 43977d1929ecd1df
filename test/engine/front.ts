import { createServer, Agent as HttpAgent, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';

/** An HTTP front in front of several replicas, which takes the next one at each request. */
export interface Front {
  readonly url: string;
  /** Requests that each replica got, by position. */
  readonly counts: readonly number[];
  close(): Promise<void>;
}

/**
 * Starts a front on a free port. It passes requests on as they are, `Host` included, as a TCP load balancer would.
 * @param withoutSpooling takes the header away by which clients ask for the spooled protocol
 * @param moreHeaders names and values in turn of headers that each request gets besides its own
 */
export async function startFront(
  targets: readonly string[],
  withoutSpooling = false,
  moreHeaders: readonly string[] = [],
): Promise<Front> {
  const agent = new HttpAgent({ keepAlive: true });
  const counts = targets.map(() => 0);
  let next = 0;
  const server = createServer((incoming, outgoing) => {
    const turn = next % targets.length;
    next += 1;
    counts[turn] = (counts[turn] ?? 0) + 1;
    const { hostname, port } = new URL(targets[turn] ?? '');
    const { rawHeaders } = incoming;
    const own = withoutSpooling ? without(rawHeaders, 'x-trino-query-data-encoding') : rawHeaders;
    const headers = [...own, ...moreHeaders];
    const upstream = httpRequest(
      { agent, hostname, port, method: incoming.method, path: incoming.url, headers },
      (response) => {
        outgoing.writeHead(response.statusCode ?? 502, response.rawHeaders);
        response.pipe(outgoing);
        response.once('error', () => outgoing.destroy());
      },
    );
    upstream.once('error', () => {
      if (outgoing.headersSent) outgoing.destroy();
      else outgoing.writeHead(502).end('the replica did not answer');
    });
    outgoing.once('close', () => {
      if (!outgoing.writableFinished) upstream.destroy();
    });
    incoming.pipe(upstream);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    counts,
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      agent.destroy();
      await closed;
    },
  };
}

/** Raw headers, names and values in turn, without those of a name. */
function without(rawHeaders: readonly string[], name: string): string[] {
  return rawHeaders.filter((_, index) => rawHeaders[index - (index % 2)]?.toLowerCase() !== name);
}
