import type { Logger } from 'pino';
import { type Counter, type Gauge, Counter as PromCounter, Gauge as PromGauge, type Registry } from 'prom-client';
import { GatewayError } from '../../model/errors.ts';
import {
  noTlsMaterial,
  readTlsFiles,
  type TlsContents,
  TlsFileError,
  type TlsFiles,
  type TlsMaterial,
  tlsMaterial,
} from './tlsFiles.ts';

/** Use of certificate files; the label of their metrics. */
export type TlsUse = 'clients' | 'clusters' | 'healthChecks' | 'rulesService';

export class TlsMetrics {
  readonly #expiry: Gauge<'use'>;
  readonly #reloads: Counter<'use' | 'result'>;

  constructor(registry: Registry) {
    this.#expiry = new PromGauge({
      name: 'engine_gateway_tls_certificate_expiry_timestamp_seconds',
      help: 'End of validity of the certificate in use, seconds since 1970 (PEM files only).',
      labelNames: ['use'],
      registers: [registry],
    });
    this.#reloads = new PromCounter({
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
    const contents = await readTlsFiles(files);
    return new FollowedFiles(options, contents, tlsMaterial(files, contents));
  } catch (error) {
    if (!(error instanceof TlsFileError)) throw error;
    const { key } = error.file;
    throw new GatewayError('EG_IMPOSSIBLE', `${key}: ${error.message}`, { field: key, cause: error });
  }
}

class FollowedFiles implements TlsWatch {
  readonly #options: TlsWatchOptions;
  readonly #listeners: ((material: TlsMaterial) => void)[] = [];
  readonly #timer: NodeJS.Timeout;
  #lastRead: TlsContents;
  #current: TlsMaterial;
  #looking = false;
  /** The last reported problem. */
  #lastComplaint = '';

  constructor(options: TlsWatchOptions, contents: TlsContents, material: TlsMaterial) {
    this.#options = options;
    this.#lastRead = contents;
    this.#current = material;
    options.metrics.inUse(options.use, material);
    this.#warnOfExpiry();
    this.#timer = setInterval(() => void this.#look(), options.refreshTime).unref();
  }

  get current(): TlsMaterial {
    return this.#current;
  }

  onChange(listener: (material: TlsMaterial) => void): void {
    this.#listeners.push(listener);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      const contents = await readTlsFiles(this.#options.files);
      if (same(contents.keyStore, this.#lastRead.keyStore) && same(contents.trustStore, this.#lastRead.trustStore))
        return;
      const material = tlsMaterial(this.#options.files, contents);
      this.#lastRead = contents;
      this.#take(material);
    } catch (error) {
      this.#refuse(error);
    } finally {
      this.#looking = false;
    }
  }

  #take(material: TlsMaterial): void {
    const { use, metrics, logger } = this.#options;
    this.#current = material;
    this.#lastComplaint = '';
    for (const listener of this.#listeners) listener(material);
    metrics.inUse(use, material);
    metrics.reloaded(use, 'taken');
    const [leaf] = material.chain;
    logger.info({ use, subject: leaf?.subject, validTo: leaf?.validTo }, 'changed certificate files taken');
    this.#warnOfExpiry();
  }

  #refuse(error: unknown): void {
    const { use, metrics, logger } = this.#options;
    const reason = error instanceof Error ? error.message : String(error);
    if (reason === this.#lastComplaint) return;
    this.#lastComplaint = reason;
    metrics.reloaded(use, 'refused');
    logger.error({ use, reason }, 'changed certificate files refused; the last good ones stay in use');
  }

  #warnOfExpiry(): void {
    const { use, logger } = this.#options;
    const [leaf] = this.#current.chain;
    if (leaf !== undefined && leaf.validToDate.getTime() < Date.now()) {
      logger.warn({ use, subject: leaf.subject, validTo: leaf.validTo }, 'the certificate has expired');
    }
  }
}

function same(one: Buffer | null, other: Buffer | null): boolean {
  return one === null || other === null ? one === other : one.equals(other);
}
