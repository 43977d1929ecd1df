import type { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import type { Logger } from 'pino';
import { Counter, Gauge, type Registry } from 'prom-client';
import { type FileWatch, followFiles } from '../../config/followedFiles.ts';
import { certificatesIn, certificatesProblem } from '../../model/certificates.ts';
import { GatewayError } from '../../model/errors.ts';
import { isJavaKeyStore, keyStoreConversion, trustStoreConversion } from '../../model/javaKeyStore.ts';

export interface TlsFile {
  readonly path: string;
  readonly key: string;
}

/** Certificate files of one side of TLS connections. */
export interface TlsFiles {
  /** Certificate chain with its private key: PEM, a folder with `tls.crt` and `tls.key`, or PKCS#12; or null. */
  readonly keyStore: (TlsFile & { readonly password: string | null }) | null;
  /** PEM with the authorities of the other side's certificate; null: Node.js' authorities. */
  readonly trustStore: TlsFile | null;
}

export interface TlsMaterial {
  /** For `tls.createSecureContext`. */
  readonly context: SecureContextOptions;
  /** The chain, leaf first; empty if unknown (PKCS#12) or missing. */
  readonly chain: readonly X509Certificate[];
}

function unusable({ key, path }: TlsFile, why: string, cause?: unknown): GatewayError {
  return new GatewayError('EG_IMPOSSIBLE', `${key}: ${path}: ${why}`, { field: key, cause });
}

/** No files: no certificate, Node.js' authorities. */
export const noTlsMaterial: TlsMaterial = { context: {}, chain: [] };

/** Contents of the key store and the trust store; null without the file. */
export type TlsContents = readonly [keyStore: Buffer | null, trustStore: Buffer | null];

/** Reads the files. @throws GatewayError EG_IMPOSSIBLE naming key and file, for an unreadable one */
export function readTlsFiles({ keyStore, trustStore }: TlsFiles): Promise<TlsContents> {
  return Promise.all([readOne(keyStore), readOne(trustStore)]);
}

/**
 * Checks the contents: a key that matches its certificate, the correct password, authorities in PEM.
 * @throws GatewayError EG_IMPOSSIBLE naming key, file and the fix
 */
export function tlsMaterial({ keyStore, trustStore }: TlsFiles, [identity, authorities]: TlsContents): TlsMaterial {
  const ca = trustStore === null || authorities === null ? {} : authoritiesOf(trustStore, authorities);
  if (keyStore === null || identity === null) return { context: ca, chain: [] };
  const own = identityOf(keyStore, identity);
  return { context: { ...own.context, ...ca }, chain: own.chain };
}

async function readOne(file: TlsFile | null): Promise<Buffer | null> {
  if (file === null) return null;
  try {
    return await readFile(file.path).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== 'EISDIR') throw error;
      return readSecret(file.path);
    });
  } catch (error) {
    throw unusable(file, `cannot be read (${(error as NodeJS.ErrnoException).code})`, error);
  }
}

/** A mounted Secret of type kubernetes.io/tls: certificate chain and key in separate files. */
async function readSecret(folder: string): Promise<Buffer> {
  const parts = await Promise.all(['tls.crt', 'tls.key'].map((name) => readFile(join(folder, name))));
  return Buffer.concat(parts.flatMap((part) => [part, Buffer.from('\n')]));
}

function authoritiesOf(file: TlsFile, bytes: Buffer): SecureContextOptions {
  const problem = certificatesProblem(bytes.toString('latin1'));
  if (problem !== null) {
    throw unusable(file, `${problem}; convert a Java key store: ${trustStoreConversion(file.path)}`);
  }
  return { ca: bytes };
}

function identityOf(file: TlsFile & { readonly password: string | null }, bytes: Buffer): TlsMaterial {
  if (isJavaKeyStore(bytes)) {
    const fix = `convert it and name the new file: ${keyStoreConversion(file.path)}`;
    throw unusable(file, `is a Java key store in the format JKS, which is not read; ${fix}`);
  }
  const passphrase = file.password === null ? {} : { passphrase: file.password };
  const text = bytes.toString('latin1');
  const isPem = text.includes('-----BEGIN ');
  if (isPem && !/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text)) {
    throw unusable(file, 'holds no private key; the certificate chain and its key belong into one file');
  }
  const context = isPem ? { cert: bytes, key: bytes, ...passphrase } : { pfx: bytes, ...passphrase };
  try {
    createSecureContext(context);
    return { context, chain: isPem ? certificatesIn(text) : [] };
  } catch (error) {
    throw unusable(file, why(error, isPem), error);
  }
}

function why(error: unknown, isPem: boolean): string {
  const message = error instanceof Error ? error.message : String(error);
  if (/mac verify|bad decrypt|interrupted or cancelled|bad password/i.test(message)) {
    return `the password does not open it (${message})`;
  }
  if (/key values mismatch/i.test(message)) return 'the private key is not that of the first certificate';
  if (isPem) return `not a certificate chain with its private key (${message})`;
  return `neither PEM nor a key store in PKCS#12 that can be opened (${message})`;
}

/** Use of certificate files; the label of their metrics. */
export type TlsUse = 'clients' | 'clusters' | 'healthChecks' | 'rulesService';

export class TlsMetrics {
  readonly expiry: Gauge<'use'>;
  readonly reloads: Counter<'use' | 'result'>;

  constructor(registry: Registry) {
    this.expiry = new Gauge({
      name: 'engine_gateway_tls_certificate_expiry_timestamp_seconds',
      help: 'End of validity of the certificate in use, seconds since 1970 (PEM files only).',
      labelNames: ['use'],
      registers: [registry],
    });
    this.reloads = new Counter({
      name: 'engine_gateway_tls_reloads_total',
      help: 'Changed certificate files, by result: taken or refused.',
      labelNames: ['use', 'result'],
      registers: [registry],
    });
  }
}

/** Followed certificate files; `current` is another object after each change. */
export interface TlsWatch extends FileWatch<TlsMaterial> {
  onChange(listener: (material: TlsMaterial) => void): void;
}

/**
 * Loads certificate files and follows them: changes are applied, broken files are reported and leave the last good ones
 * active.
 * @param refreshTime milliseconds between two reads of the files
 * @throws GatewayError EG_IMPOSSIBLE for unusable files at the start: the message names key and file
 */
export async function watchTls(
  use: TlsUse,
  files: TlsFiles,
  refreshTime: number,
  logger: Logger,
  metrics: TlsMetrics,
): Promise<TlsWatch> {
  if (files.keyStore === null && files.trustStore === null) {
    return { current: noTlsMaterial, onChange: () => undefined, stop: () => undefined };
  }
  const listeners: ((material: TlsMaterial) => void)[] = [];
  const noteUse = ({ chain: [leaf] }: TlsMaterial): void => {
    if (leaf === undefined) return;
    const { subject, validTo, validToDate } = leaf;
    metrics.expiry.set({ use }, validToDate.getTime() / 1000);
    if (validToDate.getTime() < Date.now()) logger.warn({ use, subject, validTo }, 'certificate expired');
  };
  const report = (reason: string | null, material: TlsMaterial): void => {
    metrics.reloads.inc({ use, result: reason === null ? 'taken' : 'refused' });
    if (reason !== null) {
      logger.error({ use, reason }, 'changed certificate files rejected; last valid ones stay active');
      return;
    }
    for (const listener of listeners) listener(material);
    const [leaf] = material.chain;
    logger.info({ use, subject: leaf?.subject, validTo: leaf?.validTo }, 'certificate files reloaded');
    noteUse(material);
  };
  const read = () => readTlsFiles(files);
  const followed = await followFiles(read, (contents) => tlsMaterial(files, contents), report, refreshTime);
  // From the start, so that Prometheus detects the first reload as an increase.
  for (const result of ['taken', 'refused']) metrics.reloads.inc({ use, result }, 0);
  noteUse(followed.current);
  // Its `current` is a getter.
  return Object.assign(followed, { onChange: (listener: (typeof listeners)[0]) => void listeners.push(listener) });
}
