import { isGroupsOutcome } from '../../kinds/resourceGroupConfiguration/groupsOutcome.ts';
import { RESOURCE_GROUP_CONFIGURATION } from '../../kinds/resourceGroupConfiguration/spec.ts';
import { PERIOD, pathsOf } from '../../model/groupsFile/groupChanges.ts';
import { keyText } from '../../model/resource.ts';
import type { ResourceGroupRow } from '../../model/resourceGroup.ts';
import type { SchemaStores } from '../../store/schemaStores.ts';
import type { GroupClaim, GroupClaimRepository, GroupDrift } from '../../store/store.ts';
import type { Controller } from '../reconcile/controller.ts';
import type { ResourceSource } from '../sources/source.ts';
import { type DeclaredResource, declaredResource } from './declaredResource.ts';

/** What a resource has in the tables of a database, for one environment. */
export interface DeclaredGroupRows {
  readonly namespace: string;
  /** `metadata.name` */
  readonly name: string;
  readonly environment: string;
  /** Its groups that have a row; selectors of these are the resource's as well. */
  readonly resourceGroupIds: readonly number[];
  /** Names of the global properties that it declares. */
  readonly properties: readonly string[];
  /** What somebody else changed of it since it was written; null: nothing that is known. */
  readonly drift: GroupDrift | null;
  /** Null: it was deleted, and its rows are about to be. */
  readonly resource: DeclaredResource | null;
}

/** What an inventory is made of. */
export interface GroupInventoryOptions {
  readonly stores: SchemaStores;
  readonly claims: Pick<GroupClaimRepository, 'all'>;
  readonly source: Pick<ResourceSource, 'get' | 'provenance'>;
  readonly controller: Pick<Controller, 'outcomes'>;
  /** Name of the gateway's own database; null: it has none. */
  readonly ownDatabase: () => string | null;
}

/** Which rows of resource groups a resource declares, whichever replica wrote them (docs/resource-groups.md#as-a-resource). */
export class GroupInventory {
  readonly #options: GroupInventoryOptions;

  constructor(options: GroupInventoryOptions) {
    this.#options = options;
  }

  /**
   * Declared rows of a database by namespace, name and environment.
   * @param database as `useSchema` names it; null: the gateway's own
   * @throws GatewayError as `SchemaStores.use`; EG_DATABASE_UNAVAILABLE
   */
  async of(database: string | null): Promise<readonly DeclaredGroupRows[]> {
    const { stores, claims, ownDatabase } = this.#options;
    const place = database === ownDatabase() ? null : database;
    return await stores.use(database, async ({ groups }) => {
      const own = (await claims.all()).filter((claim) => claim.database === place);
      if (own.length === 0) return [];
      const rows = Map.groupBy(await groups.all(), ({ environment }) => environment);
      return own.map((claim) => this.#rowsOf(claim, rows.get(claim.environment) ?? []));
    });
  }

  #rowsOf(
    { namespace, name, environment, paths, period, drift }: GroupClaim,
    rows: readonly ResourceGroupRow[],
  ): DeclaredGroupRows {
    const { controller, source } = this.#options;
    const declared = new Set(paths);
    const outcome = controller.outcomes.get(keyText({ kind: RESOURCE_GROUP_CONFIGURATION, namespace, name }));
    return {
      ...{ namespace, name, environment, drift },
      resourceGroupIds: [...pathsOf(rows)].flatMap(([id, path]) => (declared.has(path) ? [id] : [])),
      properties: period === null ? [] : [PERIOD],
      resource: outcome === undefined || !isGroupsOutcome(outcome) ? null : declaredResource(outcome, source),
    };
  }
}
