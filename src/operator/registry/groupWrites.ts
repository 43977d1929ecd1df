import {
  declaredBy,
  type GroupEdit,
  groupEdit,
  nameOfOwner,
} from '../../kinds/resourceGroupConfiguration/groupEdits.ts';
import {
  checkGroupsSpec,
  type DatabaseState,
  databaseState,
  declaredGroups,
  isGroupsOutcome,
  resourceGroupConfiguration,
} from '../../kinds/resourceGroupConfiguration/kind.ts';
import type { ResourceGroupConfigurationSpec } from '../../kinds/resourceGroupConfiguration/spec.ts';
import { GatewayError } from '../../model/errors.ts';
import { rootOf } from '../../model/groupsFile/declaredGroups.ts';
import { type GroupRows, PERIOD, pathsOf } from '../../model/groupsFile/storedGroups.ts';
import { keyText, type Resource } from '../../model/resource.ts';
import { type GroupWrite, type RowDecision, storedRow } from '../../store/resourceGroupChanges.ts';
import {
  type GroupOwner,
  type GroupOwnerRepository,
  PERIOD_ROOT,
  type SchemaStores,
} from '../../store/resourceGroupStore.ts';
import { type GroupApplier, keyOfGroups } from '../reconcile/groupApplier.ts';
import { SerialWork } from '../reconcile/workQueue.ts';
import { declaredResource, mustBeGranted, type ResourceReference, type ResourceWrites } from './resourceWrites.ts';

/** A change, and the resource that it went to; null: to the tables alone. */
type AppliedGroupWrite = GroupWrite & { readonly resource: ResourceReference | null };

/** The tables of resource groups as calls use them (docs/resource-groups.md#by-rest). */
export type GroupTables = ReturnType<typeof groupTables>;

/**
 * The tables of resource groups by REST: rows that a resource declares are changed in the resource. Databases are named as by
 * `useSchema`; null: the gateway's own. All calls reject as `SchemaStores.use`, and with EG_DATABASE_UNAVAILABLE.
 * @param ownDatabase name of the gateway's own database
 */
export function groupTables(
  stores: SchemaStores,
  owners: Pick<GroupOwnerRepository, 'all'>,
  applier: GroupApplier,
  writes: ResourceWrites,
  ownDatabase: string | null,
) {
  const { controller, source } = writes;
  /** Changes of a database are made one after the other. */
  const work = new SerialWork();
  const placeOf = (database: string | null) => (database === ownDatabase ? null : database);
  const ownersOf = async (database: string | null) =>
    (await owners.all()).filter((owner) => owner.database === placeOf(database));

  /** Changes a resource, if its databases can have it. Returns the resource, and the row as it is declared then; null: deleted. */
  const changeResource = async (edit: GroupEdit, force: boolean) => {
    const key = keyOfGroups(edit.owner);
    controller.refreshNow();
    const outcome = controller.outcomes.get(keyText(key));
    if (isGroupsOutcome(outcome)) writes.mustNotBeSuspended(outcome.resource);
    if (isGroupsOutcome(outcome) && outcome.declared === null) {
      throw declaredBy(edit, `that is not accepted: ${outcome.acceptance.message}`);
    }
    let row: GroupWrite['row'] = null;
    const editSpec = async ({ spec: present }: Pick<Resource, 'spec'>): Promise<Resource['spec']> => {
      const { namespace } = edit.owner;
      const change = edit.apply(present as unknown as ResourceGroupConfigurationSpec, (selectors) =>
        controller.tenancy.firstPriority(namespace, selectors),
      );
      if (change === null) throw declaredBy(edit, 'its spec does not have it, and the tables are about to follow');
      const { spec, problems } = checkGroupsSpec(change[0]);
      const [{ field, message } = { field: '', message: '' }] = problems;
      const text = `The ${nameOfOwner(edit.owner)} would not be valid: ${field} ${message}`;
      if (spec === null) throw new GatewayError('EG_MALFORMED', text, { field });
      const { declared, rejection } = declaredGroups(spec, namespace, ownDatabase, controller.tenancy);
      mustBeGranted(rejection);
      for (const database of declared.databases) await applier.check(edit.owner, declared, database);
      row = change[1];
      return { ...spec };
    };
    const { resource } = await writes.change(resourceGroupConfiguration, key, editSpec, force);
    return { resource, row: row as GroupWrite['row'] };
  };

  /** Writes a changed resource to the tables. Returns the warning that they follow later; null: they have the change. */
  const applyResource = async ({ database, environment, ...owner }: GroupOwner): Promise<string | null> => {
    const key = keyOfGroups(owner);
    const outcome = controller.outcomes.get(keyText(key));
    // The state has the failure.
    if (isGroupsOutcome(outcome)) await applier.apply(outcome, null).catch(() => undefined);
    const state = databaseState(applier.targets(key), database, environment);
    const failure = state === undefined ? 'it was deleted meanwhile' : state.failure;
    const isWritten = `The change is in the ${nameOfOwner(key)}, and not in the tables yet: ${failure}`;
    return failure === undefined ? null : `${isWritten}. It follows by itself; do not send it again.`;
  };

  return {
    /** All rows of all tables. */
    rows: (database: string | null): Promise<GroupRows> => stores.use(database, (store) => store.read()),

    /** The rows of one table. */
    list: (database: string | null, table: keyof GroupRows): Promise<readonly object[]> =>
      stores.use(database, (store) => store.list(table)),

    /**
     * Changes the tables, or the resource that declares the row and then the tables. Rejects as decision, `ResourceWrites.change` and
     * tables do, EG_MALFORMED if the resource would not be valid, EG_CONFLICT if the change is possible in the resource only.
     * @param force takes fields over from other managers
     */
    change: (database: string | null, decide: RowDecision, force: boolean): Promise<AppliedGroupWrite> =>
      stores.use(database, (store) =>
        work.run(placeOf(database) ?? '', async () => {
          const owned = await ownersOf(database);
          // The tables check the change, independent of the owner of the row.
          const write = await store.write((present) => {
            const decided = decide(present);
            const edit = groupEdit(decided, present.groups, owned);
            return { ...decided, edit, rows: edit === null ? decided.rows : present };
          });
          const { edit } = write;
          if (edit === null) return { ...write, resource: null };
          const { owner } = edit;
          const { resource, row } = await changeResource(edit, force);
          const pending = await applyResource(owner);
          // A new group has no id yet.
          if (pending !== null && write.kind === 'ResourceGroup' && write.before === null) {
            throw new GatewayError('EG_CONFLICT', pending);
          }
          // Rows that the resource did not declare, and a period without an owner, go as well.
          if (row === null && pending === null) await store.write(decide);
          const [asked, given] = [write.row, row].map((each) => each !== null && 'priority' in each && each.priority);
          const numbered = `The priority is ${given}, not ${asked}: the ${nameOfOwner(owner)} numbers its selectors in their order.`;
          const texts = [asked === given ? null : numbered, ...write.warnings, pending];
          const warnings = texts.filter((text) => text !== null);
          const stored = pending === null ? storedRow(await store.read(), row) : row;
          return { ...write, resource, warnings, row: stored } as AppliedGroupWrite;
        }),
      ),

    /** Lists the rows that resources own, by namespace, name and environment. */
    of: (database: string | null) =>
      stores.use(database, async (store) => {
        const owned = await ownersOf(database);
        if (owned.length === 0) return [];
        const rows = Map.groupBy(await store.list('groups'), ({ environment }) => environment);
        const byResource = Map.groupBy(owned, (each) => JSON.stringify([each.namespace, each.name, each.environment]));
        return [...byResource.values()].map((own) => {
          const { namespace, name, environment, database: place } = own[0] as GroupOwner;
          const roots = new Set(own.map(({ root }) => root));
          const key = keyOfGroups({ namespace, name });
          const outcome = controller.outcomes.get(keyText(key));
          const { databases = [] } = (source.get(key)?.status ?? {}) as { databases?: readonly DatabaseState[] };
          const { rows: count = 0, ...drift } = databaseState(databases, place, environment)?.drift ?? {};
          const paths = [...pathsOf(rows.get(environment) ?? [])];
          return {
            ...{ namespace, name, environment },
            /** Groups with a row; their selectors are the resource's as well. */
            resourceGroupIds: paths.filter(([, path]) => roots.has(rootOf(path))).map(([id]) => id),
            /** Names of the global properties that the resource declares. */
            properties: roots.has(PERIOD_ROOT) ? [PERIOD] : [],
            /** External changes, as in the status; null: none. */
            drift: 'at' in drift ? { ...drift, count } : null,
            /** Null: the resource was deleted, and its rows are about to be. */
            resource: isGroupsOutcome(outcome) ? declaredResource(outcome, source) : null,
          };
        });
      }),
  };
}
