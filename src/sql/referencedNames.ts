import { DistinctTables, DistinctTexts } from './distinctNames.ts';
import type { QualifiedName } from './queryProperties.ts';
import { NameRole, type Parser } from './syntax/parser.ts';

/** Defaults that complete names; null if the client sent none. */
export interface NameDefaults {
  readonly catalog: string | null;
  readonly schema: string | null;
}

/** Names in a statement: lower case, sorted by UTF-16 units, each once. */
export interface ReferencedNames {
  /**
   * Set if a name cannot be completed or has too many parts. All lists are empty then, except for the name of a table
   * function: the engine finds built-in functions without defaults.
   */
  readonly errorMessage: string | null;
  /** Three parts each, sorted by their text joined with dots. */
  readonly tables: readonly QualifiedName[];
  readonly catalogs: readonly string[];
  readonly schemas: readonly string[];
  readonly catalogSchemas: readonly string[];
}

const none: readonly string[] = [];
export const noNames: ReferencedNames = {
  errorMessage: null,
  tables: [],
  catalogs: none,
  schemas: none,
  catalogSchemas: none,
};

const NOT_QUALIFIED = 'Name not fully qualified';
const EMPTY = 'Identifier cannot be empty or null';

/** Completes the names that a parse found. The first one that cannot be completed decides. */
export function referencedNames(parser: Parser, defaults: NameDefaults): ReferencedNames {
  const parsed = parser.names;
  if (parsed.length === 0) return noNames;
  const catalog = defaults.catalog === null ? null : defaults.catalog.toLowerCase();
  const schema = defaults.schema === null ? null : defaults.schema.toLowerCase();
  const tables = new DistinctTables();
  const catalogs = new DistinctTexts();
  const schemas = new DistinctTexts();
  const catalogSchemas = new DistinctTexts();
  const addSchema = (inCatalog: string, name: string): void => {
    catalogs.add(inCatalog);
    schemas.add(name);
    catalogSchemas.add(`${inCatalog}.${name}`);
  };
  let errorMessage: string | null = null;
  let renamedIn: string | null = null;
  let lastCatalog = catalog;
  for (let i = 0; i < parsed.length; i += 3) {
    const role = parsed[i] as number;
    const token = parsed[i + 1] as number;
    const parts = parsed[i + 2] as number;
    const part = (index: number): string => parser.identifierValue(token + 2 * index);
    switch (role) {
      case NameRole.table:
      case NameRole.tableFunction:
      case NameRole.column:
      case NameRole.procedure:
      case NameRole.renamedTable: {
        const count = role === NameRole.column ? parts - 1 : parts;
        if (count === 0) break;
        const inCatalog = role === NameRole.renamedTable ? lastCatalog : catalog;
        const name = completed(count, part, inCatalog, schema);
        if (typeof name === 'string') {
          if (role !== NameRole.tableFunction) return failed(name);
          errorMessage ??= name;
          break;
        }
        if (role === NameRole.procedure) break;
        lastCatalog = name[0] as string;
        if (tables.add(name)) addSchema(name[0] as string, name[1] as string);
        break;
      }
      case NameRole.schema: {
        renamedIn = parts > 1 ? part(0) : catalog;
        if (parts > 2) break;
        if (renamedIn === null) return failed(NOT_QUALIFIED);
        addSchema(renamedIn, part(parts - 1));
        break;
      }
      case NameRole.renamedSchema:
        if (renamedIn === null) return failed(NOT_QUALIFIED);
        if (renamedIn === '') return failed(EMPTY);
        addSchema(renamedIn, part(0));
        break;
      case NameRole.catalog:
        catalogs.add(part(0));
        break;
      case NameRole.defaultSchema:
        if (catalog === null || schema === null) return failed(NOT_QUALIFIED);
        addSchema(catalog, schema);
        break;
      default:
        if (catalog === null) return failed(NOT_QUALIFIED);
        catalogs.add(catalog);
    }
  }
  return {
    errorMessage,
    tables: tables.sorted(),
    catalogs: catalogs.sorted(),
    schemas: schemas.sorted(),
    catalogSchemas: catalogSchemas.sorted(),
  };
}

/** Returns the name with three parts, or the error message. */
function completed(
  count: number,
  part: (index: number) => string,
  catalog: string | null,
  schema: string | null,
): QualifiedName | string {
  if (count === 3) return [part(0), part(1), part(2)];
  if (count > 3) return `Unexpected qualified name: [${Array.from({ length: count }, (_, i) => part(i)).join(', ')}]`;
  if (catalog === null || (count === 1 && schema === null)) return NOT_QUALIFIED;
  if (catalog === '' || (count === 1 && schema === '')) return EMPTY;
  return count === 2 ? [catalog, part(0), part(1)] : [catalog, schema as string, part(0)];
}

/** Merges the names of two statements and keeps the first error. */
export function joinedNames(one: ReferencedNames, other: ReferencedNames): ReferencedNames {
  const tables = new DistinctTables();
  for (const table of [...one.tables, ...other.tables]) tables.add(table);
  const texts = (list: 'catalogs' | 'schemas' | 'catalogSchemas'): readonly string[] => {
    const distinct = new DistinctTexts();
    for (const text of [...one[list], ...other[list]]) distinct.add(text);
    return distinct.sorted();
  };
  return {
    errorMessage: one.errorMessage ?? other.errorMessage,
    tables: tables.sorted(),
    catalogs: texts('catalogs'),
    schemas: texts('schemas'),
    catalogSchemas: texts('catalogSchemas'),
  };
}

function failed(errorMessage: string): ReferencedNames {
  return { ...noNames, errorMessage };
}

/** True if the procedure that a CALL names is `system.runtime.kill_query`, its name completed with the defaults. */
export function callsKillQuery(parser: Parser, defaults: NameDefaults): boolean {
  const { nameToken, nameParts } = parser.call;
  if (nameToken < 0) return false;
  const name = completed(
    nameParts,
    (index) => parser.identifierValue(nameToken + 2 * index),
    defaults.catalog === null ? null : defaults.catalog.toLowerCase(),
    defaults.schema === null ? null : defaults.schema.toLowerCase(),
  );
  return typeof name !== 'string' && name[0] === 'system' && name[1] === 'runtime' && name[2] === 'kill_query';
}
