import { isMap, isScalar, LineCounter, parseDocument, type Scalar } from 'yaml';
import { textPlace } from '../rules/compile/textPlace.ts';

/** A document of YAML or JSON, with positions of its fields. */
export class SourceDocument {
  readonly #text: string;
  readonly #firstLine: number;
  readonly #lines = new LineCounter();
  readonly #document;

  /** @param firstLine line of the file at the text's start, from 1 */
  constructor(text: string, firstLine: number) {
    this.#text = text;
    this.#firstLine = firstLine;
    this.#document = parseDocument(text, { lineCounter: this.#lines, logLevel: 'silent' });
  }

  /** Start of a text's content in the file; null if missing. */
  textPlace(path: readonly (string | number)[]) {
    const node = this.#document.getIn(path, true);
    return isScalar(node) ? textPlace(node as Scalar, this.#text, this.#lines, this.#firstLine) : null;
  }

  /** Position of a field such as `spec.actions[0]`, or of the nearest existing ancestor. */
  placeOf(field: string): { readonly line: number; readonly column: number } {
    const path = field
      .split(/[.[\]]+/)
      .filter((part) => part !== '')
      .map((part) => (/^[0-9]+$/.test(part) ? Number(part) : part));
    for (let length = path.length; length > 0; length -= 1) {
      const offset = this.#offsetOf(path.slice(0, length));
      if (offset !== null) {
        const { line, col } = this.#lines.linePos(offset);
        return { line: line + this.#firstLine - 1, column: col };
      }
    }
    return { line: this.#firstLine, column: 1 };
  }

  #offsetOf(path: readonly (string | number)[]): number | null {
    const parent = path.length === 1 ? this.#document.contents : this.#document.getIn(path.slice(0, -1), true);
    const last = path.at(-1);
    if (isMap(parent)) {
      const pair = parent.items.find((item) => String(item.key) === String(last));
      return (pair?.key as { range?: readonly [number, number, number] } | undefined)?.range?.[0] ?? null;
    }
    const node = this.#document.getIn(path, true) as { range?: readonly [number, number, number] } | undefined;
    return node?.range?.[0] ?? null;
  }
}
