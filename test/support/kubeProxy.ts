import { createServer, type ServerResponse } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { ControlPlane } from './controlPlane.ts';

/** What the proxy answers in place of the API server. */
export type Refusal = (request: { readonly path: string; readonly isWatch: boolean }) => number | null;

/** An HTTP proxy before an API server, which may answer for it. */
export interface KubeProxy {
  /** `http://127.0.0.1:…`, for a kubeconfig. */
  readonly url: string;
  /** Paths that were asked for. */
  readonly paths: readonly string[];
  /** Watches that are open. */
  readonly watches: number;
  /**
   * From now on requests for which this gives a status are answered by it; null: the API server answers again.
   * @param headers further headers of these answers
   */
  refuse(refusal: Refusal | null, headers?: Readonly<Record<string, string>>): void;
  /** From now on requests of these paths wait; null: all that waited go on. */
  hold(paths: ((path: string) => boolean) | null): void;
  /** Requests that wait. */
  readonly held: number;
  /** Ends all watches, as a server does that goes down in order. */
  endWatches(): void;
  close(): Promise<void>;
}

/** Starts a proxy that passes everything on to the control plane's API server. */
export async function startKubeProxy(plane: ControlPlane): Promise<KubeProxy> {
  const { server, caData } = plane.config;
  const ca = Buffer.from(caData ?? '', 'base64');
  const paths: string[] = [];
  const watches = new Set<ServerResponse>();
  let refusal: Refusal | null = null;
  let refusalHeaders: Readonly<Record<string, string>> = {};
  let isHeld: ((path: string) => boolean) | null = null;
  const waiting = new Set<() => void>();
  const proxy = createServer(async (request, response) => {
    const path = request.url ?? '/';
    if (isHeld?.(path) === true) {
      await new Promise<void>((resolve) => {
        waiting.add(resolve);
        response.once('close', resolve);
      });
    }
    const isWatch = path.includes('watch=true');
    paths.push(path);
    const status = refusal?.({ path, isWatch }) ?? null;
    if (status !== null) {
      const message = `refused with ${status} by the test`;
      response.writeHead(status, { 'Content-Type': 'application/json', ...refusalHeaders });
      response.end(JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', code: status, message }));
      return;
    }
    const upstream = httpsRequest(new URL(path, server), { method: request.method, headers: request.headers, ca });
    upstream.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
      if (isWatch) watches.add(response);
    });
    upstream.on('error', () => response.destroy());
    response.on('close', () => {
      watches.delete(response);
      upstream.destroy();
    });
    request.pipe(upstream);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    paths,
    get watches() {
      return watches.size;
    },
    refuse: (value, headers = {}) => {
      refusal = value;
      refusalHeaders = headers;
    },
    hold: (held) => {
      isHeld = held;
      if (held !== null) return;
      for (const go of waiting) go();
      waiting.clear();
    },
    get held() {
      return waiting.size;
    },
    endWatches: () => {
      for (const response of watches) response.end();
    },
    close: async () => {
      proxy.closeAllConnections();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}
