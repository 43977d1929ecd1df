import { readFile } from 'node:fs/promises';

/** A package of package-lock.json (https://docs.npmjs.com/cli/configuring-npm/package-lock-json#packages). */
export interface LockedPackage {
  readonly version?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/** Packages by their path below the project, `node_modules/…`; the project itself is ''. */
export type LockedPackages = Readonly<Record<string, LockedPackage>>;

/** Reads a package-lock.json. */
export async function readLockedPackages(file: string): Promise<LockedPackages> {
  return (JSON.parse(await readFile(file, 'utf8')) as { readonly packages: LockedPackages }).packages;
}

/** Paths of some packages of the project and of everything that they depend on, without types. */
export function packagesWithDependencies(packages: LockedPackages, names: readonly string[]): ReadonlySet<string> {
  const paths = new Set<string>();
  for (const name of names) add('', name);
  return paths;

  /** Adds the package that a package finds by a name (https://nodejs.org/api/modules.html#loading-from-node_modules-folders). */
  function add(from: string, name: string): void {
    for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
      const path = folder === '' ? `node_modules/${name}` : `${folder}/node_modules/${name}`;
      const locked = packages[path];
      if (locked !== undefined) {
        if (paths.has(path)) return;
        paths.add(path);
        const { dependencies, optionalDependencies, peerDependencies } = locked;
        const next = Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies });
        // Types are peers for compilers only.
        for (const each of next.filter((one) => !one.startsWith('@types/'))) add(path, each);
        return;
      }
      // An optional one, or a peer that is not installed.
      if (folder === '') return;
    }
  }
}
