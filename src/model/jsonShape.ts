/** Bounds of a JSON text: what takes time to parse and to check is in proportion to them. */
export interface JsonBounds {
  /** Most values; members of objects count as one. */
  readonly values: number;
  /** How deep arrays and objects may be nested. */
  readonly depth: number;
}

/**
 * Whether a JSON text stays within bounds. Counts without parsing, which would block the event loop for texts of nothing
 * but brackets. Of a text that is not JSON it says nothing.
 * @returns the bound that is exceeded; null: none
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
