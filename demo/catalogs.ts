import type { Column, Row } from './sqlExpressions.ts';

/** A table of the simulated engine. */
export interface Table {
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
}

const regions = ['AFRICA', 'AMERICA', 'ASIA', 'EUROPE', 'MIDDLE EAST'];

/** Names and regions of TPC-H's 25 nations, in the order of their keys. */
const nations: readonly (readonly [string, number])[] = [
  ['ALGERIA', 0],
  ['ARGENTINA', 1],
  ['BRAZIL', 1],
  ['CANADA', 1],
  ['EGYPT', 4],
  ['ETHIOPIA', 0],
  ['FRANCE', 3],
  ['GERMANY', 3],
  ['INDIA', 2],
  ['INDONESIA', 2],
  ['IRAN', 4],
  ['IRAQ', 4],
  ['JAPAN', 2],
  ['JORDAN', 4],
  ['KENYA', 0],
  ['MOROCCO', 0],
  ['MOZAMBIQUE', 0],
  ['PERU', 1],
  ['CHINA', 2],
  ['ROMANIA', 3],
  ['SAUDI ARABIA', 4],
  ['VIETNAM', 2],
  ['RUSSIA', 3],
  ['UNITED KINGDOM', 3],
  ['UNITED STATES', 1],
];

const tpch: ReadonlyMap<string, Table> = new Map([
  [
    'nation',
    {
      columns: [
        { name: 'nationkey', type: 'bigint' },
        { name: 'name', type: 'varchar(25)' },
        { name: 'regionkey', type: 'bigint' },
      ],
      rows: nations.map(([name, region], key) => [key, name, region]),
    },
  ],
  [
    'region',
    {
      columns: [
        { name: 'regionkey', type: 'bigint' },
        { name: 'name', type: 'varchar(25)' },
      ],
      rows: regions.map((name, key) => [key, name]),
    },
  ],
]);

/** Catalogs of one engine: `tpch` (read only), `memory` (tables made by clients) and `system.runtime`. */
export class Catalogs {
  readonly #system: () => ReadonlyMap<string, Table>;
  readonly #memory = new Map<string, Table>();

  /** @param system tables of `system.runtime`, made at each read */
  constructor(system: () => ReadonlyMap<string, Table>) {
    this.#system = system;
  }

  readonly names = ['memory', 'system', 'tpch'];

  /** Schemas of a catalog; undefined when there is no such catalog. */
  schemas(catalog: string): readonly string[] | undefined {
    return { memory: ['default'], system: ['runtime'], tpch: ['tiny'] }[catalog];
  }

  /** Tables of a schema by name. */
  tables(catalog: string): ReadonlyMap<string, Table> {
    if (catalog === 'memory') return this.#memory;
    return catalog === 'system' ? this.#system() : tpch;
  }

  /** Makes or replaces a table of the catalog `memory`. */
  put(name: string, table: Table): void {
    this.#memory.set(name, table);
  }

  /** Removes a table of the catalog `memory`; false when there was none. */
  drop(name: string): boolean {
    return this.#memory.delete(name);
  }
}
