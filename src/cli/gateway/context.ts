import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import type { Environment } from '../../config/environment.ts';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import type { TrustPeer } from '../../gateway/headers/trustedProxies.ts';
import { trustPeers } from '../../gateway/headers/trustedProxies.ts';
import { type Clock, type Random, systemClock } from '../../model/clock.ts';
import { type ProductNames, productNames } from '../../model/names.ts';

/** What a gateway is started with. */
export interface GatewayOptions {
  readonly config: GatewayConfig;
  readonly version: string;
  readonly logger: Logger;
  /** Variables for files that the configuration names. */
  readonly environment: Environment;
}

/** What all parts of a gateway share: settings, names, clock, log, metrics, and how they are closed. */
export interface Frame extends GatewayOptions {
  /** Settings as they are now; `config` has them as they were at the start. */
  readonly current: () => GatewayConfig;
  readonly names: ProductNames;
  readonly metrics: Registry;
  readonly trustPeer: TrustPeer;
  readonly clock: Clock;
  readonly random: Random;
  /** Milliseconds since 1970 at which the gateway was started. */
  readonly startedAt: number;
  /** Whether the gateway has been told to stop. */
  readonly stopping: () => boolean;
  /** Registers a part that takes changed settings. */
  onChange(take: (config: GatewayConfig) => void): void;
  /** Registers a cleanup; those of the end run last first. */
  undo(step: () => unknown): void;
}

/** The frame, and what its owner does with it. */
export interface OpenFrame {
  readonly frame: Frame;
  configure(next: GatewayConfig): void;
  /** From now on `stopping` is true. */
  beginStop(): void;
  /** Runs every cleanup, last first. */
  close(): Promise<void>;
}

/** Makes the frame for the parts of one gateway. */
export function openFrame(options: GatewayOptions): OpenFrame {
  const { config } = options;
  const parts = new AsyncDisposableStack();
  const takers: ((config: GatewayConfig) => void)[] = [];
  let current = config;
  let stopping = false;
  return {
    frame: {
      ...options,
      current: () => current,
      names: productNames(config.protocol.productName),
      metrics: new Registry(),
      trustPeer: trustPeers(config.serverConfig['http-server.process-forwarded'], config.server.trustedProxies),
      clock: systemClock,
      random: Math.random,
      startedAt: systemClock.now(),
      stopping: () => stopping,
      onChange: (take) => void takers.push(take),
      undo: (step) =>
        parts.defer(async () => {
          await step();
        }),
    },
    configure(next) {
      current = next;
      for (const take of takers) take(next);
    },
    beginStop() {
      stopping = true;
    },
    close: () => parts.disposeAsync(),
  };
}
