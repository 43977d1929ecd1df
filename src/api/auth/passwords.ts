import { createHmac, randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import bcrypt from 'bcrypt';

const scryptAsync = promisify<string, Buffer, number, object, Buffer>(scrypt as never);

/** Upper bounds of what one scrypt check may cost. */
const MAX_SCRYPT_MEMORY = 64 * 1024 ** 2;
const MAX_SCRYPT_P = 8;

/** Bound: bcrypt reads 72 bytes, and no one types more than this. */
const MAX_PASSWORD_BYTES = 1024;

/** Per process: plain texts are compared by their digests under a key no one knows. */
const comparisonKey = randomBytes(32);

/** A stored password: plain text, a bcrypt hash (`$2b$…`) or a scrypt hash (`$scrypt$ln=…,r=…,p=…$salt$hash`). */
export type StoredPassword =
  | { readonly kind: 'plain'; readonly text: string }
  | { readonly kind: 'bcrypt'; readonly hash: string }
  | {
      readonly kind: 'scrypt';
      readonly n: number;
      readonly r: number;
      readonly p: number;
      readonly salt: Buffer;
      readonly hash: Buffer;
    };

/**
 * Reads a stored password. What starts like a hash must be one, so that a damaged hash is no plain-text password.
 * @returns what is wrong with it as a sentence, where it is no password; it never repeats the text
 */
export function readStoredPassword(text: string): StoredPassword | string {
  if (/^\$2[abxy]?\$/.test(text)) {
    if (!/^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$/.test(text))
      return 'looks like a bcrypt hash, but is none; make a new one';
    return { kind: 'bcrypt', hash: text };
  }
  if (text.startsWith('$scrypt$')) return readScrypt(text);
  if (/^\$(argon2|5|6|pbkdf2)/.test(text)) return 'is a hash of a kind that is not known here; use bcrypt or scrypt';
  return text === '' ? 'is empty' : { kind: 'plain', text };
}

function readScrypt(text: string): StoredPassword | string {
  const match = /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/=_-]+)\$([A-Za-z0-9+/=_-]+)$/.exec(text);
  const wrong = 'looks like a scrypt hash, but is none; the form is $scrypt$ln=15,r=8,p=1$SALT$HASH in base64';
  if (match === null) return wrong;
  const [ln, r, p] = match.slice(1, 4).map(Number) as [number, number, number];
  const hash = Buffer.from(match[5] ?? '', 'base64');
  if (ln < 1 || r < 1 || p < 1 || hash.length < 16) return wrong;
  if (128 * 2 ** ln * r > MAX_SCRYPT_MEMORY || p > MAX_SCRYPT_P) {
    return `asks for more work than one login may cost: at most 64 MB (128 * 2^ln * r) and p=${MAX_SCRYPT_P}`;
  }
  return { kind: 'scrypt', n: 2 ** ln, r, p, salt: Buffer.from(match[4] ?? '', 'base64'), hash };
}

/** Kind and cost parameters: two stored passwords of the same text take the same work to check. */
export function passwordCost(stored: StoredPassword): string {
  switch (stored.kind) {
    case 'plain':
      return 'plain';
    case 'bcrypt':
      return `bcrypt ${stored.hash.split('$')[2]}`;
    case 'scrypt':
      return `scrypt ${stored.n} ${stored.r} ${stored.p} ${stored.hash.length}`;
  }
}

/** True if a password is the stored one; takes as long for a wrong one as for the right one. */
export async function passwordMatches(stored: StoredPassword, password: string): Promise<boolean> {
  if (Buffer.byteLength(password) > MAX_PASSWORD_BYTES) return false;
  switch (stored.kind) {
    case 'plain':
      return timingSafeEqual(digest(stored.text), digest(password));
    case 'bcrypt':
      // Hashes of Apache and PHP say 2y for what is 2b.
      return bcrypt.compare(password, stored.hash.replace(/^\$2y\$/, '$2b$'));
    case 'scrypt': {
      const { n, r, p, salt, hash } = stored;
      const derived = await scryptAsync(password, salt, hash.length, { N: n, r, p, maxmem: 2 * MAX_SCRYPT_MEMORY });
      return timingSafeEqual(derived, hash);
    }
  }
}

/** True if two secrets are the same text, in a time that does not show where they differ. */
export function sameText(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b));
}

function digest(text: string): Buffer {
  return createHmac('sha256', comparisonKey).update(text).digest();
}
