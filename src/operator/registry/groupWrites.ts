import {
  declaredBy,
  type EditedSpec,
  type GroupEdit,
  groupEdit,
  isSelector,
  nameOfOwner,
} from '../../kinds/resourceGroupConfiguration/groupEdits.ts';
import { isGroupsOutcome } from '../../kinds/resourceGroupConfiguration/groupsProgram.ts';
import {
  type DatabaseState,
  databaseState,
  type GroupDrift,
} from '../../kinds/resourceGroupConfiguration/groupsStatus.ts';
import { resourceGroupConfiguration } from '../../kinds/resourceGroupConfiguration/kind.ts';
import { RESOURCE_GROUP_CONFIGURATION } from '../../kinds/resourceGroupConfiguration/spec.ts';
import { checkGroupsSpec } from '../../kinds/resourceGroupConfiguration/validation.ts';
import { GatewayError } from '../../model/errors.ts';
import { rootOf } from '../../model/groupsFile/declaredGroups.ts';
import { PERIOD, pathsOf } from '../../model/groupsFile/storedGroups.ts';
import { keyText, type ResourceKey } from '../../model/resource.ts';
import type { ResourceGroupRow } from '../../model/resourceGroup.ts';
import { type GroupOwner, type GroupOwnerRepository, PERIOD_ROOT } from '../../store/declaredGroups.ts';
import type { GroupWrite, ResourceGroupStore, SchemaStores } from '../../store/resourceGroupStore.ts';
import type { GroupApplier } from '../reconcile/groupApplier.ts';
import { SerialWork } from '../reconcile/serialWork.ts';
import {
  type DeclaredResource,
  declaredResource,
  type ResourceReference,
  type ResourceWrites,
} from './resourceWrites.ts';

/** A change, and the resource that it went to; null: to the tables alone. */
export type AppliedGroupWrite = GroupWrite & { readonly resource: ResourceReference | null };

/** The tables of resource groups as calls use them (docs/resource-groups.md#by-rest). */
export type GroupTables = Pick<GroupWrites, 'use' | 'change' | 'of'>;

/** Rows of a database that a resource owns, for one environment. */
export interface DeclaredGroupRows {
  readonly namespace: string;
  /** `metadata.name` */
  readonly name: string;
  readonly environment: string;
  /** Groups with a row; their selectors are the resource's as well. */
  readonly resourceGroupIds: readonly number[];
  /** Names of the global properties that the resource declares. */
  readonly properties: readonly string[];
  /** External changes, as in the status; null: none. */
  readonly drift: (Omit<GroupDrift, 'rows'> & { readonly count: number }) | null;
  /** Null: the resource was deleted, and its rows are about to be. */
  readonly resource: DeclaredResource | null;
}

type TableWork = (store: ResourceGroupStore) => Promise<GroupWrite>;

/** The tables of resource groups by REST: rows that a resource declares are changed in the resource. */
export class GroupWrites {
  readonly #stores: SchemaStores;
  readonly #owners: Pick<GroupOwnerRepository, 'all'>;
  readonly #applier: Pick<GroupApplier, 'apply' | 'targets'>;
  readonly #writes: ResourceWrites;
  readonly #ownDatabase: string | null;
  /** Changes of a database are made one after the other. */
  readonly #work = new SerialWork();

  /** @param ownDatabase name of the gateway's own database */
  constructor(
    stores: SchemaStores,
    owners: Pick<GroupOwnerRepository, 'all'>,
    applier: Pick<GroupApplier, 'apply' | 'targets'>,
    writes: ResourceWrites,
    ownDatabase: string | null,
  ) {
    this.#stores = stores;
    this.#owners = owners;
    this.#applier = applier;
    this.#writes = writes;
    this.#ownDatabase = ownDatabase;
  }

  use<T>(database: string | null, work: (store: ResourceGroupStore) => Promise<T>): Promise<T> {
    return this.#stores.use(database, work);
  }

  /**
   * Changes the tables, or the resource that declares the row and then the tables. Rejects as `use` and `ResourceWrites.change` do,
   * with EG_MALFORMED if the resource would not be valid, with EG_CONFLICT if the change is possible in the resource only.
   * @param force takes fields over from other managers
   */
  async change(database: string | null, work: TableWork, force: boolean): Promise<AppliedGroupWrite> {
    return await this.#stores.use(database, async (store) => {
      if ((await this.#ownersOf(database)).length === 0) return { ...(await work(store)), resource: null };
      return await this.#work.run(this.#placeOf(database) ?? '', async () => {
        // The tables check the change, independent of the owner of the row.
        const { groups, write } = await store.preview(async (tables) => ({
          groups: await tables.groups.all(),
          write: await work(tables),
        }));
        const edit = groupEdit(write, groups, await this.#ownersOf(database));
        if (edit === null) return { ...(await work(store)), resource: null };
        const { resource, row } = await this.#changeResource(edit, force);
        const pending = await this.#apply(edit.owner);
        // A new group has no id yet.
        if (pending !== null && write.kind === 'ResourceGroup' && write.before === null) {
          throw new GatewayError('EG_CONFLICT', pending);
        }
        // Rows that the resource did not declare, and a period without an owner, go as well.
        if (row === null && pending === null) await work(store);
        const [asked, given] = [priorityOf(write.row), priorityOf(row)];
        const numbered = `The priority is ${given}, not ${asked}: the ${nameOfOwner(edit.owner)} numbers its selectors in their order.`;
        const warnings = [
          ...(asked === given ? [] : [numbered]),
          ...write.warnings,
          ...(pending === null ? [] : [pending]),
        ];
        const stored = pending === null ? await storedRow(store, row) : row;
        return { ...write, resource, warnings, row: stored } as AppliedGroupWrite;
      });
    });
  }

  async #changeResource(edit: GroupEdit, force: boolean) {
    const key = keyOf(edit.owner);
    this.#writes.controller.refreshNow();
    const outcome = this.#writes.controller.outcomes.get(keyText(key));
    if (isGroupsOutcome(outcome) && outcome.declared === null && !outcome.paused) {
      throw declaredBy(edit, `that is not accepted: ${outcome.acceptance.message}`);
    }
    let row: GroupWrite['row'] | undefined;
    const edited = (present: unknown) => {
      const spec = structuredClone(present) as EditedSpec;
      row = edit.apply(spec);
      if (row === undefined) {
        throw declaredBy(edit, 'its spec does not have it any more, and the tables are about to follow');
      }
      const [problem] = checkGroupsSpec(spec).problems;
      if (problem === undefined) return { ...spec };
      const message = `The ${nameOfOwner(edit.owner)} would not be valid: ${problem.field} ${problem.message}`;
      throw new GatewayError('EG_MALFORMED', message, { field: problem.field });
    };
    const { resource } = await this.#writes.change(resourceGroupConfiguration, key, ({ spec }) => edited(spec), force);
    return { resource, row: row ?? null };
  }

  /** Writes a changed resource to the tables. Returns the warning that one of them follows later; null: it has the change. */
  async #apply({ namespace, name, database, environment }: GroupOwner): Promise<string | null> {
    const key = keyOf({ namespace, name });
    const isWritten = `The change is in the ${nameOfOwner(key)}, and not in the tables`;
    const outcome = this.#writes.controller.outcomes.get(keyText(key));
    const cause: unknown = await (outcome && this.#applier.apply(outcome, null).catch((error: unknown) => error));
    const state = databaseState(this.#applier.targets.of(key) ?? [], database, environment);
    if (state === undefined) throw cause ?? new GatewayError('EG_CONFLICT', `${isWritten}: it was deleted meanwhile`);
    if (state.failure === undefined) return null;
    const message = `${isWritten} yet: ${state.failure}. It follows by itself; do not send it again.`;
    if (state.reason === 'DatabaseUnavailable') return message;
    throw new GatewayError('EG_CONFLICT', message, { cause });
  }

  #placeOf(database: string | null): string | null {
    return database === this.#ownDatabase ? null : database;
  }

  async #ownersOf(database: string | null): Promise<readonly GroupOwner[]> {
    return (await this.#owners.all()).filter((owner) => owner.database === this.#placeOf(database));
  }

  /**
   * Owned rows of a database by namespace, name and environment.
   * @param database as `useSchema` names it; null: the gateway's own
   * @throws GatewayError as `SchemaStores.use`; EG_DATABASE_UNAVAILABLE
   */
  async of(database: string | null): Promise<readonly DeclaredGroupRows[]> {
    return await this.#stores.use(database, async ({ groups }) => {
      const owners = await this.#ownersOf(database);
      if (owners.length === 0) return [];
      const rows = Map.groupBy(await groups.all(), ({ environment }) => environment);
      const byResource = Map.groupBy(owners, ({ namespace, name, environment }) =>
        JSON.stringify([namespace, name, environment]),
      );
      return [...byResource.values()].map((own) => {
        const { namespace, name, environment, database: place } = own[0] as GroupOwner;
        const roots = new Set(own.map(({ root }) => root));
        const key = keyOf({ namespace, name });
        const outcome = this.#writes.controller.outcomes.get(keyText(key));
        const status = this.#writes.source.get(key)?.status ?? {};
        const { databases = [] } = status as { readonly databases?: readonly DatabaseState[] };
        const { rows: count = 0, ...drift } = databaseState(databases, place, environment)?.drift ?? {};
        return {
          ...{ namespace, name, environment },
          resourceGroupIds: [...pathsOf(rows.get(environment) ?? [])].flatMap(([id, path]) =>
            roots.has(rootOf(path)) ? [id] : [],
          ),
          properties: roots.has(PERIOD_ROOT) ? [PERIOD] : [],
          drift: 'at' in drift ? { ...drift, count } : null,
          resource: isGroupsOutcome(outcome) ? declaredResource(outcome, this.#writes.source) : null,
        };
      });
    });
  }
}

const keyOf = ({ namespace, name }: Pick<ResourceKey, 'namespace' | 'name'>): ResourceKey => ({
  ...{ kind: RESOURCE_GROUP_CONFIGURATION, namespace, name },
});

const priorityOf = (row: GroupWrite['row']) => (row !== null && 'priority' in row ? row.priority : null);

/** A row as it is stored. */
async function storedRow(store: ResourceGroupStore, row: GroupWrite['row']): Promise<GroupWrite['row']> {
  if (row === null || 'value' in row) return row;
  if ('priority' in row) {
    return (await store.selectors.all(row.resourceGroupId)).find((each) => isSelector(each, row)) ?? row;
  }
  const { name, parent, environment } = row;
  const isSame = (each: ResourceGroupRow) =>
    each.parent === parent && each.name === name && each.environment === environment;
  const stored = (await store.groups.all()).find(isSame);
  if (stored !== undefined) return stored;
  throw new GatewayError('EG_CONFLICT', `The group ${name} was deleted meanwhile; look at the groups again.`);
}
