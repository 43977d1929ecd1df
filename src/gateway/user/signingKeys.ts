import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import { type Followed, followFiles } from '../../config/followedFiles.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import {
  type PublishedKey,
  publishedKey,
  type SigningKey,
  signatureAlgorithm,
  signingKey,
  USABLE_KEYS,
} from './signingKey.ts';

/** Location and rotation of token keys (`clientCertificateJwtAuthentication`). */
export interface SigningKeySettings {
  readonly privateKey: string;
  /** Public key, or a certificate of it; null: derived from the private key. */
  readonly publicKey: string | null;
  /** Additional published keys, such as the next one, or the previous one after a restart. */
  readonly publishedKeys: readonly string[];
  /** `jwtKeyId`; null: the thumbprint of each key. */
  readonly keyId: string | null;
  /** Milliseconds between publishing a new key and signing with it. */
  readonly publishAhead: number;
  /** Lifetime of tokens in milliseconds. */
  readonly lifetime: number;
}

const SECTION = 'clientCertificateJwtAuthentication';
/** Maximum number of published keys: bounds memory if files change continuously. */
const MAX_KEYS = 16;

interface KeyFiles {
  readonly signing: SigningKey;
  readonly published: readonly PublishedKey[];
  readonly contents: string;
}

/**
 * Reads the files of keys.
 * @throws GatewayError EG_IMPOSSIBLE naming the configuration key of an unusable file
 */
export async function readKeyFiles(settings: SigningKeySettings): Promise<KeyFiles> {
  const { privateKey, publicKey, publishedKeys, keyId } = settings;
  const pair = `${SECTION}.jwtSigningKeyPair`;
  const [secret, secretText] = await readKey(privateKey, `${pair}.privateKey`, createPrivateKey);
  const texts = [secretText];
  if (publicKey !== null) {
    const field = `${pair}.publicKey`;
    const [open, text] = await readKey(publicKey, field, createPublicKey);
    if (!bytesOf(open).equals(bytesOf(createPublicKey(secret as never)))) {
      throw new GatewayError('EG_IMPOSSIBLE', `${field}: ${publicKey} is not the public key of privateKey.`, { field });
    }
    texts.push(text);
  }
  const published: PublishedKey[] = [];
  for (const [index, path] of publishedKeys.entries()) {
    const [key, text] = await readKey(path, `${SECTION}.jwtPublishedKeys[${index}]`, createPublicKey);
    published.push(publishedKey(key, null));
    texts.push(text);
  }
  return { signing: signingKey(secret, keyId), published, contents: texts.join('\0') };
}

/**
 * Reads the keys and follows their files: a new key is published immediately and signs after `publishAhead`, so that
 * clusters have read it by then; the previous one stays published for twice the lifetime of its last token.
 * @param refreshTime milliseconds between two reads of the files
 * @throws GatewayError EG_IMPOSSIBLE for unusable files at the start
 */
export async function openSigningKeys(
  settings: SigningKeySettings,
  refreshTime: number,
  clock: Clock,
  logger: Logger,
): Promise<SigningKeys> {
  let keys: SigningKeys | null = null;
  const report = (reason: string | null, files: KeyFiles) => {
    if (reason === null) keys?.take(files);
    else logger.error({ reason }, 'changed token keys rejected; last valid ones stay active');
  };
  // Keys are parsed at each reading, and compared by the texts of their files.
  let latest: KeyFiles | null = null;
  const read = async (): Promise<string> => {
    latest = await readKeyFiles(settings);
    return latest.contents;
  };
  const files = await followFiles(read, () => latest as KeyFiles, report, refreshTime);
  keys = new SigningKeys(settings, files, clock, logger);
  return keys;
}

/** Rotating keys for signing and verifying tokens. */
export class SigningKeys {
  readonly #settings: SigningKeySettings;
  readonly #files: Followed<KeyFiles>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #signing: SigningKey;
  /** The next signing key, with its start in monotonic milliseconds. */
  #next: { readonly key: SigningKey; readonly from: number } | null = null;
  /** Keys that no longer sign, with the end of their publication. */
  #retired: { readonly key: PublishedKey; readonly until: number }[] = [];

  constructor(settings: SigningKeySettings, files: Followed<KeyFiles>, clock: Clock, logger: Logger) {
    this.#settings = settings;
    this.#files = files;
    this.#clock = clock;
    this.#logger = logger;
    this.#signing = files.current.signing;
  }

  get current(): SigningKey {
    if (this.#next !== null && this.#clock.monotonic() >= this.#next.from) this.#use(this.#next.key);
    return this.#signing;
  }

  /** The public keys, as the body of a JWKS (RFC 7517 §5), the signing key first. */
  published(): { readonly keys: readonly PublishedKey[] } {
    const { current } = this;
    const now = this.#clock.monotonic();
    this.#retired = this.#retired.filter(({ until }) => now < until);
    const all = [
      current.published,
      ...(this.#next === null ? [] : [this.#next.key.published]),
      ...this.#files.current.published,
      ...this.#retired.map(({ key }) => key),
    ];
    // Engines reject a set with duplicate key ids.
    return { keys: [...new Map(all.toReversed().map((key) => [key.kid, key])).values()].toReversed() };
  }

  stop(): void {
    this.#files.stop();
  }

  #use(key: SigningKey): void {
    const { lifetime, publishAhead } = this.#settings;
    const before = this.#signing.published;
    // Other replicas may start using the new one later.
    this.#retired.unshift({ key: before, until: this.#clock.monotonic() + lifetime + publishAhead });
    this.#retired.length = Math.min(this.#retired.length, MAX_KEYS);
    this.#signing = key;
    this.#next = null;
    this.#logger.info({ kid: key.published.kid, before: before.kid }, 'signing key of cluster tokens changed');
  }

  /** Publishes the signing key of changed files. */
  take(files: KeyFiles): void {
    const { current } = this;
    const isSame = samePublicKey(files.signing.published, current.published);
    if (isSame) {
      // Reverted before it was used.
      this.#next = null;
      return;
    }
    const { keyId, publishAhead } = this.#settings;
    // Two keys with one id are indistinguishable: the new one cannot be published next to the old one.
    const wait = keyId === null ? publishAhead : 0;
    this.#next = { key: files.signing, from: this.#clock.monotonic() + wait };
    this.#logger.info(
      { kid: files.signing.published.kid, signsIn: wait },
      'next signing key of cluster tokens published',
    );
  }
}

function samePublicKey(one: PublishedKey, other: PublishedKey): boolean {
  return ['kty', 'crv', 'x', 'y', 'n', 'e'].every((member) => one[member] === other[member]);
}

function bytesOf(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' });
}

async function readKey(
  path: string,
  field: string,
  parse: (pem: string) => KeyObject,
): Promise<readonly [KeyObject, string]> {
  const fail = (why: string) => new GatewayError('EG_IMPOSSIBLE', `${field}: ${path} ${why}.`, { field });
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw fail(`cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  let key: KeyObject;
  try {
    key = parse(text);
  } catch {
    // The parser's message may repeat the file.
    throw fail('holds no key in PEM form that can be read without a password');
  }
  if (signatureAlgorithm(key) === null) throw fail(USABLE_KEYS);
  return [key, text];
}
