import process from 'node:process';
import { makeClassArchives } from './classArchives.ts';
import { INSTALLED, installDistribution } from './distribution.ts';

/**
 * Vitest's global setup: installs the distribution, and makes archives of its classes, before files run beside each other, which would download it twice and
 * write into the same folders.
 */
export async function setup(): Promise<void> {
  const install = async () => {
    const distribution = await installDistribution();
    await makeClassArchives(distribution);
    process.env[INSTALLED] = JSON.stringify(distribution);
  };
  // Files whose tools are missing are skipped by name, and those that need what could not be installed fail by name.
  await install().catch((error: unknown) => console.error(`the engine could not be installed: ${error}`));
}
