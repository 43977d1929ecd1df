import { distance } from 'fastest-levenshtein';
import type { FieldSchema } from './fields.ts';

/** The known word that is nearest to a text by edits, whatever its letter case; null without known words. */
export function nearest(text: string, words: Iterable<string>): string | null {
  let best: string | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const word of words) {
    const edits = distance(text.toLowerCase(), word.toLowerCase());
    if (edits < least) {
      least = edits;
      best = word;
    }
  }
  return best;
}

/** True when two words are so near that one is a slip of the other. */
export function isSlip(text: string, word: string): boolean {
  return distance(text.toLowerCase(), word.toLowerCase()) <= Math.max(1, Math.floor(word.length / 4));
}

/** Paths of sections that have a key of exactly this name, e.g. `routing` for `asyncTimeout`. */
export function sectionsWith(key: string, schema: FieldSchema, path = ''): readonly string[] {
  const paths: string[] = [];
  for (const [name, child] of Object.entries(schema.properties ?? {})) {
    if (name === key || child.aliases?.includes(key)) paths.push(path);
    paths.push(...sectionsWith(key, child, path === '' ? name : `${path}.${name}`));
  }
  return paths;
}
