import type { Resource, ResourceKey } from '../../model/resource.ts';

export interface ResourceReference extends ResourceKey {
  readonly uid: string;
  readonly resourceVersion: string;
}

/** Object of a change: a resource, or an object without one (resource groups, a rules file). */
export type ChangedThing = ResourceReference | 'gateway';

/** A change that a user made by REST and that is active. */
export interface AppliedChange {
  /** In words, e.g. `cluster etl-1`. */
  readonly object: string;
  readonly regarding: ChangedThing;
  /** Its fields as they were; null: it was not there. */
  readonly before: unknown;
  /** Its fields as they are; null: it is gone. */
  readonly after: unknown;
  readonly user: string;
  readonly roles: readonly string[];
  /** Authentication method, e.g. `session`; `open` without authentication. */
  readonly recognisedBy: string;
}

export function referenceTo({ kind, metadata }: Resource): ResourceReference {
  const { namespace, name, uid, resourceVersion } = metadata;
  return { kind, namespace, name, uid, resourceVersion };
}
