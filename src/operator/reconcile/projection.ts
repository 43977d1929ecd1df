import type { KindRegistry } from '../../kinds/kindRegistry.ts';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import type { ResourceKey } from '../../model/resource.ts';
import {
  type BackendRow,
  type Fence,
  KEPT_STATUS,
  type ProjectedResource,
  type ProjectionResult,
  type SourceName,
  type Store,
  type StoredMark,
} from '../../store/store.ts';
import { storedOfResource } from '../sources/storedResource.ts';

/** Row of `gateway_backend` that an outcome gives; null for none. */
export function rowOfOutcome(kinds: KindRegistry, outcome: ResourceOutcome): BackendRow | null {
  return kinds.of(outcome.key.kind).rows?.ofOutcome(outcome) ?? null;
}

/**
 * Apply step of a reconcile: makes the database's projection say what the resource says.
 * @param fence proof of leadership; null for the projection of a REST write
 * @param replaces what is replaced although it seems newer
 */
export async function project(
  store: Pick<Store, 'resources'>,
  kinds: KindRegistry,
  outcome: ResourceOutcome,
  source: SourceName,
  fence: Fence | null,
  replaces?: StoredMark,
): Promise<ProjectionResult> {
  const stored = projectedResource(outcome, source);
  return await store.resources.project(stored, rowOfOutcome(kinds, outcome), fence, replaces);
}

/** What is stored of an outcome. Where the row is the resource itself, a later status than the outcome knows may be in it. */
function projectedResource({ resource, registryName }: ResourceOutcome, source: SourceName): ProjectedResource {
  const stored = { ...storedOfResource(resource, source), registryName };
  return source === 'database' ? { ...stored, status: KEPT_STATUS } : stored;
}

/**
 * The same for a resource that is gone. A row that came from another source is left alone: it is not ours. So is one that is
 * the resource itself (source `database`): who deleted the resource has removed it, and what is there is of another gateway,
 * or newer than what this process has read.
 */
export async function unproject(
  store: Pick<Store, 'resources'>,
  key: ResourceKey,
  source: SourceName,
  fence: Fence | null,
): Promise<ProjectionResult> {
  if (source === 'database') return 'unchanged';
  const stored = await store.resources.get(key);
  if (stored === null || stored.source !== source) return 'unchanged';
  return await store.resources.remove(key, stored.uid, fence);
}
