import { installReference, missingReferenceTools, RELEASE, RELEASE_WITH_RESOURCE_GROUPS } from './referenceGateway.ts';

/** Vitest's global setup: downloads the releases of the reference gateway before the time limits of the files' hooks run. */
export async function setup(): Promise<void> {
  if ((await missingReferenceTools()).length > 0) return;
  // Where it could not be installed, the tests fail by name.
  for (const release of [RELEASE, RELEASE_WITH_RESOURCE_GROUPS]) {
    await installReference(release).catch((error: unknown) =>
      console.error(`release ${release} of the reference gateway could not be installed: ${error}`),
    );
  }
}
