import { type GroupsOutcome, isGroupsOutcome } from '../../kinds/resourceGroupConfiguration/groupsProgram.ts';
import { databaseTitle, type GroupDrift } from '../../kinds/resourceGroupConfiguration/groupTargets.ts';
import { resourceGroupConfiguration } from '../../kinds/resourceGroupConfiguration/kind.ts';
import {
  RESOURCE_GROUP_CONFIGURATION,
  type ResourceGroupConfigurationSpec,
} from '../../kinds/resourceGroupConfiguration/spec.ts';
import { groupsProblems } from '../../kinds/resourceGroupConfiguration/validation.ts';
import { GatewayError } from '../../model/errors.ts';
import { type DeclaredSelector, rootOf } from '../../model/groupsFile/declaredGroups.ts';
import { PERIOD, pathsOf } from '../../model/groupsFile/groupChanges.ts';
import { keyText, type ResourceKey, type ResourceStatus } from '../../model/resource.ts';
import type { ResourceGroupRow } from '../../model/resourceGroup.ts';
import { type GroupOwner, type GroupOwnerRepository, PERIOD_ROOT } from '../../store/groupOwnerRepository.ts';
import type { GroupWrite, ResourceGroupStore } from '../../store/resourceGroupStore.ts';
import type { SchemaStores } from '../../store/schemaStores.ts';
import type { GroupApplier } from '../reconcile/groupApplier.ts';
import { SerialWork } from '../reconcile/serialWork.ts';
import { type DeclaredChange, declaredBy, declaredChange, nameOfOwner, rowOfSelector } from './groupSpecChange.ts';
import {
  type DeclaredResource,
  declaredResource,
  type ResourceReference,
  type ResourceWrites,
} from './resourceWrites.ts';

/** A change, and the resource that it went to; null: to the tables alone. */
export type AppliedGroupWrite = GroupWrite & { readonly resource: ResourceReference | null };

/** The tables of resource groups as calls use them (docs/resource-groups.md#by-rest). */
export type GroupTables = Pick<GroupWrites, 'use' | 'change'>;

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
  readonly drift: GroupDrift | null;
  /** Null: the resource was deleted, and its rows are about to be. */
  readonly resource: DeclaredResource | null;
}

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
  async change(
    database: string | null,
    work: (store: ResourceGroupStore) => Promise<GroupWrite>,
    force: boolean,
  ): Promise<AppliedGroupWrite> {
    const place = database === this.#ownDatabase ? null : database;
    const ownersOf = async () => (await this.#owners.all()).filter((owner) => owner.database === place);
    return await this.#stores.use(database, async (store) => {
      if ((await ownersOf()).length === 0) return { ...(await work(store)), resource: null };
      return await this.#work.run(place ?? '', async () => {
        // The tables check the change, independent of the owner of the row.
        const { groups, write } = await store.preview(async (tables) => ({
          groups: await tables.groups.all(),
          write: await work(tables),
        }));
        const change = declaredChange(write, groups, await ownersOf());
        if (change === null) return { ...(await work(store)), resource: null };
        return await this.#changeResource(store, work, change, write, force);
      });
    });
  }

  async #changeResource(
    store: ResourceGroupStore,
    work: (store: ResourceGroupStore) => Promise<GroupWrite>,
    change: DeclaredChange,
    write: GroupWrite,
    force: boolean,
  ): Promise<AppliedGroupWrite> {
    const { owner } = change;
    const key: ResourceKey = { kind: RESOURCE_GROUP_CONFIGURATION, namespace: owner.namespace, name: owner.name };
    this.#writes.controller.refreshNow();
    this.#requireActive(key, change);
    let selector: DeclaredSelector | undefined;
    const { resource } = await this.#writes.change(
      resourceGroupConfiguration,
      key,
      ({ spec }) => {
        const edited = change.edit(spec as unknown as ResourceGroupConfigurationSpec);
        if (edited === null) {
          throw declaredBy(owner, change, 'its spec does not have it any more, and the tables are about to follow');
        }
        const [problem] = groupsProblems(edited.spec);
        if (problem !== undefined) {
          const message = `The ${nameOfOwner(owner)} would not be valid: ${problem.field} ${problem.message}`;
          throw new GatewayError('EG_MALFORMED', message, { field: problem.field });
        }
        selector = edited.selector;
        return { ...edited.spec };
      },
      force,
    );
    const { warnings, isPending } = await this.#apply(key, owner);
    if (write.kind === 'Selector' && write.row !== null && selector !== undefined) {
      const { priority, texts } = selector;
      const rows = isPending ? [] : await store.selectors.all(write.row.resourceGroupId);
      const row = rowOfSelector(rows, selector) ?? { ...write.row, ...texts, priority };
      const derived = `The priority is ${priority}, not ${write.row.priority}: the ${nameOfOwner(owner)} numbers its selectors in their order.`;
      const others = priority === write.row.priority ? [] : [derived];
      return { ...write, row, resource, warnings: [...write.warnings, ...others, ...warnings] };
    }
    if (write.row === null) {
      // Rows that the resource did not declare, and a period without an owner.
      if (!isPending) await work(store);
      return { ...write, resource, warnings };
    }
    if (write.kind !== 'ResourceGroup') return { ...write, resource, warnings };
    // A new group has no id yet.
    if (isPending && write.before === null) throw new GatewayError('EG_CONFLICT', warnings.join(' '));
    const row = isPending ? write.row : await storedGroup(store, write.row);
    return { ...write, row, warnings: [...write.warnings, ...warnings], resource };
  }

  /** Rejects if the tables need not be as the resource declares. */
  #requireActive(key: ResourceKey, change: DeclaredChange): void {
    const outcome = this.#writes.controller.outcomes.get(keyText(key));
    if (!isGroupsOutcome(outcome))
      throw declaredBy(change.owner, change, 'that was deleted, and its groups go with it');
    if (outcome.declared !== null) return;
    const fix = outcome.paused
      ? 'that is paused; remove its annotation enginegateway.dev/paused first'
      : `that is not accepted: ${outcome.acceptance.message}`;
    throw declaredBy(change.owner, change, fix);
  }

  /** Writes a changed resource to the tables. */
  async #apply(
    key: ResourceKey,
    { database, environment }: GroupOwner,
  ): Promise<{ readonly warnings: readonly string[]; readonly isPending: boolean }> {
    const outcome = this.#writes.controller.outcomes.get(keyText(key));
    const title = `${key.kind} ${key.namespace}/${key.name}`;
    const isWritten = `The change is in the ${title}, and not in the tables`;
    if (!isGroupsOutcome(outcome) || outcome.declared === null) {
      throw new GatewayError('EG_CONFLICT', `${isWritten}: ${reasonOf(outcome)}`);
    }
    const thrown = await this.#applier.apply(outcome, null).then(
      () => null,
      (error: unknown) => error,
    );
    const states = this.#applier.targets.of(key) ?? [];
    const own = states.find((state) => state.database === database && state.environment === environment);
    if (own === undefined) throw thrown ?? new GatewayError('EG_CONFLICT', `${isWritten}: it was deleted meanwhile`);
    if (own.failure !== null) {
      const message = `${isWritten} yet: ${own.failure.message}. It follows by itself; do not send it again.`;
      if (own.failure.reason === 'DatabaseUnavailable') return { warnings: [message], isPending: true };
      throw new GatewayError('EG_CONFLICT', message, { cause: thrown });
    }
    const warnings = states.flatMap(({ database: other, failure }) =>
      failure === null || other === database
        ? []
        : [`The ${title} is for ${databaseTitle(other)} as well: ${failure.message}`],
    );
    return { warnings, isPending: false };
  }

  /**
   * Owned rows of a database by namespace, name and environment.
   * @param database as `useSchema` names it; null: the gateway's own
   * @throws GatewayError as `SchemaStores.use`; EG_DATABASE_UNAVAILABLE
   */
  async of(database: string | null): Promise<readonly DeclaredGroupRows[]> {
    const place = database === this.#ownDatabase ? null : database;
    return await this.#stores.use(database, async ({ groups }) => {
      const owners = (await this.#owners.all()).filter((owner) => owner.database === place);
      if (owners.length === 0) return [];
      const rows = Map.groupBy(await groups.all(), ({ environment }) => environment);
      const byResource = Map.groupBy(owners, ({ namespace, name, environment }) =>
        JSON.stringify([namespace, name, environment]),
      );
      return [...byResource.values()].flatMap((own) => {
        const paths = pathsOf(rows.get(own[0]?.environment ?? '') ?? []);
        return this.#rowsOf(own, paths);
      });
    });
  }

  #rowsOf(own: readonly GroupOwner[], paths: ReadonlyMap<number, string>): DeclaredGroupRows[] {
    const [first] = own;
    if (first === undefined) return [];
    const { namespace, name, database, environment } = first;
    const roots = new Set(own.map(({ root }) => root));
    const key = { kind: RESOURCE_GROUP_CONFIGURATION, namespace, name };
    const outcome = this.#writes.controller.outcomes.get(keyText(key));
    return [
      {
        ...{ namespace, name, environment },
        resourceGroupIds: [...paths].flatMap(([id, path]) => (roots.has(rootOf(path)) ? [id] : [])),
        properties: roots.has(PERIOD_ROOT) ? [PERIOD] : [],
        drift: driftOf(this.#writes.source.get(key)?.status, database, environment),
        resource: isGroupsOutcome(outcome) ? declaredResource(outcome, this.#writes.source) : null,
      },
    ];
  }
}

function reasonOf(outcome: Parameters<typeof isGroupsOutcome>[0]): string {
  return isGroupsOutcome(outcome) ? (outcome satisfies GroupsOutcome).acceptance.message : 'it was deleted meanwhile';
}

async function storedGroup(store: ResourceGroupStore, row: ResourceGroupRow): Promise<ResourceGroupRow> {
  const rows = await store.groups.all();
  const stored = rows.find(
    (each) => each.parent === row.parent && each.name === row.name && each.environment === row.environment,
  );
  if (stored !== undefined) return stored;
  throw new GatewayError('EG_CONFLICT', `The group ${row.name} was deleted meanwhile; look at the groups again.`);
}

/** Drift of one database, as the status of a resource has it. */
function driftOf(status: ResourceStatus | undefined, database: string | null, environment: string): GroupDrift | null {
  const { databases = [] } = (status ?? {}) as {
    readonly databases?: readonly {
      readonly name?: string;
      readonly environment: string;
      readonly drift?: Omit<GroupDrift, 'count'> & { readonly rows: number };
    }[];
  };
  const drift = databases.find((each) => (each.name ?? null) === database && each.environment === environment)?.drift;
  if (drift === undefined) return null;
  const { at, repaired, rows: count, differences } = drift;
  return { at, repaired, count, differences };
}
