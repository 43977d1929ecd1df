import { LRUCache } from 'lru-cache';

/** Characters of all answers that are kept; a longer one is not kept at all. */
const MAX_CHARACTERS = 8_000_000;

interface KeptList {
  readonly version: string;
  readonly text: string;
}

/**
 * Answers with whole tables, each made again only when its table has changed: other programs write these tables too, so that the
 * database is asked for the version of its content each time.
 */
export class KeptLists {
  readonly #lists = new LRUCache<string, KeptList>({
    maxSize: MAX_CHARACTERS,
    sizeCalculation: ({ text }) => text.length + 1,
  });

  /**
   * The answer under a key.
   * @param version of the table, read before `make` reads the rows; null: nothing is kept
   * @param make the answer as it is sent
   */
  async get(key: string, version: string | null, make: () => Promise<string>): Promise<string> {
    const present = this.#lists.get(key);
    if (version !== null && present?.version === version) return present.text;
    const text = await make();
    if (version !== null) this.#lists.set(key, { version, text });
    return text;
  }
}
