import { readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

/** What a hostile page found out; every value is the text of a result, so that a failure shows it. */
export interface Attacks {
  /** Status of a call that adds a cluster: with the user's cookies and whatever token was found, and without. */
  readonly addWithToken: string;
  readonly addWithCookies: string;
  readonly addWithoutCookies: string;
  readonly addByOtherHost: string;
  readonly tokenFromCookie: string;
  readonly tokenFromFetch: string;
  readonly tokenFromFrame: string;
  readonly tokenFromWindow: string;
  readonly tokenFromOpener: string;
  readonly referrer: string;
  readonly workerOfAll: string;
  readonly workerOfItsFolder: string;
  /** Own cookies that the page sees after it has tried to set them by script. */
  readonly cookies: string;
}

/** A cluster whose pages attack the user who is logged in to the gateway. */
export interface HostileCluster extends AsyncDisposable {
  readonly url: string;
}

/** Lines that would reach further than the answer that carries them. */
const hostileLines = (response: ServerResponse): void => {
  response.setHeader('Service-Worker-Allowed', '/');
  response.setHeader('Clear-Site-Data', '"cookies", "storage"');
  response.setHeader('Strict-Transport-Security', 'max-age=31536000; includeSubDomains');
  response.setHeader('Set-Cookie', [
    '__Host-Engine-Gateway-Session=evil; Secure; Path=/',
    '__Host-Engine-Gateway-CSRF=evil; Secure; Path=/',
    'Engine-Gateway-Session=evil; Domain=gateway.test; Path=/',
    'engine-gateway-csrf=evil; Domain=gateway.test; Path=/webapp',
    '=Engine-Gateway-CSRF=evil; Domain=gateway.test; Path=/',
    'harmless=1; Path=/',
  ]);
};

const page = readFileSync(join(import.meta.dirname, 'hostilePage.html'));

/** What health checks, and questions which coordinator it is, are answered; the pages' query ids end in this suffix. */
const info = JSON.stringify({ starting: false, coordinatorId: 'abcde' });

/** Starts the cluster on a free port of 127.0.0.1. To the gateway's own questions it is a cluster like any other. */
export async function startHostileCluster(): Promise<HostileCluster> {
  const server = createServer((request, response) => {
    request.resume();
    hostileLines(response);
    if (request.url?.startsWith('/ui/worker.js') === true) {
      response.writeHead(200, { 'Content-Type': 'text/javascript' }).end('self.addEventListener("fetch", () => {});');
    } else if (request.headers.accept?.includes('text/html') === true) {
      response.writeHead(200, { 'Content-Type': 'text/html' }).end(page);
    } else response.writeHead(200, { 'Content-Type': 'application/json' }).end(info);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
