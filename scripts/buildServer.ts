/**
 * Builds the gateway into `dist/server`: one program without its types and without what it never calls of its
 * libraries, which takes half of the memory and of the time to start. `--if-stale` leaves a build alone that was made from
 * the same sources, and says nothing where the bundler is not installed (`npm ci --omit=dev`).
 */
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { root, runBuild } from './build.ts';
import { writeBundledPackages } from './bundledPackages.ts';
import { serverExternals } from './serverExternals.ts';

const sources = join(root, 'src');

/** The libraries that stay in node_modules, and their files. */
const external = serverExternals.map((name) => new RegExp(`^${name}(/|$)`));

const output = 'dist/server';
const folders = (await readdir(sources, { withFileTypes: true }))
  .filter((entry) => entry.isDirectory() && entry.name !== 'ui')
  .map((entry) => join(sources, entry.name));
const files = ['src/main.ts', 'package.json', 'package-lock.json'].map((file) => join(root, file));

await runBuild({
  name: 'gateway',
  output,
  folders,
  files: [
    ...files,
    ...[
      import.meta.filename,
      ...['serverExternals.ts', 'bundledPackages.ts'].map((file) => join(import.meta.dirname, file)),
    ],
  ],
  bundler: () => import('rolldown'),
  build,
});

async function build(bundler: typeof import('rolldown')): Promise<void> {
  const bundle = await bundler.rolldown({
    cwd: root,
    // The program, and the files of its worker threads.
    input: [
      'main.ts',
      'gateway/analysis/analysisWorker.ts',
      'gateway/replay/replayWorker.ts',
      'replay/pageWorker.ts',
    ].map((file) => join(sources, file)),
    platform: 'node',
    external,
    // Its modules only declare things, but do not say so: without it every generated model of the Kubernetes API is kept.
    treeshake: { moduleSideEffects: (id) => !id.includes('/@kubernetes/client-node/') },
    onwarn(warning) {
      throw new Error(warning.message ?? String(warning));
    },
  });
  const result = await bundle.generate({
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
    comments: false,
  });
  await bundle.close();
  const folder = join(root, output);
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  for (const file of result.output) {
    if (file.type !== 'chunk') throw new Error(`${file.fileName}: only code can be shipped`);
    await writeFile(join(folder, file.fileName), inAscii(file.code));
  }
  await writeBundledPackages(output, result.output);
}

/**
 * Code with all characters but those of ASCII as escapes: with a single other one, Node hands the whole source to V8 in two
 * bytes a character, and V8 keeps it.
 */
function inAscii(code: string): string {
  if (/String\.raw`[^`]*[^\0-\x7f]/.test(code)) throw new Error('String.raw cannot hold an escape');
  return code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
