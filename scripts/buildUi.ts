/**
 * Builds the user interface into `dist/ui`, with each file compressed beside it. `--if-stale` leaves a build alone that
 * was made from the same sources, and says nothing where Vite is not installed (`npm ci --omit=dev`).
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { root, runBuild } from './build.ts';
import { writeBundledPackages } from './bundledPackages.ts';

const sources = join(root, 'src/ui');
const output = 'dist/ui';

await runBuild({
  name: 'user interface',
  output,
  folders: [sources],
  files: [join(root, 'package-lock.json'), import.meta.filename, join(import.meta.dirname, 'bundledPackages.ts')],
  bundler: () => import('vite'),
  build: async (vite) => {
    // What is built is what ships, also where a test or a developer's shell says otherwise.
    process.env.NODE_ENV = 'production';
    const result = await vite.build({ configFile: join(sources, 'vite.config.ts'), logLevel: 'warn' });
    if (!('output' in result)) throw new Error('Vite built more than one bundle');
    await writeBundledPackages(output, result.output);
    await compressFiles();
  },
});

/** Writes `.br` and `.gz` beside every text file; the page itself is compressed by the gateway, which fills it in. */
async function compressFiles(): Promise<void> {
  const entries = await readdir(join(root, output), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && /\.(js|css|svg)$/.test(entry.name));
  await Promise.all(
    files.map(async ({ parentPath, name }) => {
      const file = join(parentPath, name);
      const content = await readFile(file);
      const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
      await writeFile(`${file}.br`, await promisify(brotliCompress)(content, { params }));
      await writeFile(`${file}.gz`, await promisify(gzip)(content, { level: 9 }));
    }),
  );
}
