/**
 * Removes from `node_modules` of the working directory what the bundled server does not load: every package but those of
 * `serverExternals` and what package-lock.json says that they depend on. For the image; it needs no package itself.
 */
import { readdir, readFile, rm, rmdir } from 'node:fs/promises';
import { serverExternals } from './serverExternals.ts';

interface LockedPackage {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

const { packages } = JSON.parse(await readFile('package-lock.json', 'utf8')) as {
  readonly packages: Readonly<Record<string, LockedPackage>>;
};

const kept = new Set<string>();
for (const name of serverExternals) keep('', name);
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

/** Keeps the package that a package finds by a name (https://nodejs.org/api/modules.html#loading-from-node_modules-folders). */
function keep(from: string, name: string): void {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
    const path = folder === '' ? `node_modules/${name}` : `${folder}/node_modules/${name}`;
    const found = packages[path];
    if (found !== undefined) {
      if (kept.has(path)) return;
      kept.add(path);
      const { dependencies, optionalDependencies, peerDependencies } = found;
      const next = Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies });
      // Types are peers for compilers only.
      for (const each of next.filter((one) => !one.startsWith('@types/'))) keep(path, each);
      return;
    }
    // An optional one, or a peer that is not installed.
    if (folder === '') return;
  }
}
