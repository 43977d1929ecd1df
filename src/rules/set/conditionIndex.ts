import type { RuleObjects } from '../evaluation.ts';
import type { CompiledRule } from './compiledRule.ts';

type Reader = (objects: RuleObjects) => Iterable<string>;

const one = (value: string | null | undefined): readonly string[] =>
  value === null || value === undefined ? [] : [value];

/** How each source's values are read; headers have a source each. */
const readers: Readonly<Record<string, Reader>> = {
  method: ({ request }) => [request.request.method],
  path: ({ request }) => [request.request.path],
  user: ({ user }) => one(user?.user.user),
  table: ({ query }) => query?.tables ?? [],
  catalog: ({ query }) => query?.properties.catalogs ?? [],
  schema: ({ query }) => query?.properties.schemas ?? [],
  catalogSchema: ({ query }) => query?.properties.catalogSchemas ?? [],
  queryType: ({ query }) => one(query?.properties.queryType),
  resourceGroupQueryType: ({ query }) => one(query?.properties.resourceGroupQueryType),
  defaultCatalog: ({ query }) => one(query?.properties.defaultCatalog),
  defaultSchema: ({ query }) => one(query?.properties.defaultSchema),
};

function readerOf(source: string): Reader {
  if (source.startsWith('header:')) {
    const name = source.slice('header:'.length);
    return ({ request }) => one(request.header(name));
  }
  return readers[source] ?? (() => []);
}

/**
 * Which rules can match a request at all, by what it carries. A rule is left out only where its condition is certain to be false without an
 * error or a side effect; what it cannot tell is always asked.
 */
export class ConditionIndex {
  readonly #always: readonly number[];
  readonly #sources: readonly {
    readonly read: Reader;
    readonly byValue: ReadonlyMap<string, readonly number[]>;
    readonly present: readonly number[];
  }[];

  constructor(rules: readonly CompiledRule[]) {
    const always: number[] = [];
    const sources = new Map<string, { byValue: Map<string, number[]>; present: number[] }>();
    rules.forEach(({ neededKeys: keys }, number) => {
      if (keys === null) {
        always.push(number);
        return;
      }
      for (const { source, value } of keys) {
        const entry = sources.get(source) ?? { byValue: new Map<string, number[]>(), present: [] };
        sources.set(source, entry);
        if (value === null) {
          entry.present.push(number);
          continue;
        }
        const numbers = entry.byValue.get(value);
        if (numbers === undefined) entry.byValue.set(value, [number]);
        else numbers.push(number);
      }
    });
    this.#always = always;
    this.#sources = [...sources].map(([source, entry]) => ({ read: readerOf(source), ...entry }));
  }

  /** Numbers of the rules to ask, ascending. */
  candidates(objects: RuleObjects): readonly number[] {
    const found: number[] = [];
    for (const { read, byValue, present } of this.#sources) {
      let isPresent = false;
      for (const value of read(objects)) {
        isPresent = true;
        const numbers = byValue.get(value);
        if (numbers !== undefined) for (const number of numbers) found.push(number);
      }
      if (isPresent) for (const number of present) found.push(number);
    }
    if (found.length === 0) return this.#always;
    for (const number of this.#always) found.push(number);
    found.sort((a, b) => a - b);
    return found.filter((number, index) => number !== found[index - 1]);
  }
}
