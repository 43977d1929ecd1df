import type { ResourceOutcome } from '../../kinds/outcome.ts';
import type { StatusView } from '../../kinds/status.ts';
import type { ResourceKey } from '../../model/resource.ts';
import type { Fence } from '../../store/store.ts';

/** Effects of the leader outside of the gateway's own tables. */
export interface ResourceEffects {
  readonly targets: StatusView['targets'];
  /** Has it done what an outcome states, of whichever kind. Rejects when it is to be tried again. */
  apply(outcome: ResourceOutcome, fence: Fence): Promise<void>;
  /** Takes back what was done for a resource that is gone. Rejects when it is to be tried again. */
  remove(key: ResourceKey, fence: Fence): Promise<void>;
  /**
   * Begins to look now and then at what another user may have changed. @param onDue has a resource, or its absence,
   * looked at
   */
  start(onDue: (key: ResourceKey) => void): void;
  look(): void;
  stop(): Promise<void>;
}
