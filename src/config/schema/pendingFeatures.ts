/**
 * Features whose keys are accepted already, so that an existing file starts the gateway, but which change nothing
 * yet. Whoever builds one deletes its line here; its keys then count.
 */
const pendingFeatures = {
  tracing: 'traces are not built into this version',
} satisfies Record<string, string>;

/** A feature that may be missing. */
export type Feature = 'resourceGroups' | 'tracing' | 'userInterface';

function whyPending(feature: Feature): string | undefined {
  return (pendingFeatures as Partial<Record<Feature, string>>)[feature];
}

/** The note for keys of a feature: empty once the feature is there. */
export function unlessBuilt(feature: Feature): { readonly withoutEffect?: string } {
  const why = whyPending(feature);
  return why === undefined ? {} : { withoutEffect: why };
}
