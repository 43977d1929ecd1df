import type { CompiledRule } from '../compile/compiledRule.ts';
import { headerName, isList, listReader, textReader } from '../compile/requestValues.ts';
import type { RecordedRequest } from './recordedRequest.ts';

interface SourceRules {
  readonly byValue: Map<string, number[]>;
  readonly present: number[];
  readonly all: number[];
}

/**
 * Finds rules that can match a recorded request, like `ConditionIndex` for requests: if the record lacks a source, each
 * rule that needs a value of it can match.
 */
export class RecordedIndex {
  readonly #always: Uint32Array;
  readonly #marked: Uint32Array;
  readonly #sources = new Map<string, SourceRules>();

  constructor(rules: readonly CompiledRule[]) {
    const words = Math.ceil(rules.length / 32);
    this.#always = new Uint32Array(words);
    this.#marked = new Uint32Array(words);
    rules.forEach(({ neededKeys }, number) => {
      if (neededKeys === null) mark(this.#always, [number]);
      for (const { source, value } of neededKeys ?? []) this.#add(source, value, number);
    });
  }

  #add(source: string, value: string | null, number: number): void {
    const rules = this.#sources.get(source) ?? { byValue: new Map<string, number[]>(), present: [], all: [] };
    this.#sources.set(source, rules);
    rules.all.push(number);
    if (value === null) rules.present.push(number);
    else rules.byValue.set(value, [...(rules.byValue.get(value) ?? []), number]);
  }

  /** Marks the rules to evaluate, like `ConditionIndex.candidates`. */
  candidates(request: RecordedRequest): Uint32Array {
    const marked = this.#marked;
    marked.set(this.#always);
    for (const [source, { byValue, present, all }] of this.#sources) {
      if (request.lacks(source)) {
        mark(marked, all);
        continue;
      }
      const values = valuesOf(request, source);
      for (const value of values) mark(marked, byValue.get(value) ?? []);
      if (values.length > 0) mark(marked, present);
    }
    return marked;
  }
}

/** Values of a source in a request; tables with joined parts, as rules need them. */
function valuesOf(request: RecordedRequest, source: string): readonly string[] {
  if (isList(source)) {
    const values = listReader(source)(request) ?? [];
    return values.map((value) => (typeof value === 'string' ? value : value.join('\0')));
  }
  const header = headerName(source);
  const value = header === null ? textReader(source)(request) : request.header(header);
  return value === null || value === undefined ? [] : [value];
}

function mark(bits: Uint32Array, numbers: readonly number[]): void {
  for (const number of numbers) bits[number >>> 5] = (bits[number >>> 5] ?? 0) | (1 << (number & 31));
}
