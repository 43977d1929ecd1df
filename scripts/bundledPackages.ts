import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from './build.ts';

/** Chunks of a bundle, as Rolldown and Vite return them. */
type BundledFiles = readonly { readonly type: string; readonly modules?: Readonly<Record<string, unknown>> }[];

/** File beside a build that lists the packages whose code is in it, as paths of package-lock.json. */
export const bundledPackagesFile = (output: string): string => join(root, `${output}.packages.json`);

/** Writes which packages a bundle has code of: what nobody would find in it afterwards. */
export async function writeBundledPackages(output: string, files: BundledFiles): Promise<void> {
  const modules = files.flatMap((file) => (file.type === 'chunk' ? Object.keys(file.modules ?? {}) : []));
  const paths = modules.flatMap(
    (id) => /(?:.*\/)?(node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id.replaceAll('\\', '/'))?.slice(0, 1) ?? [],
  );
  const relative = paths.map((path) => path.slice(path.indexOf('node_modules/'), -1));
  await writeFile(bundledPackagesFile(output), `${JSON.stringify([...new Set(relative)].sort(), null, 2)}\n`);
}
