import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { SessionKeyring, SessionKeys } from './sessionKeys.ts';

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;
/** Maximum size of an unpacked token, in bytes; longer ones are not accepted as credentials either. */
const MAX_TOKEN = 16_384;

/**
 * Seals tokens of the Kubernetes cluster into sessions (AES-256-GCM, bound to the session's user), so that every replica
 * can ask again if the token is still valid, and a reader of the session does not get the token.
 */
export class SealedTokens {
  readonly #keyring: SessionKeyring;

  constructor(keyring: SessionKeyring) {
    this.#keyring = keyring;
  }

  /** The sealed token in base64url. */
  async seal(token: string, user: string): Promise<string> {
    const [keys] = await this.#keyring();
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, keyOf(keys), iv).setAAD(Buffer.from(user));
    const sealed = Buffer.concat([cipher.update(deflateRawSync(token)), cipher.final()]);
    return Buffer.concat([iv, sealed, cipher.getAuthTag()]).toString('base64url');
  }

  /** The token; null if the text was not sealed for this user. */
  async open(text: string, user: string): Promise<string | null> {
    const bytes = Buffer.from(text, 'base64url');
    if (bytes.length <= IV_BYTES + TAG_BYTES) return null;
    for (const keys of await this.#keyring()) {
      try {
        const decipher = createDecipheriv(CIPHER, keyOf(keys), bytes.subarray(0, IV_BYTES))
          .setAAD(Buffer.from(user))
          .setAuthTag(bytes.subarray(-TAG_BYTES));
        const packed = Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
        return inflateRawSync(packed, { maxOutputLength: MAX_TOKEN }).toString();
      } catch {
        // Sealed with other keys, or not by a gateway.
      }
    }
    return null;
  }
}

function keyOf({ seal }: SessionKeys): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', seal, '', 'engine-gateway tokens in sessions', 32));
}
