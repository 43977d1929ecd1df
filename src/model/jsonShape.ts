/** Bounds of a JSON text: the time to parse and check it is in proportion to them. */
export interface JsonBounds {
  /** Maximum number of values; a member of an object counts as one. */
  readonly values: number;
  readonly depth: number;
}

/**
 * Checks the bounds of a JSON text. Counts without parsing, which would block the event loop for texts that only
 * consist of brackets. Does not detect invalid JSON.
 * @returns the exceeded bound, or null
 */
export function exceededBound(text: string, bounds: JsonBounds): keyof JsonBounds | null {
  let values = 1;
  let depth = 0;
  for (let index = 0; index < text.length; index++) {
    switch (text.charCodeAt(index)) {
      case 0x22: // "
        for (index++; index < text.length && text.charCodeAt(index) !== 0x22; index++) {
          if (text.charCodeAt(index) === 0x5c) index++;
        }
        break;
      case 0x2c: // ,
        values++;
        break;
      case 0x5b: // [
      case 0x7b: // {
        values++;
        depth++;
        if (depth > bounds.depth) return 'depth';
        break;
      case 0x5d: // ]
      case 0x7d: // }
        depth--;
    }
    if (values > bounds.values) return 'values';
  }
  return null;
}
