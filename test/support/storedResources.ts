import type { Store, StoredResource } from '../../src/store/store.ts';

/** Stores resources with their rows as a leader does that no test runs. */
export async function putStored(store: Store, ...stored: readonly StoredResource[]): Promise<void> {
  const fence = await store.leader.acquire('test', 60_000);
  if (fence === null) throw new Error('another replica leads');
  await store.resources.writeDifference({ stored, removed: [], removedRows: [] }, fence);
  await store.leader.release(fence);
}
