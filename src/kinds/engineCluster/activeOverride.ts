import { isRecord } from '../../model/record.ts';
import { ACTIVE_ANNOTATION, type Resource } from '../../model/resource.ts';

/**
 * A run-time override of `spec.active` (docs/resources.md#activate-and-deactivate): the value of the annotation, read.
 */
export interface ActiveOverride {
  readonly active: boolean;
  readonly by: string;
  /** RFC 3339; null when the annotation does not say. */
  readonly at: string | null;
  /** `spec.active` when it was set; null when the annotation does not have it: then no change of the spec ends it. */
  readonly overrode: boolean | null;
}

export type OverrideState =
  | { readonly kind: 'none' }
  | { readonly kind: 'inForce'; readonly override: ActiveOverride }
  /** `spec.active` changed afterwards: the override is over and its annotation is to be removed. */
  | { readonly kind: 'ended'; readonly override: ActiveOverride }
  | { readonly kind: 'unreadable'; readonly message: string };

/**
 * Reads the override of a resource. A bare `true` or `false`, as a user types it with kubectl, is an override too:
 * it holds until the annotation goes.
 */
export function overrideOf(resource: Resource): OverrideState {
  const text = resource.metadata.annotations?.[ACTIVE_ANNOTATION];
  if (text === undefined) return { kind: 'none' };
  const override = parse(text);
  if (override === null) {
    const form = '{"active": true or false, "by": "…", "at": "…", "overrode": true or false}';
    return { kind: 'unreadable', message: `annotation ${ACTIVE_ANNOTATION} is not of the form ${form} and is ignored` };
  }
  const over = override.overrode !== null && override.overrode !== specActive(resource);
  return { kind: over ? 'ended' : 'inForce', override };
}

/** `spec.active` with its default. */
export function specActive(resource: Resource): boolean {
  return resource.spec.active !== false;
}

/** Effective value of `active`. */
export function effectiveActive(resource: Resource): boolean {
  const state = overrideOf(resource);
  return state.kind === 'inForce' ? state.override.active : specActive(resource);
}

/** The annotation that makes `active` effective: null removes it, undefined leaves it as it is. */
export function activeAnnotation(
  resource: Resource,
  active: boolean,
  by: string,
  at: string,
): string | null | undefined {
  const { kind } = overrideOf(resource);
  if (effectiveActive(resource) === active) return kind === 'ended' || kind === 'unreadable' ? null : undefined;
  const specified = specActive(resource);
  const override: ActiveOverride = { active, by, at, overrode: specified };
  return specified === active ? null : JSON.stringify(override);
}

function parse(text: string): ActiveOverride | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value === 'boolean') return { active: value, by: 'annotation', at: null, overrode: null };
  if (!isRecord(value)) return null;
  const { active, by, at, overrode } = value;
  if (typeof active !== 'boolean') return null;
  return {
    active,
    by: typeof by === 'string' && by !== '' ? by : 'annotation',
    at: typeof at === 'string' ? at : null,
    overrode: typeof overrode === 'boolean' ? overrode : null,
  };
}
