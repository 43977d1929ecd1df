import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;
/** Size of a slug: not guessable, and independent of the key. */
const SLUG_BYTES = 16;

/** Purpose of a sealed text: one cannot be opened as the other. */
type Purpose = 'request' | 'answer';

interface DerivedKey {
  readonly secret: string;
  readonly sealing: Uint8Array;
  readonly slugs: Uint8Array;
}

/**
 * Encrypts requests and responses of queued queries (AES-256-GCM), and derives the secret part of their URIs, so that
 * the database has no credentials and every replica with the same secret can continue any of them.
 */
export class QueueKey {
  /** The first one seals. */
  #keys: readonly DerivedKey[];

  /**
   * @param secrets the current one, then earlier and next ones; equal on all replicas; each at least 32 bytes from a
   *   random source, or a text with enough entropy
   */
  constructor(...secrets: readonly (Uint8Array | string)[]) {
    this.#keys = secrets.map(derived);
  }

  /** Replaces the secrets. */
  rotate(secrets: readonly string[]): void {
    this.#keys = secrets.map((secret) => this.#keys.find((key) => key.secret === secret) ?? derived(secret));
  }

  /** Encrypts bytes for a row: base64 of a random nonce, the cipher text, and its tag. Bound to this row. */
  seal(purpose: Purpose, id: string, bytes: Uint8Array): string {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, this.#current.sealing, iv).setAAD(additionalData(purpose, id));
    return Buffer.concat([iv, cipher.update(bytes), cipher.final(), cipher.getAuthTag()]).toString('base64');
  }

  /** Decrypts sealed bytes of a row; null for anything else. */
  open(purpose: Purpose, id: string, sealed: string): Buffer | null {
    const bytes = Buffer.from(sealed, 'base64');
    if (bytes.length < IV_BYTES + TAG_BYTES) return null;
    for (const { sealing } of this.#keys) {
      const decipher = createDecipheriv(CIPHER, sealing, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES })
        .setAAD(additionalData(purpose, id))
        .setAuthTag(bytes.subarray(-TAG_BYTES));
      try {
        return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
      } catch {
        // Sealed with another secret.
      }
    }
    return null;
  }

  /** The secret part of a query's URIs: it grants access to the response. */
  slugOf(id: string): string {
    return slugOf(this.#current, id).toString('hex');
  }

  /** True if a text is the slug of an id; constant time. */
  isSlugOf(id: string, text: string): boolean {
    const bytes = Buffer.from(text, 'hex');
    const isWhole = bytes.length === SLUG_BYTES && text.length === 2 * SLUG_BYTES;
    const slug = isWhole ? bytes : Buffer.alloc(SLUG_BYTES);
    return this.#keys.map((key) => timingSafeEqual(slugOf(key, id), slug)).includes(true) && isWhole;
  }

  get #current(): DerivedKey {
    return this.#keys[0] as DerivedKey;
  }
}

function derived(secret: Uint8Array | string): DerivedKey {
  const key = (purpose: string) => new Uint8Array(hkdfSync('sha256', secret, '', `engine-gateway ${purpose}`, 32));
  const text = typeof secret === 'string' ? secret : Buffer.from(secret).toString('base64');
  return { secret: text, sealing: key('queued queries'), slugs: key('slugs of queued queries') };
}

function slugOf({ slugs }: DerivedKey, id: string): Buffer {
  return createHmac('sha256', slugs).update(id).digest().subarray(0, SLUG_BYTES);
}

function additionalData(purpose: Purpose, id: string): Buffer {
  return Buffer.from(`${purpose} ${id}`);
}
