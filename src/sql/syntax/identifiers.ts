/** Identifiers that are remembered. A power of two. */
const SLOTS = 4_096;
/** Longer ones are not. */
const LONGEST = 64;

/** By their hashes; a newer one takes the place of an older one. */
const known: string[] = new Array<string>(SLOTS).fill('');

/**
 * A part of a text in lower case. Queries name the same few tables again and again: what was made of an identifier
 * before is used again, which takes less than making it anew and lets it be compared and looked up faster.
 */
export function lowerCasePart(text: string, start: number, end: number): string {
  const length = end - start;
  if (length > LONGEST) return text.slice(start, end).toLowerCase();
  let hash = length;
  for (let at = start; at < end; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit > 127) return text.slice(start, end).toLowerCase();
    hash = (Math.imul(hash, 31) + lower(unit)) | 0;
  }
  const slot = (hash ^ (hash >>> 12)) & (SLOTS - 1);
  const candidate = known[slot] as string;
  if (candidate.length === length && isPart(candidate, text, start)) return candidate;
  // A copy: a part of a text would keep all of it in memory.
  const made = Buffer.from(text.slice(start, end).toLowerCase(), 'latin1').toString('latin1');
  known[slot] = made;
  return made;
}

function isPart(candidate: string, text: string, start: number): boolean {
  for (let index = 0; index < candidate.length; index += 1) {
    if (lower(text.charCodeAt(start + index)) !== candidate.charCodeAt(index)) return false;
  }
  return true;
}

function lower(unit: number): number {
  return unit >= 65 && unit <= 90 ? unit + 32 : unit;
}
