import { isGroupsOutcome } from '../../kinds/resourceGroupConfiguration/groupsProgram.ts';
import type { GroupDrift } from '../../kinds/resourceGroupConfiguration/groupTargets.ts';
import { RESOURCE_GROUP_CONFIGURATION } from '../../kinds/resourceGroupConfiguration/spec.ts';
import { rootOf } from '../../model/groupsFile/declaredGroups.ts';
import { PERIOD, pathsOf } from '../../model/groupsFile/groupChanges.ts';
import { keyText, type ResourceStatus } from '../../model/resource.ts';
import { type GroupOwner, type GroupOwnerRepository, PERIOD_ROOT } from '../../store/groupOwnerRepository.ts';
import type { SchemaStores } from '../../store/schemaStores.ts';
import type { Controller } from '../reconcile/controller.ts';
import type { ResourceSource } from '../sources/source.ts';
import { type DeclaredResource, declaredResource } from './resourceWrites.ts';

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

/** Rows of resource groups by the resource that owns them, whichever replica wrote them (docs/resource-groups.md#as-a-resource). */
export class GroupInventory {
  readonly #stores: SchemaStores;
  readonly #owners: Pick<GroupOwnerRepository, 'all'>;
  readonly #source: Pick<ResourceSource, 'get' | 'provenance'>;
  readonly #controller: Pick<Controller, 'outcomes'>;
  readonly #ownDatabase: string | null;

  /** @param ownDatabase name of the gateway's own database */
  constructor(
    stores: SchemaStores,
    owners: Pick<GroupOwnerRepository, 'all'>,
    source: Pick<ResourceSource, 'get' | 'provenance'>,
    controller: Pick<Controller, 'outcomes'>,
    ownDatabase: string | null,
  ) {
    this.#stores = stores;
    this.#owners = owners;
    this.#source = source;
    this.#controller = controller;
    this.#ownDatabase = ownDatabase;
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
    const outcome = this.#controller.outcomes.get(keyText(key));
    return [
      {
        ...{ namespace, name, environment },
        resourceGroupIds: [...paths].flatMap(([id, path]) => (roots.has(rootOf(path)) ? [id] : [])),
        properties: roots.has(PERIOD_ROOT) ? [PERIOD] : [],
        drift: driftOf(this.#source.get(key)?.status, database, environment),
        resource: isGroupsOutcome(outcome) ? declaredResource(outcome, this.#source) : null,
      },
    ];
  }
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
