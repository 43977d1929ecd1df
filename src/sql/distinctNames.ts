import type { QualifiedName } from './queryProperties.ts';

/** Up to this number of names, a linear search is cheaper than a set; most statements name fewer. */
const SEARCHED = 8;

export class DistinctTexts {
  readonly #texts: string[] = [];
  #set: Set<string> | null = null;

  add(text: string): void {
    const texts = this.#texts;
    if (this.#set === null) {
      if (texts.includes(text)) return;
      texts.push(text);
      if (texts.length > SEARCHED) this.#set = new Set(texts);
    } else if (!this.#set.has(text)) {
      this.#set.add(text);
      texts.push(text);
    }
  }

  /** Sorts by UTF-16 units. Call it after the last text was added. */
  sorted(): readonly string[] {
    return sorted(this.#texts, compare);
  }
}

export class DistinctTables {
  readonly #tables: QualifiedName[] = [];
  #keys: Set<string> | null = null;

  add(table: QualifiedName): boolean {
    const tables = this.#tables;
    if (this.#keys === null) {
      for (const other of tables) {
        if (other[2] === table[2] && other[1] === table[1] && other[0] === table[0]) return false;
      }
      tables.push(table);
      if (tables.length > SEARCHED) this.#keys = new Set(tables.map(keyOf));
      return true;
    }
    const key = keyOf(table);
    if (this.#keys.has(key)) return false;
    this.#keys.add(key);
    tables.push(table);
    return true;
  }

  /** Sorts by the UTF-16 units of the parts joined with dots. */
  sorted(): readonly QualifiedName[] {
    return sorted(this.#tables, byJoinedText);
  }
}

/** Parts may contain dots, so the joined text is not unique. */
function keyOf(table: QualifiedName): string {
  return JSON.stringify(table);
}

/** Compares like the parts joined with dots; joins them only if that can matter. */
function byJoinedText(a: QualifiedName, b: QualifiedName): number {
  for (let part = 0; part < 3; part += 1) {
    const [one, other] = [a[part] as string, b[part] as string];
    if (one === other) continue;
    // Of a part that begins the other one, the dot after it is compared with what follows there.
    if (part < 2 && (one.startsWith(other) || other.startsWith(one))) return compare(a.join('.'), b.join('.'));
    return compare(one, other);
  }
  return 0;
}

/** Sorts in place. Uses insertion sort for a few items, because the built-in sort copies them first. */
function sorted<T>(items: T[], order: (a: T, b: T) => number): readonly T[] {
  if (items.length > SEARCHED) return items.sort(order);
  for (let next = 1; next < items.length; next += 1) {
    const item = items[next] as T;
    let at = next;
    for (; at > 0 && order(items[at - 1] as T, item) > 0; at -= 1) items[at] = items[at - 1] as T;
    items[at] = item;
  }
  return items;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
