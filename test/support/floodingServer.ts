import { startServer, until } from './gateway.ts';

/** A server that writes one long answer as fast as it is read. */
export interface FloodingServer {
  readonly url: string;
  /** Bytes given to the connection so far. */
  written(): number;
  /** Waits until writing has come to rest, as the reader has stopped. */
  heldBack(): Promise<void>;
}

/** Starts a server whose every answer has `total` bytes. */
export async function startFloodingServer(total: number): Promise<FloodingServer> {
  let written = 0;
  const { url } = await startServer((_request, response) => {
    response.writeHead(200, { 'content-length': total });
    const chunk = Buffer.alloc(65_536);
    const more = () => {
      while (written < total) {
        written += chunk.length;
        if (!response.write(chunk)) {
          response.once('drain', more);
          return;
        }
      }
      response.end();
    };
    more();
  });
  const heldBack = async (): Promise<void> => {
    let last = -1;
    await until(
      async () => {
        const still = written === last;
        last = written;
        await new Promise((resolve) => setTimeout(resolve, 100));
        return still && written > 0;
      },
      'the cluster to be held back',
      10_000,
    );
  };
  return { url, written: () => written, heldBack };
}
