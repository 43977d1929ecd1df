import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { SessionKeyring, SessionKeys } from './sessionKeys.ts';

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;
/** Longest token that is unpacked, in bytes; longer ones are not accepted as credentials either. */
const MAX_TOKEN = 16_384;
/** First byte of a packed token: as it is, or a JWT whose parts are packed without base64. */
const PLAIN = 0;
const JWT = 1;

/**
 * Seals tokens of the Kubernetes cluster into sessions (AES-256-GCM, bound to the session's user), so that every replica
 * can ask again whether the token still counts, and nobody who reads a session has the token.
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
    const sealed = Buffer.concat([cipher.update(packed(token)), cipher.final()]);
    return Buffer.concat([iv, sealed, cipher.getAuthTag()]).toString('base64url');
  }

  /** The token; null where the text is not one that was sealed for this user. */
  async open(text: string, user: string): Promise<string | null> {
    const bytes = Buffer.from(text, 'base64url');
    if (bytes.length <= IV_BYTES + TAG_BYTES) return null;
    for (const keys of await this.#keyring()) {
      try {
        const decipher = createDecipheriv(CIPHER, keyOf(keys), bytes.subarray(0, IV_BYTES))
          .setAAD(Buffer.from(user))
          .setAuthTag(bytes.subarray(-TAG_BYTES));
        return unpacked(Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]));
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

/** A cookie holds 4 kB: of a JWT the JSON is compressed without its base64, and the signature kept as bytes. */
function packed(token: string): Buffer {
  const [header = '', payload = '', signature = '', ...more] = token.split('.');
  const bytes = [header, payload, signature].map((part) => Buffer.from(part, 'base64url'));
  const isExact = more.length === 0 && bytes.map((part) => part.toString('base64url')).join('.') === token;
  const [head, body, tail] = bytes;
  if (!isExact || head === undefined || body === undefined || tail === undefined || head.length > 0xffff) {
    return Buffer.concat([Buffer.from([PLAIN]), deflateRawSync(Buffer.from(token))]);
  }
  const sizes = Buffer.alloc(5);
  sizes.writeUInt8(JWT, 0);
  sizes.writeUInt16BE(head.length, 1);
  sizes.writeUInt16BE(tail.length, 3);
  return Buffer.concat([sizes, tail, deflateRawSync(Buffer.concat([head, body]))]);
}

function unpacked(bytes: Buffer): string {
  const inflate = (part: Buffer) => inflateRawSync(part, { maxOutputLength: MAX_TOKEN });
  if (bytes[0] === PLAIN) return inflate(bytes.subarray(1)).toString();
  const head = bytes.readUInt16BE(1);
  const tail = bytes.readUInt16BE(3);
  const json = inflate(bytes.subarray(5 + tail));
  const parts = [json.subarray(0, head), json.subarray(head), bytes.subarray(5, 5 + tail)];
  return parts.map((part) => part.toString('base64url')).join('.');
}
