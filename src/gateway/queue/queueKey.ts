import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;
/** Bytes of a slug: it cannot be guessed, and says nothing of the key. */
const SLUG_BYTES = 16;

/** What a sealed text is of: one cannot be opened as the other. */
type Purpose = 'request' | 'answer';

/**
 * Seals requests and answers of queries that wait (AES-256-GCM), and makes the secret part of their URIs, so that the
 * database has no credentials and every replica with the same key can go on with any of them.
 */
export class QueueKey {
  readonly #sealing: Uint8Array;
  readonly #slugs: Uint8Array;

  /** @param secret the same on all replicas; at least 32 bytes from a random source, or a text that nobody guesses */
  constructor(secret: Uint8Array | string) {
    this.#sealing = new Uint8Array(hkdfSync('sha256', secret, '', 'engine-gateway queued queries', 32));
    this.#slugs = new Uint8Array(hkdfSync('sha256', secret, '', 'engine-gateway slugs of queued queries', 32));
  }

  /** Seals bytes for a row: base64 of a random start value, the cipher text, and its tag. It opens in that row alone. */
  seal(purpose: Purpose, id: string, bytes: Uint8Array): string {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, this.#sealing, iv).setAAD(additionalData(purpose, id));
    return Buffer.concat([iv, cipher.update(bytes), cipher.final(), cipher.getAuthTag()]).toString('base64');
  }

  /** Opens what was sealed for a row; null for anything else. */
  open(purpose: Purpose, id: string, sealed: string): Buffer | null {
    const bytes = Buffer.from(sealed, 'base64');
    if (bytes.length < IV_BYTES + TAG_BYTES) return null;
    try {
      const decipher = createDecipheriv(CIPHER, this.#sealing, bytes.subarray(0, IV_BYTES), {
        authTagLength: TAG_BYTES,
      })
        .setAAD(additionalData(purpose, id))
        .setAuthTag(bytes.subarray(-TAG_BYTES));
      return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
    } catch {
      return null;
    }
  }

  /** The secret part of a query's URIs: who has it can read the answer. */
  slugOf(id: string): string {
    return this.#slug(id).toString('hex');
  }

  /** Whether a text is the slug of an id; takes the same time for all texts. */
  isSlugOf(id: string, text: string): boolean {
    const bytes = Buffer.from(text, 'hex');
    const isWhole = bytes.length === SLUG_BYTES && text.length === 2 * SLUG_BYTES;
    return timingSafeEqual(this.#slug(id), isWhole ? bytes : Buffer.alloc(SLUG_BYTES)) && isWhole;
  }

  #slug(id: string): Buffer {
    return createHmac('sha256', this.#slugs).update(id).digest().subarray(0, SLUG_BYTES);
  }
}

function additionalData(purpose: Purpose, id: string): Buffer {
  return Buffer.from(`${purpose} ${id}`);
}
