import type { CompiledRule } from '../compile/compiledRule.ts';
import { isList, listReader, type ReadText, textReader } from '../compile/requestValues.ts';
import type { RuleRequest } from '../decision.ts';

const NO_RULES: readonly number[] = [];

class SourceRules {
  readonly #byValue = new Map<string, number[]>();
  readonly present: number[] = [];

  add(value: string | null, number: number): void {
    if (value === null) {
      this.present.push(number);
      return;
    }
    const numbers = this.#byValue.get(value);
    if (numbers === undefined) this.#byValue.set(value, [number]);
    else numbers.push(number);
  }

  with(value: string): readonly number[] {
    return this.#byValue.get(value) ?? NO_RULES;
  }
}

/** Rules by required table, part by part: a request's tables come in parts, and joining them is more expensive. */
class TableRules {
  readonly #byName = new Map<string, Map<string, Map<string, number[]>>>();

  /** @param key result of `tableKey` */
  add(key: string, number: number): void {
    const [catalog = '', schema = '', name = ''] = key.split('\0');
    const bySchema = this.#byName.get(name) ?? new Map<string, Map<string, number[]>>();
    this.#byName.set(name, bySchema);
    const byCatalog = bySchema.get(schema) ?? new Map<string, number[]>();
    bySchema.set(schema, byCatalog);
    byCatalog.set(catalog, [...(byCatalog.get(catalog) ?? []), number]);
  }

  with([catalog = '', schema = '', name = '']: readonly string[]): readonly number[] {
    return this.#byName.get(name)?.get(schema)?.get(catalog) ?? NO_RULES;
  }
}

/** A source of one or several texts, and the rules that need one of them. */
interface Source<Read> {
  readonly read: Read;
  readonly rules: SourceRules;
}
type ReadNames = (request: RuleRequest) => readonly string[] | undefined;

/**
 * Finds rules that can match a request. Skips a rule only if its condition is certainly false without an error or a
 * side effect; a rule with unknown preconditions is always evaluated.
 */
export class ConditionIndex {
  /** Bits of the rules that are always evaluated, 32 per word. */
  readonly #always: Uint32Array;
  readonly #marked: Uint32Array;
  readonly #singles: readonly Source<ReadText>[];
  readonly #lists: readonly Source<ReadNames>[];
  readonly #tables: TableRules | null;

  constructor(rules: readonly CompiledRule[]) {
    const words = Math.ceil(rules.length / 32);
    this.#always = new Uint32Array(words);
    this.#marked = new Uint32Array(words);
    const sources = new Map<string, SourceRules>();
    let tables: TableRules | null = null;
    rules.forEach(({ neededKeys: keys }, number) => {
      if (keys === null) set(this.#always, number);
      for (const { source, value } of keys ?? []) {
        if (source === 'table') {
          tables ??= new TableRules();
          tables.add(value ?? '', number);
          continue;
        }
        const entry = sources.get(source) ?? new SourceRules();
        sources.set(source, entry);
        entry.add(value, number);
      }
    });
    const several: Source<ReadNames>[] = [];
    const single: Source<ReadText>[] = [];
    for (const [source, rules] of sources) {
      if (isList(source) && source !== 'table') several.push({ read: listReader(source), rules });
      else single.push({ read: textReader(source), rules });
    }
    this.#singles = single;
    this.#lists = several;
    this.#tables = tables;
  }

  /**
   * Marks the rules to evaluate: bit `n % 32` of word `n / 32` stands for rule n. Reuses one array, as a request's
   * rules are evaluated before the next request's are marked.
   */
  candidates(request: RuleRequest): Uint32Array {
    const marked = this.#marked;
    marked.set(this.#always);
    for (const { read, rules } of this.#singles) {
      const value = read(request);
      if (value === null || value === undefined) continue;
      mark(marked, rules.with(value));
      mark(marked, rules.present);
    }
    for (const { read, rules } of this.#lists) {
      for (const value of read(request) ?? []) mark(marked, rules.with(value));
    }
    if (this.#tables !== null) {
      for (const table of request.queryProperties?.tables ?? []) mark(marked, this.#tables.with(table));
    }
    return marked;
  }
}

function mark(bits: Uint32Array, numbers: readonly number[]): void {
  for (const number of numbers) set(bits, number);
}

function set(bits: Uint32Array, number: number): void {
  const word = number >>> 5;
  bits[word] = (bits[word] ?? 0) | (1 << (number & 31));
}
