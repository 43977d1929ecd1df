import type { TSchema } from 'typebox';
import type { Checked } from '../../model/validation.ts';
import type { GroupWrite, ResourceGroupStore } from '../../store/resourceGroupStore.ts';

/** A change of the resource group tables that leaves a row: what it takes and responses is the same in every family. */
export interface TableChange<Sent> {
  readonly body: TSchema;
  readonly row: TSchema;
  parse(body: unknown): Checked<Sent>;
  /** @throws GatewayError as the store does; EG_IMPOSSIBLE for what engines could not load */
  apply(store: ResourceGroupStore, change: Sent): Promise<GroupWrite>;
}
