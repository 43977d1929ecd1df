/**
 * Makes the files of a release: the npm package, the charts, the CRDs and manifests as one file each, the bill of materials
 * (CycloneDX), provenance (SLSA) and checksums. Images are built from the Dockerfile beside it (docs/install.md#images).
 *
 *     npm run release -- [--output FOLDER] [--builder URI] [--allow-dirty]
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { parse } from 'yaml';
import { root } from './build.ts';
import { bundledPackagesFile } from './bundledPackages.ts';
import { packagesWithDependencies, readLockedPackages } from './lockedPackages.ts';
import { type Artifact, provenance } from './release/provenance.ts';
import { type Sbom, shippedSbom } from './release/sbom.ts';
import { serverExternals } from './serverExternals.ts';

const run = promisify(execFile);
const startedOn = new Date();
const { values } = parseArgs({
  options: {
    output: { type: 'string', default: join(root, 'dist/release') },
    builder: { type: 'string', default: 'https://enginegateway.dev/release/local' },
    'allow-dirty': { type: 'boolean', default: false },
  },
});
const { output } = values;
const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { readonly version: string };
const charts = ['engine-gateway', 'engine-gateway-crds'];

const mistake = await mistakeIn();
if (mistake === null) await release();
else {
  console.error(mistake);
  process.exitCode = 1;
}

/** Why nothing can be released from this working tree; null when it can. */
async function mistakeIn(): Promise<string | null> {
  const { stdout: changed } = await git('status', '--porcelain');
  if (changed !== '' && !values['allow-dirty'])
    return 'the working tree has changes; commit them, or try with --allow-dirty';
  for (const chart of charts) {
    const file = `manifests/helm/${chart}/Chart.yaml`;
    const { version: own, appVersion } = parse(await readFile(join(root, file), 'utf8')) as Record<string, unknown>;
    if (own !== version || appVersion !== version)
      return `${file}: set version and appVersion to ${version}, as in package.json`;
  }
  if (!(await readFile(join(root, 'Dockerfile'), 'utf8')).includes(`ARG VERSION=${version}\n`)) {
    return `Dockerfile: set VERSION to ${version}, as in package.json`;
  }
  return null;
}

async function release(): Promise<void> {
  await rm(output, { recursive: true, force: true });
  await mkdir(join(output, 'charts'), { recursive: true });
  // A build that is up to date stays: gateways may be serving it.
  await run('npm', ['run', 'prepare'], { cwd: root });
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', output], { cwd: root });
  for (const chart of charts) {
    const folder = join(output, 'charts', chart);
    await cp(join(root, 'manifests/helm', chart), folder, { recursive: true });
    if (chart === 'engine-gateway-crds') await cp(join(root, 'crds'), join(folder, 'files'), { recursive: true });
    await run(helm(), ['package', folder, '--destination', join(output, 'charts')]);
    await rm(folder, { recursive: true });
  }
  await writeFile(join(output, 'crds.yaml'), await joined(join(root, 'crds')));
  await writeJson('engine-gateway.cdx.json', await sbom());
  const artifacts = await digests();
  const { stdout: revision } = await git('rev-parse', 'HEAD');
  const remote = await git('remote', 'get-url', 'origin').then(
    ({ stdout }) => stdout.trim(),
    () => null,
  );
  const origin = {
    repository: remote === null || !/^https?:/.test(remote) ? null : `git+${withoutCredentials(remote)}`,
    revision: revision.trim(),
    builder: values.builder,
    ...{ startedOn, finishedOn: new Date(), version },
    lockFile: { name: 'package-lock.json', sha256: await sha256(join(root, 'package-lock.json')) },
  };
  await writeJson('provenance.intoto.json', provenance(artifacts, origin));
  const lines = (await digests()).map(({ name, sha256: digest }) => `${digest}  ${name}\n`);
  await writeFile(join(output, 'SHA256SUMS'), lines.join(''));
  console.log(`${lines.length + 1} files in ${output}`);
}

/** The bill of materials of what the image and the package hold. */
async function sbom(): Promise<Sbom> {
  const { stdout } = await run(
    'npm',
    ['sbom', '--package-lock-only', '--sbom-format=cyclonedx', '--sbom-type=application'],
    { cwd: root, maxBuffer: 100_000_000 },
  );
  const locked = await readLockedPackages(join(root, 'package-lock.json'));
  const bundled = await Promise.all(
    ['dist/server', 'dist/ui'].map(
      async (build) => JSON.parse(await readFile(bundledPackagesFile(build), 'utf8')) as readonly string[],
    ),
  );
  const shipped = new Set([...packagesWithDependencies(locked, serverExternals), ...bundled.flat()]);
  return shippedSbom(JSON.parse(stdout) as Sbom, locked, shipped);
}

/** The YAML files of a folder as one. */
async function joined(folder: string): Promise<string> {
  const files = (await readdir(folder)).filter((file) => file.endsWith('.yaml')).sort();
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')));
  return texts.map((text) => `---\n${text.replace(/^(#.*\n)*---\n/, '')}`).join('');
}

async function digests(): Promise<readonly Artifact[]> {
  const entries = await readdir(output, { recursive: true, withFileTypes: true });
  const names = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(output.length + 1))
    .sort();
  return await Promise.all(names.map(async (name) => ({ name, sha256: await sha256(join(output, name)) })));
}

async function sha256(file: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(file))
    .digest('hex');
}

async function writeJson(name: string, value: object): Promise<void> {
  await writeFile(join(output, name), `${JSON.stringify(value, null, 2)}\n`);
}

function git(...args: readonly string[]): Promise<{ readonly stdout: string }> {
  return run('git', [...args], { cwd: root });
}

/** A URL without the user and password that some CI systems write into it. */
function withoutCredentials(url: string): string {
  const parsed = new URL(url);
  parsed.username = '';
  parsed.password = '';
  return parsed.href;
}

/** helm, on the path or as the operator suite installs it. */
function helm(): string {
  const own = join(root, '.cache/bin/helm');
  return existsSync(own) ? own : 'helm';
}
