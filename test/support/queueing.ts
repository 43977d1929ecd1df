import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';

export { manifest } from './manifest.ts';

/** Configuration of replicas that keep queries that wait: they share a secret. Everybody may call. */
export const sharedSecret = {
  authentication: 'none',
  admission: { secret: 'a secret of the replicas of a test' },
} as const;

/** Writes resources into a folder that gateways read, in place of those written before. */
export async function declare(folder: string, ...manifests: readonly object[]): Promise<void> {
  const file = join(folder, 'resources.yaml');
  // Renamed into place, so that nobody reads half of it.
  await writeFile(`${file}.new`, manifests.map((each) => stringify(each)).join('---\n'));
  await rename(`${file}.new`, file);
}
