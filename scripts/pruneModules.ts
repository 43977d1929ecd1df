/**
 * Removes from `node_modules` of the working directory what the bundled server does not load: every package but those of
 * `serverExternals` and what package-lock.json says that they depend on. For the image; it needs no package itself.
 */
import { readdir, rm, rmdir } from 'node:fs/promises';
import { packagesWithDependencies, readLockedPackages } from './lockedPackages.ts';
import { serverExternals } from './serverExternals.ts';

const packages = await readLockedPackages('package-lock.json');
const kept = packagesWithDependencies(packages, serverExternals);
const removed = Object.keys(packages).filter(
  // A kept package may lie in the folder of another one.
  (path) => path !== '' && ![...kept].some((keptPath) => keptPath === path || keptPath.startsWith(`${path}/`)),
);
for (const path of removed) await rm(path, { recursive: true, force: true });
for (const path of ['.bin', '.package-lock.json']) await rm(`node_modules/${path}`, { recursive: true, force: true });
for (const scope of (await readdir('node_modules')).filter((name) => name.startsWith('@'))) {
  if ((await readdir(`node_modules/${scope}`)).length === 0) await rmdir(`node_modules/${scope}`);
}
console.log(`node_modules holds ${kept.size} packages for ${serverExternals.join(', ')}`);
