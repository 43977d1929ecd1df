import type { Resource, ResourceKey } from '../../model/resource.ts';

/** A resource as it was when something was done to it. */
export interface ResourceReference extends ResourceKey {
  readonly uid: string;
  readonly resourceVersion: string;
}

/** What a change is about: a resource, or what the gateway keeps without one (resource groups, a rules file). */
export type ChangedThing = ResourceReference | 'gateway';

/** A change that somebody made by REST and that is in force. */
export interface AppliedChange {
  /** In words, e.g. `cluster etl-1`. */
  readonly object: string;
  readonly regarding: ChangedThing;
  /** Its fields as they were; null: it was not there. */
  readonly before: unknown;
  /** Its fields as they are; null: it is gone. */
  readonly after: unknown;
  /** Name of who made it. */
  readonly user: string;
  readonly roles: readonly string[];
  /** How they were recognised, e.g. `session`; `open` where no login is required. */
  readonly recognisedBy: string;
}

/** The reference to a resource. */
export function referenceTo({ kind, metadata }: Resource): ResourceReference {
  const { namespace, name, uid, resourceVersion } = metadata;
  return { kind, namespace, name, uid, resourceVersion };
}
