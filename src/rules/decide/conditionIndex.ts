import { firstHeader } from '../../model/http.ts';
import type { ProductNames } from '../../model/names.ts';
import { queryDigests, queryEstimate } from '../../sql/statementDigests.ts';
import type { CompiledRule } from '../compile/compiledRule.ts';
import type { RuleRequest } from '../decision.ts';
import { isUnanalysed } from '../requestObjects.ts';

const NONE: readonly never[] = [];

/** Rules that need a value of one source. */
class SourceRules {
  readonly source: string;
  readonly #byValue = new Map<string, number[]>();
  /** Rules that any value fulfils. */
  readonly present: number[] = [];
  readonly all: number[] = [];

  constructor(source: string) {
    this.source = source;
  }

  add(value: string | null, number: number): void {
    this.all.push(number);
    (value === null ? this.present : this.#byValue.getOrInsert(value, [])).push(number);
  }

  with(value: string): readonly number[] {
    return this.#byValue.get(value) ?? NONE;
  }
}

/** Rules by required table, part by part: a request's tables come in parts, and joining them is more expensive. */
class TableRules extends SourceRules {
  readonly #byName = new Map<string, Map<string, Map<string, number[]>>>();

  /** @param key result of `tableKey` */
  override add(key: string | null, number: number): void {
    this.all.push(number);
    const [catalog = '', schema = '', name = ''] = (key ?? '').split('\0');
    const bySchema = this.#byName.getOrInsert(name, new Map<string, Map<string, number[]>>());
    bySchema.getOrInsert(schema, new Map<string, number[]>()).getOrInsert(catalog, []).push(number);
  }

  withTable([catalog = '', schema = '', name = '']: readonly string[]): readonly number[] {
    return this.#byName.get(name)?.get(schema)?.get(catalog) ?? NONE;
  }
}

type Mark = (marked: Uint32Array, request: RuleRequest) => void;

/**
 * Finds rules that can match a request. Skips a rule only if its condition is certainly false without an error or a
 * side effect; a rule with unknown preconditions is always evaluated, and if a recorded request lacks a source, each
 * rule that needs a value of it.
 */
export class ConditionIndex {
  /** Bits of the rules that are always evaluated, 32 per word. */
  readonly #always: Uint32Array;
  readonly #marked: Uint32Array;
  readonly #sources: readonly { readonly rules: SourceRules; readonly mark: Mark }[];

  constructor(rules: readonly CompiledRule[]) {
    const words = Math.ceil(rules.length / 32);
    this.#always = new Uint32Array(words);
    this.#marked = new Uint32Array(words);
    const sources = new Map<string, SourceRules>();
    rules.forEach(({ neededKeys: keys }, number) => {
      if (keys === null) set(this.#always, number);
      for (const { source, value } of keys ?? []) {
        const entry = sources.get(source) ?? new (source === 'table' ? TableRules : SourceRules)(source);
        sources.set(source, entry);
        entry.add(value, number);
      }
    });
    this.#sources = Array.from(sources.values(), (entry) => ({ rules: entry, mark: markOf(entry) }));
  }

  /**
   * Marks the rules to evaluate: bit `n % 32` of word `n / 32` stands for rule n. Reuses one array, as a request's
   * rules are evaluated before the next request's are marked.
   */
  candidates(request: RuleRequest): Uint32Array {
    const marked = this.#marked;
    marked.set(this.#always);
    for (const { rules, mark } of this.#sources) {
      if (request.lacks?.(rules.source) === true) setAll(marked, rules.all);
      else mark(marked, request);
    }
    return marked;
  }
}

/** Marks the rules of a source for its values in a request. */
function markOf(rules: SourceRules): Mark {
  const { source } = rules;
  if (rules instanceof TableRules) {
    return (marked, { queryProperties }) => {
      for (const table of queryProperties?.tables ?? NONE) setAll(marked, rules.withTable(table));
    };
  }
  if (isList(source) && source !== 'table') {
    const read = listReader(source);
    return (marked, request) => {
      for (const value of read(request) ?? NONE) setAll(marked, rules.with(value));
    };
  }
  const read = textReader(source);
  return (marked, request) => {
    const value = read(request);
    if (value === null || value === undefined) return;
    setAll(marked, rules.with(value));
    setAll(marked, rules.present);
  };
}

function setAll(bits: Uint32Array, numbers: readonly number[]): void {
  for (const number of numbers) set(bits, number);
}

function set(bits: Uint32Array, number: number): void {
  const word = number >>> 5;
  bits[word] = (bits[word] ?? 0) | (1 << (number & 31));
}

/** Reads one text of a request; null or undefined if missing. */
export type ReadText = (request: RuleRequest) => string | null | undefined;
type ReadTexts = (request: RuleRequest) => readonly (string | readonly string[])[] | undefined;

/** True if a statement was analyzed and is certain: declarative denies fail if they read any other statement. */
export const ANALYSED = 'analysed';

const texts: Readonly<Record<string, ReadText>> = {
  method: ({ method }) => method,
  path: ({ path }) => path,
  user: ({ user }) => user?.user,
  queryType: ({ queryProperties }) => queryProperties?.queryType,
  resourceGroupQueryType: ({ queryProperties }) => queryProperties?.resourceGroupQueryType,
  queryDigest: ({ queryProperties }) => (queryProperties === null ? null : queryDigests(queryProperties).shape),
  // All of its figures: a decision that is remembered depends on them.
  estimate: ({ queryProperties }) =>
    queryProperties === null ? null : Object.values(queryEstimate(queryProperties)).join(' '),
  defaultCatalog: ({ queryProperties }) => queryProperties?.defaultCatalog,
  defaultSchema: ({ queryProperties }) => queryProperties?.defaultSchema,
  [ANALYSED]: ({ queryProperties: query }) =>
    query === null || query.unreadable !== undefined || isUnanalysed(query) ? null : 'yes',
};

const lists = {
  catalog: ({ queryProperties }) => queryProperties?.catalogs,
  schema: ({ queryProperties }) => queryProperties?.schemas,
  catalogSchema: ({ queryProperties }) => queryProperties?.catalogSchemas,
  table: ({ queryProperties }) => queryProperties?.tables,
  group: ({ user }) => user?.membership?.groups,
} satisfies Readonly<Record<string, ReadTexts>>;

const HEADER = 'header:';

export type ListSource = keyof typeof lists;

export function headerSource(name: string, names: ProductNames): string {
  return `${HEADER}${names.ownHeader(name).toLowerCase()}`;
}

/** Returns the lower-case name of a source's header; null for other sources. */
export function headerName(source: string): string | null {
  return source.startsWith(HEADER) ? source.slice(HEADER.length) : null;
}

/** True if a source comes from the body, which may not have been analyzed. */
export function isFromBody(source: string): boolean {
  return !source.startsWith(HEADER) && !ofHead.has(source);
}

const ofHead: ReadonlySet<string> = new Set(['method', 'path', 'user', 'group']);

export function isList(source: string): source is ListSource {
  return Object.hasOwn(lists, source);
}

export function textReader(source: string): ReadText {
  if (!source.startsWith(HEADER)) return texts[source] ?? (() => null);
  const name = source.slice(HEADER.length);
  return (request) => {
    if (request.fields) return request.fields.get(name)?.[0];
    return request.header ? request.header(name) : firstHeader(request.headers, name);
  };
}

export function listReader<S extends ListSource>(source: S): (typeof lists)[S] {
  return lists[source];
}
