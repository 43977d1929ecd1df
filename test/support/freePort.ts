import { createServer } from 'node:net';

/** Ports below those that the kernel gives to connections and to servers that listen on port 0. */
const [FIRST, LAST] = [18_000, 32_000];

/** A port on which nothing listens. No other process gets it by chance before the caller uses it. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(port, () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}
