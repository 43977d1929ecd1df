import type { Logger } from 'pino';
import { Counter, Gauge, type Registry } from 'prom-client';
import { followFiles } from '../../config/followedFiles.ts';
import { GatewayError } from '../../model/errors.ts';
import { noTlsMaterial, readTlsFiles, TlsFileError, type TlsFiles, type TlsMaterial, tlsMaterial } from './tlsFiles.ts';

/** Use of certificate files; the label of their metrics. */
export type TlsUse = 'clients' | 'clusters' | 'healthChecks' | 'rulesService';

export class TlsMetrics {
  readonly #expiry: Gauge<'use'>;
  readonly #reloads: Counter<'use' | 'result'>;

  constructor(registry: Registry) {
    this.#expiry = new Gauge({
      name: 'engine_gateway_tls_certificate_expiry_timestamp_seconds',
      help: 'End of validity of the certificate in use, seconds since 1970 (PEM files only).',
      labelNames: ['use'],
      registers: [registry],
    });
    this.#reloads = new Counter({
      name: 'engine_gateway_tls_reloads_total',
      help: 'Changed certificate files, by result: taken or refused.',
      labelNames: ['use', 'result'],
      registers: [registry],
    });
  }

  inUse(use: TlsUse, { chain: [leaf] }: TlsMaterial): void {
    // From the start, so that Prometheus detects the first reload as an increase.
    for (const result of ['taken', 'refused']) this.#reloads.inc({ use, result }, 0);
    if (leaf !== undefined) this.#expiry.set({ use }, leaf.validToDate.getTime() / 1000);
  }

  reloaded(use: TlsUse, result: 'taken' | 'refused'): void {
    this.#reloads.inc({ use, result });
  }
}

export interface TlsWatchOptions {
  readonly use: TlsUse;
  readonly files: TlsFiles;
  /** Milliseconds between two reads of the files. */
  readonly refreshTime: number;
  readonly logger: Logger;
  readonly metrics: TlsMetrics;
}

/** Followed certificate files: changes are applied, broken files are reported and leave the last good ones active. */
export interface TlsWatch {
  /** The active files; a new object after each change. */
  readonly current: TlsMaterial;
  onChange(listener: (material: TlsMaterial) => void): void;
  stop(): void;
}

/**
 * Loads certificate files and follows them. Compares contents, not times: mounted Secrets change by a swapped link.
 * @throws GatewayError EG_IMPOSSIBLE for unusable files at the start: the message names key and file
 */
export async function watchTls(options: TlsWatchOptions): Promise<TlsWatch> {
  const { files } = options;
  if (files.keyStore === null && files.trustStore === null) {
    return { current: noTlsMaterial, onChange: () => undefined, stop: () => undefined };
  }
  try {
    const listeners: ((material: TlsMaterial) => void)[] = [];
    const followed = await followFiles(
      () => readTlsFiles(files),
      (contents) => tlsMaterial(files, contents),
      (problem, material) => report(options, listeners, problem, material),
      options.refreshTime,
    );
    options.metrics.inUse(options.use, followed.current);
    warnOfExpiry(options, followed.current);
    return {
      get current() {
        return followed.current;
      },
      onChange: (listener) => void listeners.push(listener),
      stop: () => followed.stop(),
    };
  } catch (error) {
    if (!(error instanceof TlsFileError)) throw error;
    const { key } = error.file;
    throw new GatewayError('EG_IMPOSSIBLE', `${key}: ${error.message}`, { field: key, cause: error });
  }
}

function report(
  { use, metrics, logger }: TlsWatchOptions,
  listeners: readonly ((material: TlsMaterial) => void)[],
  reason: string | null,
  material: TlsMaterial,
): void {
  if (reason !== null) {
    metrics.reloaded(use, 'refused');
    logger.error({ use, reason }, 'changed certificate files rejected; last valid ones stay active');
    return;
  }
  for (const listener of listeners) listener(material);
  metrics.inUse(use, material);
  metrics.reloaded(use, 'taken');
  const [leaf] = material.chain;
  logger.info({ use, subject: leaf?.subject, validTo: leaf?.validTo }, 'certificate files reloaded');
  warnOfExpiry({ use, logger }, material);
}

function warnOfExpiry({ use, logger }: Pick<TlsWatchOptions, 'use' | 'logger'>, { chain: [leaf] }: TlsMaterial): void {
  if (leaf !== undefined && leaf.validToDate.getTime() < Date.now()) {
    logger.warn({ use, subject: leaf.subject, validTo: leaf.validTo }, 'certificate expired');
  }
}
