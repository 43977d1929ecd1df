import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Engines that answer health checks and every statement at once, each on a loopback address of its own. */
export class Engines {
  readonly #servers: Server[] = [];

  /** Starts so many. */
  static async start(count: number): Promise<Engines> {
    const engines = new Engines();
    for (let index = 0; index < count; index += 1) await engines.#start(`127.1.${index >> 7}.${(index & 127) + 1}`);
    return engines;
  }

  get urls(): readonly string[] {
    return this.#servers.map((server) => {
      const { address, port } = server.address() as AddressInfo;
      return `http://${address}:${port}`;
    });
  }

  async stop(): Promise<void> {
    await Promise.all(
      this.#servers.map(async (server) => {
        server.closeAllConnections();
        await new Promise((done) => server.close(done));
      }),
    );
  }

  async #start(address: string): Promise<void> {
    const id = `20260101_000000_00000_${suffixOf(this.#servers.length)}`;
    const server = createServer((request, response) => {
      request.resume();
      response.setHeader('Content-Type', 'application/json');
      response.end(
        JSON.stringify(
          request.url === '/v1/info'
            ? { nodeVersion: { version: '476' }, environment: 'bench', coordinator: true, starting: false }
            : { id, infoUri: `http://${address}/ui/query.html?${id}`, stats: { state: 'FINISHED' } },
        ),
      );
    });
    await new Promise<void>((done) => server.listen(0, address, done));
    this.#servers.push(server);
  }
}

/** Suffix of the ids of an engine: its number in letters. */
function suffixOf(engine: number): string {
  return [...String(engine).padStart(5, '0')].map((digit) => 'abcdefghij'[Number(digit)]).join('');
}

/** Number of the engine that gave a query its id; null for none of these. */
export function engineOfQuery(id: string): number | null {
  const suffix = /_([a-j]{5})$/.exec(id)?.[1];
  return suffix === undefined ? null : Number([...suffix].map((letter) => 'abcdefghij'.indexOf(letter)).join(''));
}
