import type { GlobalProperty, GlobalPropertyRow } from '../model/globalProperty.ts';
import type { GroupChanges, GroupTarget } from '../model/groupsFile/groupChanges.ts';
import type { ResourceGroupColumns, ResourceGroupRow } from '../model/resourceGroup.ts';
import type { NewSelector, SelectorColumns, SelectorRow } from '../model/selector.ts';

/** A row as it is stored now, and what the engine would reject in the meantime (sentences for users). */
export interface Written<Row> {
  readonly row: Row;
  readonly warnings: readonly string[];
}

/** As `Written`, with the row as it was before, read in the same transaction; null: it was not there. */
export interface Changed<Row> extends Written<Row> {
  readonly before: Row | null;
}

/** A change of one row, or of equal rows. `row` null: deleted; both null: nothing was there. */
export type GroupWrite = (
  | { readonly kind: 'ResourceGroup'; readonly before: ResourceGroupRow | null; readonly row: ResourceGroupRow | null }
  | { readonly kind: 'Selector'; readonly before: SelectorRow | null; readonly row: SelectorRow | null }
  | {
      readonly kind: 'GlobalProperty';
      readonly before: GlobalPropertyRow | null;
      readonly row: GlobalPropertyRow | null;
    }
) & { readonly warnings: readonly string[] };

/** `resource_groups` (docs/compatibility.md#tables). */
export interface ResourceGroupRepository {
  all(): Promise<readonly ResourceGroupRow[]>;
  get(id: number): Promise<ResourceGroupRow | null>;
  /** Rejects with EG_CONFLICT (name taken under that parent), EG_IMPOSSIBLE (no such parent), EG_MALFORMED (softMemoryLimit). */
  create(columns: ResourceGroupColumns): Promise<Written<ResourceGroupRow>>;
  /** Overwrites all columns; rejects as `create`, with EG_NOT_FOUND, and with EG_IMPOSSIBLE for a cycle of parents. */
  update(row: ResourceGroupRow): Promise<Changed<ResourceGroupRow>>;
  /**
   * Returns the deleted group; null for an unknown id. Rejects with EG_CONFLICT while selectors or other groups refer
   * to it.
   */
  delete(id: number): Promise<ResourceGroupRow | null>;
}

/** `selectors` (docs/compatibility.md#tables), with the engine's own additional columns where the table has them. */
export interface SelectorRepository {
  /** All selectors, those of one group where an id is given, highest priority first. */
  all(resourceGroupId: number | null): Promise<readonly SelectorRow[]>;
  /** Rejects with EG_CONFLICT where there is no group at all, EG_IMPOSSIBLE for an unknown one or a column that the table does not have. */
  create(selector: NewSelector): Promise<Written<SelectorRow>>;
  /** Every row equal to `current` becomes `update`; without one, `update` is created. */
  update(current: SelectorRow, update: SelectorColumns): Promise<Changed<SelectorRow>>;
  /**
   * Overwrites the first selector of its group, or creates it where the group has none
   * (docs/compatibility.md#entities).
   */
  replaceFirst(selector: SelectorColumns): Promise<Changed<SelectorRow>>;
  /** Deletes every equal row; returns their number. */
  delete(selector: SelectorRow): Promise<number>;
}

/** `resource_groups_global_properties` (docs/compatibility.md#tables). */
export interface GlobalPropertyRepository {
  all(): Promise<readonly GlobalPropertyRow[]>;
  get(name: string): Promise<GlobalPropertyRow | null>;
  /** Rejects with EG_CONFLICT where it exists. */
  create(property: GlobalProperty): Promise<void>;
  /** Returns the property as it was. @throws GatewayError EG_NOT_FOUND */
  update(property: GlobalProperty): Promise<GlobalPropertyRow>;
  /** Returns the deleted property; null for an unknown name. */
  delete(name: string): Promise<GlobalPropertyRow | null>;
}

/** Groups, selectors and the period of CPU limits as resources declare them. */
export interface DeclaredGroupTables {
  /** Compares with the declaration; changes nothing. */
  compare(target: GroupTarget): Promise<GroupChanges>;
  /**
   * Writes what is declared in one transaction, nothing of it if groups without an owner are in the way; returns the changes.
   * Rejects with EG_IMPOSSIBLE for a column that the table does not have.
   */
  apply(target: GroupTarget): Promise<GroupChanges>;
}

/**
 * The tables that engines' database resource group manager reads, in one database. Each call is one transaction. Every
 * method rejects with EG_DATABASE_UNAVAILABLE when the database is unavailable, EG_NOT_FOUND when it or its tables do not exist.
 */
export interface ResourceGroupStore {
  readonly groups: ResourceGroupRepository;
  readonly selectors: SelectorRepository;
  readonly properties: GlobalPropertyRepository;
  readonly declared: DeclaredGroupTables;
  /** Runs work and rolls its changes back. Rejects as the work does. */
  preview<T>(work: (store: ResourceGroupStore) => Promise<T>): Promise<T>;
}
