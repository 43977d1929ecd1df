/**
 * Builds the user interface into `dist/ui`, with each file compressed beside it. `--if-stale` leaves a build alone that
 * was made from the same sources, and says nothing where Vite is not installed (`npm ci --omit=dev`).
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { digestOfSources } from './builtFrom.ts';

const root = resolve(import.meta.dirname, '..');
const sources = join(root, 'src/ui');
const output = join(root, 'dist/ui');
const stampFile = join(root, 'dist/ui.stamp');

const { values } = parseArgs({ options: { 'if-stale': { type: 'boolean', default: false } } });
const stamp = await digestOfSources([sources], [join(root, 'package-lock.json'), import.meta.filename]);
const built = await readFile(stampFile, 'utf8').catch(() => '');
if (!values['if-stale'] || built !== stamp) await build();

async function build(): Promise<void> {
  const vite = await import('vite').catch((error: unknown) => {
    if (values['if-stale']) return null;
    throw error;
  });
  if (vite === null) return;
  const started = performance.now();
  await rm(stampFile, { force: true });
  await vite.build({ configFile: join(sources, 'vite.config.ts'), logLevel: 'warn' });
  await compressFiles();
  await writeFile(stampFile, stamp);
  console.log(`user interface built into dist/ui in ${((performance.now() - started) / 1000).toFixed(1)} s`);
}

/** Writes `.br` and `.gz` beside every text file; the page itself is compressed by the gateway, which fills it in. */
async function compressFiles(): Promise<void> {
  const entries = await readdir(output, { recursive: true, withFileTypes: true });
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
