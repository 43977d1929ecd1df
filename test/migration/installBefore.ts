import { installReference, missingReferenceTools, RELEASE } from './referenceGateway.ts';

/** Vitest's global setup: downloads the reference gateway before the time limits of the files' hooks run. */
export async function setup(): Promise<void> {
  if ((await missingReferenceTools()).length > 0) return;
  // Where it could not be installed, the tests fail by name.
  await installReference(RELEASE).catch((error: unknown) =>
    console.error(`the reference gateway could not be installed: ${error}`),
  );
}
