import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import type { Environment } from '../../config/environment.ts';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import type { TrustPeer } from '../../gateway/headers/trustedProxies.ts';
import { trustPeers } from '../../gateway/headers/trustedProxies.ts';
import { type Clock, type Random, systemClock } from '../../model/clock.ts';
import { type ProductNames, productNames } from '../../model/names.ts';

export interface GatewayOptions {
  readonly config: GatewayConfig;
  readonly version: string;
  readonly logger: Logger;
  readonly environment: Environment;
}

/** Shared context of all parts of a gateway: configuration, names, clock, log, metrics, and cleanup. */
export interface GatewayContext extends GatewayOptions {
  readonly names: ProductNames;
  readonly metrics: Registry;
  readonly trustPeer: TrustPeer;
  readonly clock: Clock;
  readonly random: Random;
  /** Name of this process in tables of replicas: unique among replicas and restarts, at most 64 characters. */
  readonly replica: string;
  /** Milliseconds since 1970 at which the gateway was started. */
  readonly startedAt: number;
  readonly stopping: () => boolean;
  /** Registers a cleanup; cleanups run in reverse order when the context closes. */
  onClose(step: () => unknown): void;
}

export interface OpenContext {
  readonly context: GatewayContext;
  /** Sets `stopping` to true. */
  beginStop(): void;
  close(): Promise<void>;
}

export function openContext(options: GatewayOptions): OpenContext {
  const { config } = options;
  const cleanups = new AsyncDisposableStack();
  let stopping = false;
  return {
    context: {
      ...options,
      names: productNames(config.protocol.productName, config.protocol.clusterHeaders),
      metrics: new Registry(),
      trustPeer: trustPeers(config.serverConfig['http-server.process-forwarded'], config.server.trustedProxies),
      clock: systemClock,
      random: Math.random,
      replica: `${hostname().slice(0, 40)}-${randomUUID().slice(0, 18)}`,
      startedAt: systemClock.now(),
      stopping: () => stopping,
      onClose: (step) =>
        cleanups.defer(async () => {
          await step();
        }),
    },
    beginStop() {
      stopping = true;
    },
    close: () => cleanups.disposeAsync(),
  };
}
