import { createHash, createPrivateKey, timingSafeEqual, X509Certificate } from 'node:crypto';

/** First bytes of a key store in Java's own format, JKS; absent in PKCS#12. */
const MAGIC = 0xfeed_feed;
const DIGEST_BYTES = 20;
const DIGEST = 'sha1';
/** 1.3.6.1.4.1.42.2.17.1.1, the cipher of private keys in these files. */
const KEY_PROTECTOR = Buffer.from('060a2b060104012a02110101', 'hex');

/** Content of a JKS file as PEM: a private key with its chain, leaf first, and trusted certificates. */
export interface JavaKeyStore {
  /** The first private key, or null. */
  readonly identity: { readonly key: string; readonly chain: string } | null;
  /** Trusted certificates; may be empty. */
  readonly trusted: string;
}

/** True if a file is a key store in Java's own format. */
export function isJavaKeyStore(bytes: Buffer): boolean {
  return bytes.length >= 4 && bytes.readUInt32BE(0) === MAGIC;
}

/**
 * Reads a key store in the form that `keytool -storetype JKS` writes, the default of Java 8 and older.
 * @param password password of the private key; null: private keys are not decrypted. The password of the file only
 * protects its integrity and is not needed
 * @throws Error for a truncated file, an unknown version, or a wrong password
 */
export function readJavaKeyStore(bytes: Buffer, password: string | null): JavaKeyStore {
  const reader = new Reader(bytes);
  reader.number();
  const version = reader.number();
  if (version !== 1 && version !== 2) throw new Error(`JKS of the unknown version ${version}`);
  let identity: JavaKeyStore['identity'] = null;
  const trusted: string[] = [];
  for (let entries = reader.number(); entries > 0; entries -= 1) {
    const tag = reader.number();
    reader.text();
    reader.skip(8);
    if (tag === 1) {
      const sealed = reader.bytes();
      const chain: string[] = [];
      for (let count = reader.number(); count > 0; count -= 1) chain.push(certificate(reader, version));
      if (identity === null && password !== null) identity = { key: openKey(sealed, password), chain: chain.join('') };
    } else if (tag === 2) trusted.push(certificate(reader, version));
    else throw new Error(`JKS with an unknown entry (${tag})`);
  }
  return { identity, trusted: trusted.join('') };
}

/** Reads numbers and lengths of the file, with bounds checks. */
class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  #take(length: number): Buffer {
    if (length < 0 || this.#at + length > this.#bytes.length) throw new Error('JKS that is cut off');
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  number(): number {
    return this.#take(4).readUInt32BE(0);
  }

  bytes(): Buffer {
    return this.#take(this.number());
  }

  text(): string {
    return this.#take(this.#take(2).readUInt16BE(0)).toString('utf8');
  }

  skip(length: number): void {
    this.#take(length);
  }
}

function certificate(reader: Reader, version: number): string {
  const type = version === 2 ? reader.text() : 'X.509';
  const bytes = reader.bytes();
  if (type !== 'X.509') throw new Error(`JKS with a certificate of the type ${type}`);
  return new X509Certificate(bytes).toString();
}

/** Passwords count as two bytes per character. */
const passwordBytes = (password: string): Buffer => Buffer.from(password, 'utf16le').swap16();

const digest = (secret: Buffer, data: Buffer): Buffer => createHash(DIGEST).update(secret).update(data).digest();

/** Decrypts a private key: salt, the key under a stream of chained digests, and a digest of the key. */
function openKey(sealed: Buffer, password: string): string {
  const outer = derValue(sealed, 0);
  const algorithm = derValue(sealed, outer.start);
  if (!sealed.subarray(algorithm.start, algorithm.end).includes(KEY_PROTECTOR))
    throw new Error('JKS with a private key under an unknown cipher');
  const { start, end } = derValue(sealed, algorithm.end);
  const data = sealed.subarray(start, end);
  if (data.length < 2 * DIGEST_BYTES) throw new Error('JKS that is cut off');
  const secret = passwordBytes(password);
  const closed = data.subarray(DIGEST_BYTES, data.length - DIGEST_BYTES);
  const open = Buffer.alloc(closed.length);
  let stream: Buffer = data.subarray(0, DIGEST_BYTES);
  for (const [index, byte] of closed.entries()) {
    if (index % DIGEST_BYTES === 0) stream = digest(secret, stream);
    open[index] = byte ^ (stream[index % DIGEST_BYTES] ?? 0);
  }
  if (!timingSafeEqual(digest(secret, open), data.subarray(data.length - DIGEST_BYTES)))
    throw new Error('bad password of the private key');
  return createPrivateKey({ key: open, format: 'der', type: 'pkcs8' })
    .export({ format: 'pem', type: 'pkcs8' })
    .toString();
}

/** Start and end of a DER element's value (X.690, section 8.1). */
function derValue(bytes: Buffer, at: number): { readonly start: number; readonly end: number } {
  const first = bytes[at + 1] ?? 0;
  const lengthBytes = first < 0x80 ? 0 : first & 0x7f;
  const start = at + 2 + lengthBytes;
  if (lengthBytes > 4 || start > bytes.length) throw new Error('JKS that is cut off');
  const length = lengthBytes === 0 ? first : bytes.readUIntBE(at + 2, lengthBytes);
  if (start + length > bytes.length) throw new Error('JKS that is cut off');
  return { start, end: start + length };
}
