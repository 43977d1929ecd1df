import path from 'node:path';
import { startChildClient } from '../childClient.ts';
import type { Shape } from './shapes.ts';

/** Large answers to request. */
export interface BulkLoad {
  readonly url: string;
  readonly shape: Shape;
  /** HTTP/1.1 in clear text or over TLS, or HTTP/2 over TLS. */
  readonly protocol: 'http' | 'tls' | 'h2';
  readonly connections: number;
  /** On all connections together. */
  readonly requests: number;
  /** Reads each answer this slowly, and for how long; null: as fast as can be. */
  readonly slow: { readonly seconds: number; readonly bytesPerSecond: number } | null;
}

/** What came. */
export interface Done {
  readonly bytes: number;
  readonly failed: number;
  readonly error?: string;
}

/** Clients of large answers. */
export interface BulkClient {
  /** @throws where an answer was not whole */
  ask(load: BulkLoad): Promise<Done>;
  stop(): void;
}

/** Starts them, in a process of their own. */
export function startBulkClient(): BulkClient {
  const { ask, stop } = startChildClient<BulkLoad, Done>(path.join(import.meta.dirname, 'client.ts'));
  return {
    async ask(load) {
      const done = await ask(load);
      if (done.failed > 0) throw new Error(`${load.shape.name} from ${load.url}: ${done.error ?? 'not whole'}`);
      return done;
    },
    stop,
  };
}
